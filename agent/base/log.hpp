// SPDX-License-Identifier: Apache-2.0
// The log: spdlog on standard error, as text or one JSON object a line; each complaint is logged once, and at
// a limited rate.
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

/// The message of a fatal error as start_log() was told: "sluice: ...", or a JSON object, with a newline.
[[nodiscard]] std::string fatal_text(std::string_view message);
[[nodiscard]] std::string fatal_text(std::string_view message, LogFormat format);

/// Formats a record as one line, whatever characters it contains (escaped()).
[[nodiscard]] std::unique_ptr<spdlog::formatter> log_formatter(LogFormat format);

/// "Service default/web (web.yaml:12): reason", without unknown parts.
[[nodiscard]] std::string complaint_text(const k8s::Complaint& complaint);

/// The reason without its details: words with digits, slashes, colons or quotes are replaced, so that the
/// same problem with another address, name or number is of the same kind.
[[nodiscard]] std::string complaint_kind(std::string_view reason);

/// Remembers complaints, so that each is logged once (docs/semantics.md, choice J), and limits their rate:
/// one message of a kind about an object in a minute, whatever its owner does; further ones are counted and
/// reported when the minute is over. Bounded: if more than `capacity` are remembered, the oldest is forgotten
/// and may be logged again.
class Complaints {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::minutes pause{1};
  /// Kinds of messages about one object in a minute; further kinds count as one.
  static constexpr std::size_t max_kinds = 16;

  explicit Complaints(std::size_t capacity = 4096);

  /// Logs the complaint as a warning, unless it was logged before or is rate-limited. A recovery is logged as
  /// information; what is said of the object after it counts as new.
  void say(const k8s::Complaint& complaint, TimePoint now);
  /// Logs messages suppressed for a minute: the latest of each kind, with the number of the others.
  void log_suppressed(TimePoint now);

 private:
  /// One kind of message about one object, since it was logged last.
  struct RateLimit {
    TimePoint at;
    std::size_t suppressed = 0;
    std::string latest;  ///< latest suppressed message
    k8s::ComplaintType type = k8s::ComplaintType::problem;
  };
  using Kinds = std::unordered_map<std::string, RateLimit>;

  [[nodiscard]] bool is_new(const std::string& text);
  void forget(std::string_view object);

  std::size_t capacity_;
  std::unordered_set<std::string> known_;
  std::deque<std::string> order_;                       ///< known_, oldest first
  std::unordered_map<std::string, Kinds> rate_limits_;  ///< by object, for the last minute
  TimePoint next_check_;                                ///< next check for suppressed messages
};

}  // namespace lb::agent
