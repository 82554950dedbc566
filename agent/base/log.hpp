// The log: spdlog on standard error, as text or one JSON object a line; each complaint is logged once, and at
// a bounded rate.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "agent/options/config.hpp"
#include "k8s/objects/source.hpp"

namespace spdlog {
class formatter;
}

namespace lb::agent {

/// Sets up spdlog's default logger. Times are UTC.
void start_log(LogLevel level, LogFormat format);

/// What turns a record into one line, whatever its words are (escaped()).
[[nodiscard]] std::unique_ptr<spdlog::formatter> log_formatter(LogFormat format);

/// "Service default/web (web.yaml:12): reason", without the parts that are not known.
[[nodiscard]] std::string complaint_text(const k8s::Complaint& complaint);

/// What a reason says without what it says it of: words with digits, slashes, colons or quotes are left out,
/// so that the same trouble with another address, name or number is the same kind.
[[nodiscard]] std::string complaint_kind(std::string_view reason);

/// Remembers what was complained about, so that the log says each thing once ("Our choices" J), and in any
/// minute one sentence of a kind about an object, whatever its owner does to it: what comes meanwhile is
/// counted and reported when the minute is over. Bounded: when more than `capacity` are remembered, the
/// oldest is forgotten and would be said again.
class Complaints {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::minutes pause{1};
  /// Kinds of sentences about one object in a minute; further ones count as one more kind.
  static constexpr std::size_t most_kinds = 16;

  explicit Complaints(std::size_t capacity = 4096);

  /// Logs it as a warning, unless it was logged before or is rate-limited.
  void say(const k8s::Complaint& complaint, Moment now);
  /// Logs what has been rate-limited for long enough: the latest of each kind, with the number of the others.
  void log_suppressed(Moment now);

 private:
  /// One kind about one object, since it was said last.
  struct Said {
    Moment at;
    std::size_t suppressed = 0;
    std::string latest;  ///< of those held back
  };
  using Kinds = std::unordered_map<std::string, Said>;

  [[nodiscard]] bool is_new(const std::string& text);

  std::size_t capacity_;
  std::unordered_set<std::string> known_;
  std::deque<std::string> order_;                ///< the same, oldest first
  std::unordered_map<std::string, Kinds> said_;  ///< by object, in the last minute
  Moment next_look_;                             ///< for what was held back
};

}  // namespace lb::agent
