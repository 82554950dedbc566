// SPDX-License-Identifier: Apache-2.0
// Finds the relevant lines in the verifier's log of a rejected program: of thousands of lines the last ones
// matter. Pure.
#pragma once

#include <string>
#include <string_view>

namespace lb::agent {

/// The reason of a rejection in one line: the last message of the verifier, without instructions, register
/// states and statistics. Empty if the log has none.
[[nodiscard]] std::string verifier_reason(std::string_view log);

}  // namespace lb::agent
