// Escapes untrusted text for a log line, for a table on a terminal, or for JSON.
#pragma once

#include <string>
#include <string_view>

namespace lb::agent {

/// The text as UTF-8 in one line, in which nothing commands a terminal or makes a reader see another order
/// than there is: "\x1b" stands for a control character of ASCII (newline and carriage return are "\n" and
/// "\r", a tab stays), "\u202e" for what Unicode counts as a control, a separator of lines, a mark or change
/// of direction, or of no width, and "\xff" for each byte beyond ASCII of a text that is not UTF-8. Names of
/// devices are of any bytes, and others choose some of them.
[[nodiscard]] std::string escaped(std::string_view text);

}  // namespace lb::agent
