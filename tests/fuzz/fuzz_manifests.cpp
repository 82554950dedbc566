// SPDX-License-Identifier: Apache-2.0
// A changing directory of manifests: whatever the files contain, the reported changes are consistent and the
// objects can be planned. Input: parts separated by zero bytes. Part i becomes the content of file i modulo 4
// (a.yaml, b.json, c.yaml, d.json); an empty part removes that file.
#include <array>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "k8s/encoding/text_position.hpp"
#include "k8s/encoding/yaml.hpp"
#include "k8s/manifests/manifest_set.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/world.hpp"

namespace lb::fuzz {
namespace {

using k8s::Kind;
using k8s::ObjectId;

const std::array<std::string, 4> files = {"a.yaml", "b.json", "c.yaml", "d.json"};

/// Keeps and checks the objects that a source has reported.
class Ledger final : public k8s::Sink {
 public:
  void upsert(k8s::Service service) override { put({Kind::service, service.key}, service); }
  void upsert(k8s::EndpointSlice slice) override { put({Kind::slice, slice.key}, slice); }
  void upsert(k8s::Node node) override { put({Kind::node, {"", node.name}}, node); }
  void upsert(k8s::ServiceCidr cidr) override { put({Kind::service_cidr, {"", cidr.name}}, cidr); }
  void erase_service(const k8s::ObjectKey& key) override { erase({Kind::service, key}); }
  void erase_slice(const k8s::ObjectKey& key) override { erase({Kind::slice, key}); }
  void erase_node(const std::string& name) override { erase({Kind::node, {"", name}}); }
  void erase_service_cidr(const std::string& name) override { erase({Kind::service_cidr, {"", name}}); }
  void complain(k8s::Complaint complaint) override {
    require(!complaint.reason.empty() && !complaint.where.empty(), "a complaint has a reason and a place");
  }
  void flush() override {
    require(unflushed_ > 0, "a flush follows changes");
    unflushed_ = 0;
  }
  void synced() override { require(false, "a set does not know when it is complete"); }

  /// Called after apply().
  void check_flushed() const { require(unflushed_ == 0, "changes are followed by a flush"); }

  std::map<ObjectId, k8s::Object> objects;
  std::size_t changes = 0;

 private:
  void note() {
    ++changes;
    ++unflushed_;
  }
  void put(const ObjectId& id, k8s::Object object) {
    const auto known = objects.find(id);
    require(known == objects.end() || known->second != object, "only what is different is reported");
    objects.insert_or_assign(id, std::move(object));
    note();
  }
  void erase(const ObjectId& id) {
    require(objects.erase(id) == 1, "only what was reported is erased");
    note();
  }

  std::size_t unflushed_ = 0;
};

/// A set of manifests, its ledger, and a clock that advances with every step.
class Directory {
 public:
  void put(const std::string& file, std::string_view text) {
    if (text.empty()) {
      set_.erase(file, tick());
    } else {
      set_.put(file, text, tick());
    }
    apply();
  }
  void clear() {
    for (const auto& file : files) {
      put(file, "");
    }
  }
  [[nodiscard]] const Ledger& ledger() const { return ledger_; }

 private:
  void apply() {
    set_.apply(now_);
    ledger_.check_flushed();
    set_.complaints().report_settled(ledger_, tick());
  }
  k8s::ManifestSet::TimePoint tick() { return now_ += std::chrono::seconds(1); }

  Ledger ledger_;
  k8s::ManifestSet set_{ledger_};
  k8s::ManifestSet::TimePoint now_{};
};

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto end = text.find('\0');
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

void check_yaml(std::string_view text) {
  if (!k8s::valid_utf8(text)) {
    return;
  }
  const auto result = k8s::yaml_to_json(text);
  const auto lines = k8s::line_at(text, text.size());
  require(result.line <= lines, "an error is on a line that there is");
  if (!result.error.empty()) {
    return;
  }
  require(k8s::is_json(result.json), "YAML becomes JSON");
  // An omitted value at the end has the position at which the parser notices it.
  require(k8s::line_at(result.json, result.json.size()) <= lines + 1, "JSON stands on the lines of its YAML");
}

/// Checks that reading the files in another order gives the same objects.
void check_order(const std::vector<std::string_view>& parts, const Ledger& expected) {
  Directory directory;
  for (auto i = parts.size(); i-- > 0;) {
    directory.put(files.at(i), parts[i]);
  }
  require(directory.ledger().objects == expected.objects,
          "the order in which files are read does not matter");
}

void read(const std::vector<std::string_view>& parts) {
  Directory directory;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& file = files.at(i % files.size());
    directory.put(file, parts[i]);
    const auto reported = directory.ledger().changes;
    directory.put(file, parts[i]);
    require(directory.ledger().changes == reported, "the same text again changes nothing");
  }
  if (parts.size() <= files.size()) {
    check_order(parts, directory.ledger());
  }
  for (const auto& [id, object] : directory.ledger().objects) {
    World(object).visit(object);
  }
  directory.clear();
  require(directory.ledger().objects.empty(), "without files there are no objects");
}

}  // namespace
}  // namespace lb::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parts = lb::fuzz::split({reinterpret_cast<const char*>(data), size});
  for (const auto part : parts) {
    lb::fuzz::check_yaml(part);
  }
  lb::fuzz::read(parts);
  return 0;
}
