// SPDX-License-Identifier: Apache-2.0
// The formats are those of kernel/bpf/verifier.c and log.c, from 6.1 on.
#include "agent/programs/verifier_log.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

namespace lb::agent {
namespace {

constexpr auto npos = std::string_view::npos;

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

std::string_view trimmed(std::string_view line) {
  const auto first = line.find_first_not_of(" \t\r");
  const auto last = line.find_last_not_of(" \t\r");
  return first == npos ? std::string_view() : line.substr(first, last - first + 1);
}

/// An instruction, "12: (85) call …", or the register state after it, "12: R0=…".
bool is_instruction(std::string_view line) {
  const auto digits = line.find_first_not_of("0123456789");
  return digits != npos && digits > 0 && line.substr(digits).starts_with(": ");
}

/// A register state: "R0=scalar() R1_w=ctx(off=0,imm=0) R10=fp0". "R4 invalid …" is a reason.
bool is_registers(std::string_view line) {
  if (line.starts_with("frame")) {
    const auto colon = line.find(": ");
    return colon != npos && is_registers(line.substr(colon + 2));
  }
  if (line.size() < 3 || line[0] != 'R' || !is_digit(line[1])) {
    return false;
  }
  const auto word = line.substr(0, line.find(' '));
  return word.find('=') != npos;
}

/// Messages that do not depend on the result.
bool is_remark(std::string_view line) {
  constexpr std::array<std::string_view, 16> openings = {
      ";",     "processed ", "verification time", "stack depth", "from ",        "func#",
      "Func#", "Validating", "caller:",           "callee:",     "mark_precise", "last_idx",
      "regs=", "parent ",    "Live regs",         "propagating "};
  return std::ranges::any_of(openings, [&](auto opening) { return line.starts_with(opening); });
}

bool is_reason(std::string_view line) {
  return !line.empty() && !is_instruction(line) && !is_registers(line) && !is_remark(line);
}

std::vector<std::string_view> lines_of(std::string_view log) {
  std::vector<std::string_view> lines;
  while (!log.empty()) {
    const auto end = std::min(log.find('\n'), log.size());
    lines.push_back(trimmed(log.substr(0, end)));
    log.remove_prefix(std::min(end + 1, log.size()));
  }
  return lines;
}

}  // namespace

// A reason may have two lines: "invalid access to map value, …", and the register whose bound it was.
std::string verifier_reason(std::string_view log) {
  const auto lines = lines_of(log);
  const auto last = std::find_if(lines.rbegin(), lines.rend(), is_reason);
  constexpr std::ptrdiff_t max_lines = 2;
  const auto limit = std::min(max_lines, lines.rend() - last);
  const auto before = std::find_if_not(last, last + limit, is_reason);
  std::string reason;
  for (auto line = before.base(); line != last.base(); ++line) {
    reason += (reason.empty() ? "" : "; ") + std::string(*line);
  }
  return reason;
}

}  // namespace lb::agent
