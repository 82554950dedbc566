// SPDX-License-Identifier: Apache-2.0
// Sends a GET, then a PATCH, each with a deadline; after a failure both are retried.
#include "k8s/watch/startup_taint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <utility>
#include <vector>

namespace lb::k8s {
namespace {

namespace json = boost::json;

/// Indexes of the taints with this key, in descending order.
std::vector<std::size_t> places_of(const json::value& node, std::string_view key) {
  std::vector<std::size_t> places;
  boost::system::error_code none;
  const auto* taints = node.find_pointer("/spec/taints", none);
  if (taints == nullptr || !taints->is_array()) {
    return places;
  }
  const auto& array = taints->get_array();
  for (auto index = array.size(); index-- > 0;) {
    const auto* found = array[index].find_pointer("/key", none);
    if (found != nullptr && found->is_string() && found->get_string() == key) {
      places.push_back(index);
    }
  }
  return places;
}

json::object step(std::string_view what, std::string path) {
  return {{"op", what}, {"path", std::move(path)}};
}

}  // namespace

std::optional<std::string> patch_without_taint(std::string_view node, std::string_view key) {
  boost::system::error_code error;
  const auto parsed = json::parse(node, error);
  if (error || !parsed.is_object()) {
    return std::nullopt;
  }
  json::array steps;
  for (const auto index : places_of(parsed, key)) {
    auto test = step("test", fmt::format("/spec/taints/{}/key", index));
    test["value"] = key;
    steps.push_back(std::move(test));
    steps.push_back(step("remove", fmt::format("/spec/taints/{}", index)));
  }
  return steps.empty() ? std::string() : json::serialize(steps);
}

/// Buffers the whole response; a Node is small.
class StartupTaint::Reader final : public ResponseHandler {
 public:
  explicit Reader(StartupTaint& owner) : owner_(owner) {}

  ReadControl head(const ApiHead& head) override {
    status_ = head.status;
    return ReadControl::proceed;
  }
  ReadControl body(std::string_view bytes) override {
    if (body_.size() + bytes.size() > max_bytes) {
      return ReadControl::stop;
    }
    body_ += bytes;
    return ReadControl::proceed;
  }
  void end(End how, std::string detail) override {
    const auto status = std::exchange(status_, 0U);
    const auto body = std::exchange(body_, std::string());
    if (how == End::complete) {
      owner_.answered(status, body, detail);
    } else {
      owner_.failed(how == End::stopped ? "the Node is too large" : detail);
    }
  }
  void forget() {
    status_ = 0;
    body_.clear();
  }

 private:
  StartupTaint& owner_;
  unsigned status_ = 0;
  std::string body_;
};

StartupTaint::StartupTaint(const ApiRuntime& runtime, std::string node, std::string key, Report report)
    : now_(runtime.now),
      node_(std::move(node)),
      key_(std::move(key)),
      report_(std::move(report)),
      reader_(std::make_unique<Reader>(*this)),
      alarm_(runtime.alarm()),
      connection_(runtime.connection()) {}

StartupTaint::~StartupTaint() { connection_->cancel(); }

void StartupTaint::remove() { read(); }

void StartupTaint::read() {
  patching_ = false;
  ask({.target = "/api/v1/nodes/" + node_, .accept = "application/json"});
}

void StartupTaint::patch(const std::string& node) {
  const auto patch = patch_without_taint(node, key_);
  if (!patch) {
    return failed("what it sent is not a Node");
  }
  if (patch->empty()) {
    alarm_->set(now_(), [] {});
    return report_.done(fmt::format("Node {} has no taint {}", node_, key_));
  }
  patching_ = true;
  ask({.target = "/api/v1/nodes/" + node_,
       .accept = "application/json",
       .body = *patch,
       .method = BodyMethod::json_patch});
}

void StartupTaint::ask(ApiRequest request) {
  alarm_->set(now_() + deadline, [this] {
    connection_->cancel();
    reader_->forget();
    failed("no answer in time");
  });
  connection_->ask(request, *reader_);
}

void StartupTaint::answered(unsigned status, const std::string& body, const std::string& server) {
  if (status / 100 != 2) {
    return failed(fmt::format("{}: answer {}{}", server, status,
                              status == 403 ? ", the right to get and patch nodes is missing" : ""));
  }
  if (!patching_) {
    return patch(body);
  }
  alarm_->set(now_(), [] {});
  report_.done(fmt::format("removed the taint {} from Node {}", key_, node_));
}

void StartupTaint::failed(const std::string& problem) {
  if (!std::exchange(failing_, true)) {
    report_.failure(
        fmt::format("cannot remove the taint {} from Node {}, and tries again: {}", key_, node_, problem));
  }
  alarm_->set(now_() + pause_, [this] { read(); });
  pause_ = std::min(pause_ * 2, max_pause);
}

}  // namespace lb::k8s
