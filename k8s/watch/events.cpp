// SPDX-License-Identifier: Apache-2.0
// Sends one request after the other; the response is used for the log only.
#include "k8s/watch/events.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <ctime>
#include <utility>

namespace lb::k8s {
namespace {

namespace json = boost::json;

const char* type_name(EventSeverity type) { return type == EventSeverity::warning ? "Warning" : "Normal"; }

std::string text_of(std::chrono::system_clock::time_point time) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

constexpr unsigned already_exists = 409;

/// Events about objects without a namespace are stored in "default", as client-go does.
std::string name_space_of(const Event& event) {
  return event.subject == EventSubject::node ? "default" : event.object.name_space;
}

/// `kubectl describe` searches for the UID. A Node's name is also used as its UID, as kube-proxy and the
/// kubelet do.
json::object reference_to(const Event& event) {
  const auto& object = event.object;
  if (event.subject == EventSubject::node) {
    return {{"kind", "Node"}, {"apiVersion", "v1"}, {"name", object.name}, {"uid", object.name}};
  }
  json::object reference = {
      {"kind", "Service"}, {"apiVersion", "v1"}, {"namespace", object.name_space}, {"name", object.name}};
  if (!event.uid.empty()) {
    reference["uid"] = event.uid;
  }
  return reference;
}

/// FNV-1a hash.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char each : text) {
    hash = (hash ^ static_cast<unsigned char>(each)) * 0x100000001b3;
  }
  return hash;
}

/// Events of scope `cluster` have the same name on all nodes, so that the API accepts the first and rejects
/// the others (409).
json::object metadata_of(const Event& event) {
  json::object metadata;
  if (event.scope == EventScope::cluster) {
    const auto said = hash_of(event.reason + event.message + event.uid);
    metadata["name"] = fmt::format("{}.{:016x}", event.object.name, said);
  } else {
    metadata["generateName"] = event.object.name + ".";
  }
  metadata["namespace"] = name_space_of(event);
  return metadata;
}

constexpr std::string_view service_prefix = "Service ";

}  // namespace

std::optional<Event> event_of(const Complaint& complaint) {
  const auto slash = complaint.object.find('/');
  if (complaint.event.empty() || !complaint.object.starts_with(service_prefix) ||
      slash == std::string::npos) {
    return std::nullopt;
  }
  const auto name_space = complaint.object.substr(0, slash).substr(service_prefix.size());
  return Event{{name_space, complaint.object.substr(slash + 1)},
               complaint.event,
               complaint.reason,
               EventSubject::service,
               "Plan",
               EventScope::cluster,
               complaint.uid,
               complaint.type == ComplaintType::problem ? EventSeverity::warning : EventSeverity::normal};
}

constexpr std::string_view missing =
    ", the right to create events is missing; k8s/deploy/account.yaml grants it";

/// Keeps the response's status and discards its body.
class EventPoster::Reader final : public ResponseHandler {
 public:
  explicit Reader(EventPoster& owner) : owner_(owner) {}

  ReadControl head(const ApiHead& head) override {
    status_ = head.status;
    return ReadControl::proceed;
  }
  ReadControl body(std::string_view /*bytes*/) override { return ReadControl::proceed; }
  void end(End how, std::string detail) override {
    const auto status = std::exchange(status_, 0U);
    if (how != End::complete) {
      owner_.finish(detail);
    } else {
      const bool is_kept = status / 100 == 2 || status == already_exists;
      owner_.finish(is_kept ? ""
                            : fmt::format("{}: answer {}{}", detail, status, status == 403 ? missing : ""));
    }
  }

 private:
  EventPoster& owner_;
  unsigned status_ = 0;
};

EventPoster::EventPoster(const ApiRuntime& runtime, WallClock wall, std::string node, Failure failure)
    : now_(runtime.now),
      wall_(std::move(wall)),
      node_(std::move(node)),
      failure_(std::move(failure)),
      reader_(std::make_unique<Reader>(*this)),
      alarm_(runtime.alarm()),
      connection_(runtime.connection()) {}

EventPoster::~EventPoster() { connection_->cancel(); }

void EventPoster::post(Event event) {
  const auto now = now_();
  std::erase_if(posted_, [now](const auto& posted) { return now - posted.second >= pause; });
  if (waiting_.size() == max_waiting ||
      !posted_.try_emplace({event.object, event.uid, type_name(event.severity) + event.reason}, now).second) {
    return;
  }
  waiting_.push_back(std::move(event));
  if (!busy_) {
    next();
  }
}

void EventPoster::next() {
  if (waiting_.empty()) {
    return;
  }
  const auto event = std::move(waiting_.front());
  waiting_.pop_front();
  busy_ = true;
  alarm_->set(now_() + deadline, [this] {
    if (busy_) {
      connection_->cancel();
      finish("no answer in time");
    }
  });
  ApiRequest request;
  request.target = fmt::format("/api/v1/namespaces/{}/events", name_space_of(event));
  request.accept = "application/json";
  request.body = body(event);
  connection_->ask(request, *reader_);
}

void EventPoster::finish(const std::string& problem) {
  busy_ = false;
  if (!problem.empty() && !failing_) {
    failure_(fmt::format("an event could not be posted to the API: {}", problem));
  }
  failing_ = !problem.empty();
  next();
}

std::string EventPoster::body(const Event& event) const {
  const auto time = text_of(wall_());
  const json::object body = {
      {"kind", "Event"},
      {"apiVersion", "v1"},
      {"metadata", metadata_of(event)},
      {"involvedObject", reference_to(event)},
      {"type", type_name(event.severity)},
      {"reason", event.reason},
      {"action", event.action},
      {"message", event.message},
      {"source", {{"component", "sluice"}, {"host", node_}}},
      {"reportingComponent", "sluice"},
      {"reportingInstance", node_},
      {"firstTimestamp", time},
      {"lastTimestamp", time},
      {"count", 1},
  };
  return json::serialize(body);
}

}  // namespace lb::k8s
