// Where this tree and its build lie. Only paths.cpp is compiled with them, so that what one tree has compiled
// of the other tests serves every tree (ccache).
#pragma once

#include <string>

namespace lb::test {

/// A file or folder of the source tree: source_path("tests/corpus/api/") is an absolute path.
[[nodiscard]] std::string source_path(const std::string& name);
/// The same of the build directory.
[[nodiscard]] std::string build_path(const std::string& name);

}  // namespace lb::test
