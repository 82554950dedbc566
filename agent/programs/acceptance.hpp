// SPDX-License-Identifier: Apache-2.0
// What the kernel accepts of the programs, and what an agent does without the rest. The order of attempts is
// fixed; docs/kernels.md shows it. Pure: the caller loads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agent/programs/features.hpp"

namespace lb::agent {

/// The result of loading one program.
struct ProgramProbe {
  std::string name;
  std::uint32_t instructions = 0;  ///< instructions processed by the verifier; 0: unknown
  std::string refusal;             ///< why the kernel refused it; empty: it was loaded
  bool operator==(const ProgramProbe&) const = default;
};

/// One attempt to load a program that failed.
struct RefusedAttempt {
  std::string without;  ///< names of the features that it left unused for this attempt; empty: none
  std::string reason;   ///< the verifier's last words
  bool operator==(const RefusedAttempt&) const = default;
};

/// A program that the kernel refuses as configured.
struct ProgramRefusal {
  std::string program;
  std::vector<RefusedAttempt> attempts;  ///< at least one, in their order
  std::string without;                   ///< the features without which it loads; empty: it is left out
  bool operator==(const ProgramRefusal&) const = default;
};

/// Which programs to load, and by which features. Initially all; the kernel's refusals reduce both.
struct Acceptance {
  Features features;
  std::set<std::string> left_out = {};        ///< programs that are refused, or useless without one that is
  std::vector<ProgramRefusal> refusals = {};  ///< of refused programs
  std::map<std::string, ProgramProbe> loads = {};  ///< by name: programs that were tried and accepted
};

/// Loads programs by way of trial.
struct ProgramTrial {
  /// Names of the programs that would be loaded with these features, in the order of loading.
  std::function<std::vector<std::string>(const Features&)> chosen;
  /// Loads one of them alone, and drops it.
  std::function<ProgramProbe(const std::string& program, const Features&)> load;
};

/// Tries each program; one that is refused is tried without each of its features, then without all of them.
[[nodiscard]] Acceptance accept_programs(const Features& features, const ProgramTrial& trial);

/// Why nothing could be served, of the programs that options choose; empty: sockets, uplinks or pods' devices
/// can be served.
[[nodiscard]] std::string nothing_served(const std::vector<std::string>& chosen, const Acceptance& accepted);

/// "lb_xdp refused: tc serves alone", or "lb_tc_in refused with tc-fastpath".
[[nodiscard]] std::string refusal_effect(const ProgramRefusal& refusal);
/// The same with the verifier's words, for the log and an Event.
[[nodiscard]] std::string refusal_text(const ProgramRefusal& refusal);

}  // namespace lb::agent
