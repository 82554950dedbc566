// SPDX-License-Identifier: Apache-2.0
// Reads small files of the kernel and of operators.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

namespace lb::agent {

/// The whole file; empty if it cannot be read.
[[nodiscard]] inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The first line without the newline; empty if the file cannot be read.
[[nodiscard]] inline std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace lb::agent
