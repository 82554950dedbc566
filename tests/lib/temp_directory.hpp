// A temporary directory of one test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace lb::test {

/// Empty at first, and gone with all that is in it at the end. Throws std::runtime_error where none can be
/// made.
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
