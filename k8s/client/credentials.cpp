// Small files, read whole.
#include "k8s/client/credentials.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "k8s/encoding/rules.hpp"

namespace lb::k8s {
namespace {

constexpr std::size_t most_bytes = std::size_t{1} << 20U;

/// 0 or an errno.
int read_file(const std::string& path, std::string& text) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) {
    return errno;
  }
  std::array<char, 4096> piece{};
  ssize_t size = 0;
  while ((size = ::read(fd, piece.data(), piece.size())) > 0 && text.size() < most_bytes) {
    text.append(piece.data(), static_cast<std::size_t>(size));
  }
  const int error = size < 0 ? errno : size > 0 ? EFBIG : 0;
  ::close(fd);
  return error;
}

}  // namespace

Credential::Change Credential::refresh() {
  std::string now = material_.text;
  if (now.empty() && !material_.file.empty()) {
    const int error = read_file(material_.file, now);
    problem_ = error == 0 ? ""
                          : fmt::format("cannot read {}: {}", material_.file,
                                        std::generic_category().message(error));
    if (error != 0) {
      return Change::none;
    }
  }
  return std::exchange(text_, std::move(now)) == text_ ? Change::none : Change::changed;
}

std::string bearer_token(const std::string& text) {
  const auto token = rules::trimmed(text);
  for (const char c : token) {
    if (c <= ' ' || c >= 0x7f) {
      return {};
    }
  }
  return std::string(token);
}

}  // namespace lb::k8s
