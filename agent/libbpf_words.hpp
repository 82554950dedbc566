// What libbpf says: all of it in the debug log, and the first warning for the operator.
#pragma once

#include <string>

namespace lb::agent {

/// From now on libbpf's words go to the debug log.
void log_libbpf();

/// The first warning that is not forgotten, or else what the error number means.
[[nodiscard]] std::string libbpf_reason(int error);

/// Forgets the warnings so far.
void forget_libbpf_warnings();

}  // namespace lb::agent
