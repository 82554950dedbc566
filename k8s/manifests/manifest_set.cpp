// Parses files to definitions, chooses the first file's definition, and reports the differences from earlier
// reports.
#include "k8s/manifests/manifest_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "k8s/encoding/documents.hpp"
#include "k8s/encoding/framing.hpp"
#include "k8s/encoding/text_position.hpp"

namespace lb::k8s {
namespace {

constexpr std::string_view keeps = "; the last good state stays";

void erase_from(Sink& sink, const ObjectId& id) {
  switch (id.kind) {
    case Kind::service:
      sink.erase_service(id.key);
      break;
    case Kind::slice:
      sink.erase_slice(id.key);
      break;
    case Kind::node:
      sink.erase_node(id.key.name);
      break;
    case Kind::service_cidr:
      sink.erase_service_cidr(id.key.name);
      break;
    case Kind::other:
      break;
  }
}

bool blank(std::string_view text) { return skip_space(text, 0) == text.size(); }

}  // namespace

std::string ObjectId::text() const { return fmt::format("{} {}", kind_text(kind), key.text()); }

/// Collects a file's definitions and problems.
class ManifestSet::Reader final : public DocumentVisitor {
 public:
  Reader(std::string file, Decoder& decoder, const Definitions& before)
      : file_(std::move(file)), decoder_(decoder), before_(before) {}

  void object(std::string_view json, Kind expected, std::size_t line) override {
    auto decoded = decoder_.decode(json, expected);
    complain(json, decoded, line);
    const bool named = decoded.kind != Kind::other && !decoded.key.name.empty();
    switch (decoded.result) {
      case DecodeResult::object:
        define({decoded.kind, decoded.key}, std::make_shared<const Object>(std::move(*decoded.object)), line);
        break;
      case DecodeResult::absent:
        define({decoded.kind, decoded.key}, nullptr, line);
        break;
      case DecodeResult::refused:
        if (named) {
          keep({decoded.kind, decoded.key});
        } else {
          broken_ = true;
        }
        break;
      case DecodeResult::foreign:
        break;
    }
  }

  void broken(std::size_t line, std::string reason) override {
    broken_ = true;
    complain("", line, std::move(reason) + std::string(keeps));
  }

  void complain(std::string object, std::size_t line, std::string reason) {
    complaints_.push_back({std::move(object), fmt::format("{}:{}", file_, line), std::move(reason)});
  }

  /// All definitions in effect now.
  Definitions take_definitions() {
    if (broken_) {
      // Does not replace definitions that the file still has.
      definitions_.insert(before_.begin(), before_.end());
    }
    return std::move(definitions_);
  }
  std::vector<Complaint> take_complaints() { return std::move(complaints_); }

 private:
  void define(const ObjectId& id, std::shared_ptr<const Object> object, std::size_t line) {
    const auto [first, is_new] = definitions_.try_emplace(id, Definition{std::move(object), line});
    if (!is_new) {
      complain(id.text(), line, fmt::format("is already defined in line {}, which wins", first->second.line));
    }
  }

  void keep(const ObjectId& id) {
    if (const auto old = before_.find(id); old != before_.end()) {
      definitions_.insert(*old);
    }
  }

  void complain(std::string_view json, const Decoded& decoded, std::size_t line) {
    const auto object = decoded.key.name.empty() ? "" : ObjectId{decoded.kind, decoded.key}.text();
    for (const auto& problem : decoded.problems) {
      const auto at = decoded.broken_at ? *decoded.broken_at : locate(json, problem.pointer);
      const auto path = field_path(problem.pointer);
      const bool refused = decoded.result == DecodeResult::refused && &problem == &decoded.problems.back();
      complain(object, line + line_at(json, at),
               fmt::format("{}{}{}{}", path, path.empty() ? "" : " ", problem.reason, refused ? keeps : ""));
    }
  }

  std::string file_;
  Decoder& decoder_;
  const Definitions& before_;
  Definitions definitions_;
  std::vector<Complaint> complaints_;
  bool broken_ = false;
};

ManifestSet::ManifestSet(Sink& sink) : sink_(sink), decoder_(json_decoder(Origin::manifest)) {}

void ManifestSet::put(const std::string& file, std::string_view text, TimePoint now) {
  Reader reader(file, *decoder_, files_[file]);
  if (blank(text)) {
    reader.broken(1, "is empty (to delete its objects, delete the file)");
  } else {
    read_documents(text, file.ends_with(".json") ? Format::json : Format::yaml, reader);
  }
  complaints_.set(file, reader.take_complaints(), now);
  replace(file, reader.take_definitions());
}

void ManifestSet::unreadable(const std::string& file, std::string reason, TimePoint now) {
  complaints_.set(file, {{"", file, std::move(reason) + std::string(keeps)}}, now);
}

void ManifestSet::erase(const std::string& file, TimePoint now) {
  complaints_.set(file, {}, now);
  replace(file, {});
  files_.erase(file);
}

void ManifestSet::replace(const std::string& file, Definitions definitions) {
  auto& held = files_[file];
  for (const auto& [id, definition] : held) {
    if (!definitions.contains(id)) {
      owners_[id].erase(file);
      changed_.insert(id);
    }
  }
  for (const auto& [id, definition] : definitions) {
    owners_[id].insert(file);
    changed_.insert(id);
  }
  held = std::move(definitions);
}

std::shared_ptr<const Object> ManifestSet::winner(const ObjectId& id) const {
  const auto owners = owners_.find(id);
  if (owners == owners_.end() || owners->second.empty()) {
    return nullptr;
  }
  return files_.at(*owners->second.begin()).at(id).object;
}

void ManifestSet::complain_of_rivals(const ObjectId& id, TimePoint now) {
  std::vector<Complaint> complaints;
  const auto& owners = owners_[id];
  for (const auto& file : owners) {
    if (file != *owners.begin()) {
      complaints.push_back({id.text(), fmt::format("{}:{}", file, files_.at(file).at(id).line),
                            fmt::format("is already defined in {}, which wins", *owners.begin())});
    }
  }
  complaints_.set("object " + id.text(), std::move(complaints), now);
  if (owners.empty()) {
    owners_.erase(id);
  }
}

void ManifestSet::report(const ObjectId& id, const std::shared_ptr<const Object>& object) {
  if (!object) {
    reported_.erase(id);
    erase_from(sink_, id);
    return;
  }
  reported_[id] = object;
  std::visit([this](const auto& value) { sink_.upsert(std::remove_cvref_t<decltype(value)>(value)); },
             *object);
}

void ManifestSet::apply(TimePoint now) {
  std::vector<std::pair<ObjectId, std::shared_ptr<const Object>>> upserts;
  std::vector<ObjectId> deletions;
  for (const auto& id : std::exchange(changed_, {})) {
    complain_of_rivals(id, now);
    auto object = winner(id);
    const auto reported = reported_.find(id);
    if (!object && reported != reported_.end()) {
      deletions.push_back(id);
    } else if (object && (reported == reported_.end() || *reported->second != *object)) {
      upserts.emplace_back(id, std::move(object));
    } else if (object) {
      reported->second = std::move(object);  // equal: keep only one copy
    }
  }
  for (const auto& id : deletions) {
    report(id, nullptr);
  }
  for (const auto& [id, object] : upserts) {
    report(id, object);
  }
  if (!deletions.empty() || !upserts.empty()) {
    sink_.flush();
  }
}

}  // namespace lb::k8s
