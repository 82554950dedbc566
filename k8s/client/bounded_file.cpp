// SPDX-License-Identifier: Apache-2.0
#include "k8s/client/bounded_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace lb::k8s {

int read_bounded(const std::string& path, std::size_t max_bytes, std::string& text) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) {
    return errno;
  }
  std::string read;
  std::array<char, 4096> piece{};
  ssize_t size = 0;
  while (read.size() <= max_bytes && (size = ::read(fd, piece.data(), piece.size())) > 0) {
    read.append(piece.data(), static_cast<std::size_t>(size));
  }
  int error = size < 0 ? errno : 0;
  if (read.size() > max_bytes) {
    error = EFBIG;
  }
  ::close(fd);
  if (error == 0) {
    text = std::move(read);
  }
  return error;
}

}  // namespace lb::k8s
