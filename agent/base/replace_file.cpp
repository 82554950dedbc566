// SPDX-License-Identifier: Apache-2.0
// Writes a draft beside the file, which takes its place by rename(2).
#include "agent/base/replace_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "maps/map.hpp"

namespace lb::agent {
namespace {

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const auto count = ::write(fd, text.data(), text.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace

std::string replace_file(const std::string& path, const std::string& text) {
  const auto draft = path + ".new";
  // A killed agent left it, or another user of the directory put a link there.
  ::unlink(draft.c_str());
  const maps::Fd file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file || !write_all(file.get(), text)) {
    return fmt::format("cannot write {}: {}", draft, std::strerror(errno));
  }
  std::error_code error;
  std::filesystem::rename(draft, path, error);
  return error ? fmt::format("cannot replace {}: {}", path, error.message()) : std::string();
}

}  // namespace lb::agent
