// SPDX-License-Identifier: Apache-2.0
// Replaces a file atomically: a reader sees the old text or the new one, never a part.
#pragma once

#include <string>

namespace lb::agent {

/// Writes `text` to a temporary file beside `path` and renames it. Returns an error message; empty: success.
[[nodiscard]] std::string replace_file(const std::string& path, const std::string& text);

}  // namespace lb::agent
