// SPDX-License-Identifier: Apache-2.0
// Reads whole files, for tests that compare or replay them.
#pragma once

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace lb::test {

/// Throws std::runtime_error if the file cannot be read.
[[nodiscard]] inline std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) {
    throw std::runtime_error("cannot read " + path);
  }
  return text;
}

}  // namespace lb::test
