// Replaces a file atomically: a reader finds the old text or the new one, never a part.
#pragma once

#include <string>

namespace lb::agent {

/// Writes `text` beside `path` and renames it. Returns why that failed; empty: done.
[[nodiscard]] std::string replace_file(const std::string& path, const std::string& text);

}  // namespace lb::agent
