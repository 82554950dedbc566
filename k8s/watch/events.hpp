// SPDX-License-Identifier: Apache-2.0
// Posts Kubernetes Events about objects, which `kubectl describe` shows. No socket and no clock: connection,
// timer and time are injected.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "k8s/client/transport.hpp"
#include "k8s/objects/model.hpp"
#include "k8s/objects/source.hpp"
#include "k8s/watch/api_source.hpp"

namespace lb::k8s {

enum class EventSubject : std::uint8_t { service, node };

/// node: each node reports its own event; cluster: all nodes report the same event, which the API stores
/// once.
enum class EventScope : std::uint8_t { node, cluster };

enum class EventSeverity : std::uint8_t { warning, normal };

struct Event {
  ObjectKey object;    ///< a Node has no namespace
  std::string reason;  ///< "FailedToStartServiceHealthcheck"
  std::string message;
  EventSubject subject = EventSubject::service;
  std::string action = "Listen";  ///< the action that failed
  EventScope scope = EventScope::node;
  std::string uid = {};  ///< of a Service; empty: unknown, and `kubectl describe` does not show the Event
  EventSeverity severity = EventSeverity::warning;
};

/// The Event for the owner of a complaint's Service; nullopt if the complaint is about no Service, or for the
/// log only.
[[nodiscard]] std::optional<Event> event_of(const Complaint& complaint);

/// Posts one event at a time, on a best-effort basis: the same event, of the same type, about the same object
/// (of the same UID) is posted once in ten minutes; an event is dropped while 32 others wait; failed posts
/// are not retried.
class EventPoster {
 public:
  using Failure = std::function<void(std::string message)>;
  using WallClock = std::function<std::chrono::system_clock::time_point()>;

  static constexpr Time pause{600'000};    ///< between two equal events
  static constexpr Time deadline{10'000};  ///< for a response
  static constexpr std::size_t max_waiting = 32;

  /// `node`: name of the reporting node. `failure` is called for the first of several failures in a row.
  EventPoster(const ApiRuntime& runtime, WallClock wall, std::string node, Failure failure);
  ~EventPoster();
  EventPoster(const EventPoster&) = delete;
  EventPoster& operator=(const EventPoster&) = delete;

  void post(Event event);

 private:
  class Reader;

  void next();
  void finish(const std::string& problem);
  [[nodiscard]] std::string body(const Event& event) const;

  std::function<Time()> now_;
  WallClock wall_;
  std::string node_;
  Failure failure_;
  std::unique_ptr<Reader> reader_;
  std::unique_ptr<Alarm> alarm_;
  std::unique_ptr<ApiConnection> connection_;
  std::deque<Event> waiting_;
  std::map<std::tuple<ObjectKey, std::string, std::string>, Time>
      posted_;  ///< by object, UID, and type and reason
  bool busy_ = false;
  bool failing_ = false;
};

}  // namespace lb::k8s
