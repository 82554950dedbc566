// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/paths.hpp"

namespace lb::test {

std::string source_path(const std::string& name) { return SLUICE_SOURCE_DIR "/" + name; }
std::string build_path(const std::string& name) { return SLUICE_BINARY_DIR "/" + name; }

}  // namespace lb::test
