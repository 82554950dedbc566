#include "agent/base/replace_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace lb::agent {

std::string replace_file(const std::string& path, const std::string& text) {
  const auto draft = path + ".new";
  {
    std::ofstream file(draft, std::ios::trunc);
    file << text << std::flush;
    if (!file) return fmt::format("cannot write {}: {}", draft, std::strerror(errno));
  }
  std::error_code error;
  std::filesystem::rename(draft, path, error);
  return error ? fmt::format("cannot replace {}: {}", path, error.message()) : std::string();
}

}  // namespace lb::agent
