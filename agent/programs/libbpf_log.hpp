// Messages of libbpf: all of them go to the debug log, and the first warning and the program that the kernel
// refused are kept for the operator.
#pragma once

#include <string>

namespace lb::agent {

/// From now on libbpf's words go to the debug log.
void log_libbpf();

/// The first warning that is not forgotten, or else what the error number means.
[[nodiscard]] std::string libbpf_reason(int error);

struct RefusedProgram {
  std::string name;    ///< empty: no program was refused
  std::string reason;  ///< the verifier's; empty where it was not asked, or said nothing
};

/// The last program that the kernel refused since the warnings were forgotten.
[[nodiscard]] const RefusedProgram& refused_program();

/// Forgets the warnings so far.
void forget_libbpf_warnings();

}  // namespace lb::agent
