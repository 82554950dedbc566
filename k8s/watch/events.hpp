// Posts Events about objects to the API, which people see by `kubectl describe`. No socket and no clock:
// connection, timer and time are injected.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "k8s/client/transport.hpp"
#include "k8s/objects/model.hpp"
#include "k8s/objects/source.hpp"
#include "k8s/watch/api_source.hpp"

namespace lb::k8s {

enum class EventSubject : std::uint8_t { service, node };

/// Whether each node reports what it met, or all nodes say the same of an object: the API keeps that once.
enum class EventScope : std::uint8_t { node, cluster };

/// Always a warning.
struct Event {
  ObjectKey object;    ///< a Node's has no namespace
  std::string reason;  ///< "FailedToStartServiceHealthcheck"
  std::string message;
  EventSubject subject = EventSubject::service;
  std::string action = "Listen";  ///< what was tried
  EventScope scope = EventScope::node;
};

/// What a complaint tells its Service's owner; nothing: it tells of no Service, or only the log.
[[nodiscard]] std::optional<Event> event_of(const Complaint& complaint);

/// Posts one event at a time. The same about the same object is reported once in ten minutes, what finds 32
/// others waiting not at all, and what fails not again: an event is a courtesy.
class EventPoster {
 public:
  using Failure = std::function<void(std::string sentence)>;
  using WallClock = std::function<std::chrono::system_clock::time_point()>;

  static constexpr Time pause{600'000};    ///< between two equal ones
  static constexpr Time deadline{10'000};  ///< for an answer
  static constexpr std::size_t most_waiting = 32;

  /// `node`: who reports. `failure` hears of the first of several failures.
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
  std::map<std::pair<ObjectKey, std::string>, Time> posted_;
  bool busy_ = false;
  bool failing_ = false;
};

}  // namespace lb::k8s
