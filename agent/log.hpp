// The log: spdlog on standard error, as text or one JSON object a line; complaints are said once.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <unordered_set>

#include "agent/config.hpp"
#include "k8s/source.hpp"

namespace spdlog {
class formatter;
}

namespace lb::agent {

/// Sets up spdlog's default logger. Times are UTC.
void start_log(LogLevel level, LogFormat format);

/// What turns a record into a line.
[[nodiscard]] std::unique_ptr<spdlog::formatter> log_formatter(LogFormat format);

/// "Service default/web (web.yaml:12): reason", without the parts that are not known.
[[nodiscard]] std::string complaint_text(const k8s::Complaint& complaint);

/// Remembers what was complained about, so that the log says each thing once ("Our choices" J). Bounded: when
/// more than `capacity` are remembered, the oldest is forgotten and would be said again.
class Complaints {
 public:
  explicit Complaints(std::size_t capacity = 4096);

  /// Logs it as a warning unless it was logged before.
  void say(const k8s::Complaint& complaint);

 private:
  [[nodiscard]] bool is_new(const std::string& text);

  std::size_t capacity_;
  std::unordered_set<std::string> known_;
  std::deque<std::string> order_;  ///< the same, oldest first
};

}  // namespace lb::agent
