// The results of checking a machine: one line for each thing that the agent needs or can use. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/base/error.hpp"

namespace lb::agent {

enum class Verdict : std::uint8_t {
  ok,
  warning,  ///< the agent starts, and something is lost or should be known
  missing,  ///< the agent does not start
};

struct Finding {
  std::string subject;  ///< "cgroup", "program lb_tc_in", "device eth0"
  Verdict verdict = Verdict::ok;
  std::string found;
  std::string advice;  ///< what to do; empty where there is nothing to do
  bool operator==(const Finding&) const = default;
};

/// "ok", "warning" or "missing".
[[nodiscard]] const char* verdict_name(Verdict verdict);

/// Would an agent start? Only if nothing is missing.
[[nodiscard]] bool would_start(const std::vector<Finding>& findings);

/// Takes findings as they are made. The agent's start and `sluice check` go through the same checks and
/// differ in this alone: what is missing ends the start, and is one line more of a check.
class Findings {
 public:
  enum class Missing : std::uint8_t { ends_start, is_listed };
  explicit Findings(Missing missing) : missing_(missing) {}

  void ok(std::string subject, std::string found);
  void warning(std::string subject, std::string found, std::string advice);
  /// Throws the error where what is missing ends the start.
  void missing(std::string subject, const StartError& error);

  /// Runs `check`, for which a StartError is what is missing. Was nothing?
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

  /// Is what is missing a line of a list, and not the end?
  [[nodiscard]] bool lists() const noexcept { return missing_ == Missing::is_listed; }
  [[nodiscard]] const std::vector<Finding>& all() const noexcept { return all_; }

 private:
  Missing missing_;
  std::vector<Finding> all_;
};

}  // namespace lb::agent
