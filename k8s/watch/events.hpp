// Posts to the API what happened to an object, as an Event: what people see by `kubectl describe`. No socket
// and no clock: connection, alarm and time are given.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "k8s/client/transport.hpp"
#include "k8s/objects/model.hpp"
#include "k8s/watch/api_source.hpp"

namespace lb::k8s {

enum class EventSubject : std::uint8_t { service, node };

/// Always a warning.
struct Event {
  ObjectKey object;    ///< a Node's has no namespace
  std::string reason;  ///< "FailedToStartServiceHealthcheck"
  std::string message;
  EventSubject subject = EventSubject::service;
  std::string action = "Listen";  ///< what was tried
};

/// Posts one event at a time. The same about the same object is reported once in ten minutes, what finds 32
/// others waiting not at all, and what fails not again: an event is a courtesy.
class EventPoster {
 public:
  using Trouble = std::function<void(std::string sentence)>;
  using WallClock = std::function<std::chrono::system_clock::time_point()>;

  static constexpr Time pause{600'000};    ///< between two equal ones
  static constexpr Time deadline{10'000};  ///< for an answer
  static constexpr std::size_t most_waiting = 32;

  /// `node`: who reports. `trouble` hears of the first of several failures.
  EventPoster(const ApiRuntime& runtime, WallClock wall, std::string node, Trouble trouble);
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
  Trouble trouble_;
  std::unique_ptr<Reader> reader_;
  std::unique_ptr<Alarm> alarm_;
  std::unique_ptr<ApiConnection> connection_;
  std::deque<Event> waiting_;
  std::map<std::pair<ObjectKey, std::string>, Time> posted_;
  bool busy_ = false;
  bool failing_ = false;
};

}  // namespace lb::k8s
