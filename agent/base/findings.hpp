// SPDX-License-Identifier: Apache-2.0
// The results of checking a machine: one line for each feature that the agent needs or can use. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/base/error.hpp"

namespace lb::agent {

enum class Severity : std::uint8_t {
  ok,
  warning,  ///< the agent starts, with a limitation or a note
  missing,  ///< the agent does not start
};

struct Finding {
  std::string subject;  ///< "cgroup", "program lb_tc_in", "device eth0"
  Severity severity = Severity::ok;
  std::string found;
  std::string advice;  ///< empty if there is none
  bool operator==(const Finding&) const = default;
};

/// "ok", "warning" or "missing".
[[nodiscard]] const char* severity_name(Severity severity);

/// Whether an agent would start: nothing is missing.
[[nodiscard]] bool would_start(const std::vector<Finding>& findings);

/// Collects findings. The agent's start and `sluice check` run the same checks and differ only in this: a
/// missing prerequisite ends a start, and is one more line of a check.
class Findings {
 public:
  enum class Missing : std::uint8_t { ends_start, is_listed };
  explicit Findings(Missing missing) : missing_(missing) {}

  void ok(std::string subject, std::string found);
  void warning(std::string subject, std::string found, std::string advice);
  /// Throws the error if missing prerequisites end the start.
  void missing(std::string subject, const StartError& error);

  /// Runs `check`, whose StartError is recorded as missing. Returns whether it succeeded.
  template <class Check>
  bool need(const std::string& subject, Check check) {
    try {
      check();
      return true;
    } catch (const StartError& error) {
      missing(subject, error);
      return false;
    }
  }

  /// Whether missing prerequisites are listed, instead of ending the start.
  [[nodiscard]] bool lists() const noexcept { return missing_ == Missing::is_listed; }
  [[nodiscard]] const std::vector<Finding>& all() const noexcept { return all_; }

 private:
  Missing missing_;
  std::vector<Finding> all_;
};

}  // namespace lb::agent
