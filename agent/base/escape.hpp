// SPDX-License-Identifier: Apache-2.0
// Escapes untrusted text for a log line, for a table on a terminal, or for JSON.
#pragma once

#include <string>
#include <string_view>

namespace lb::agent {

/// The text as UTF-8 in one line, without characters that control a terminal or change the displayed order:
/// "\x1b" stands for an ASCII control character (newline and carriage return are "\n" and "\r", a tab is
/// kept), "\u202e" for Unicode's control characters, line separators, direction marks and zero-width
/// characters, and "\xff" for each byte above ASCII in a text that is not UTF-8. Device names may contain any
/// bytes, some of them chosen by others.
[[nodiscard]] std::string escaped(std::string_view text);

}  // namespace lb::agent
