// Finds the relevant lines of the verifier's log when it rejects a program: thousands of lines, of which the
// last ones matter. Pure.
#pragma once

#include <string>
#include <string_view>

namespace lb::agent {

/// The reason of a refusal in one line: the last words of the log that are the verifier's own, without the
/// instructions, the registers and the figures that stand around them. Empty where the log has none.
[[nodiscard]] std::string verifier_reason(std::string_view log);

}  // namespace lb::agent
