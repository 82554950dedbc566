// SPDX-License-Identifier: Apache-2.0
// A test's temporary directory.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace lb::test {

/// An empty directory that is removed with its content by the destructor. Throws std::runtime_error if none
/// can be made.
struct TempDirectory {
  TempDirectory() {
    std::string name = std::filesystem::temp_directory_path() / "sluice-test-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error("cannot make " + name);
    }
    path = name;
  }
  ~TempDirectory() { std::filesystem::remove_all(path); }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  std::filesystem::path path;
};

}  // namespace lb::test
