// SPDX-License-Identifier: Apache-2.0
// Paths of this tree and its build. Only paths.cpp is compiled with them, so that the objects of all other
// tests can be shared between trees (ccache).
#pragma once

#include <string>

namespace lb::test {

/// The absolute path of a file or directory of the source tree: source_path("tests/corpus/api/").
[[nodiscard]] std::string source_path(const std::string& name);
/// The absolute path of a file or directory of the build.
[[nodiscard]] std::string build_path(const std::string& name);

}  // namespace lb::test
