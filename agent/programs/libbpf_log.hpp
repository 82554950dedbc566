// SPDX-License-Identifier: Apache-2.0
// libbpf's messages: all of them go to the debug log; the first warning and the refused program are kept for
// error messages.
#pragma once

#include <string>

namespace lb::agent {

/// Redirects libbpf's messages to the debug log.
void log_libbpf();

/// The first warning since the last forget_libbpf_warnings(), or else the text of the error number.
[[nodiscard]] std::string libbpf_reason(int error);

struct RefusedProgram {
  std::string name;    ///< empty: no program was refused
  std::string reason;  ///< the verifier's reason; empty if it did not run or gave none
};

/// The last program that the kernel refused since the last forget_libbpf_warnings().
[[nodiscard]] const RefusedProgram& refused_program();

/// Discards the warnings so far.
void forget_libbpf_warnings();

}  // namespace lb::agent
