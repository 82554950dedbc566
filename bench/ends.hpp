// SPDX-License-Identifier: Apache-2.0
// Shared by both ends of a measured connection: IPv4 addresses, errors as exceptions, and the clock. For
// bench/connect.cpp, bench/ask.cpp and bench/serve.cpp.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

#include "maps/map.hpp"

namespace lb::bench {

using Clock = std::chrono::steady_clock;

/// The answer that a server writes into each connection before it closes it: the address at which it was
/// reached.
using Answer = in_addr_t;

/// The byte count that a sink writes when the sender has finished.
using Total = std::uint64_t;

inline int must(int value, const char* what) {
  if (value < 0) {
    throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
  }
  return value;
}

inline std::uint32_t number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw std::runtime_error("is not a number: " + std::string(text));
  }
  return value;
}

inline sockaddr_in end_of(const char* address, std::uint32_t port) {
  sockaddr_in end{};
  end.sin_family = AF_INET;
  end.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::inet_pton(AF_INET, address, &end.sin_addr) != 1) {
    throw std::runtime_error("is not an IPv4 address: " + std::string(address));
  }
  return end;
}

inline std::uint32_t host_order(const sockaddr_in& end) { return ntohl(end.sin_addr.s_addr); }

inline maps::Fd socket_of(int type) {
  return maps::Fd(must(::socket(AF_INET, type | SOCK_CLOEXEC, 0), "socket"));
}

/// A TCP socket with this timeout for sends and receives.
inline maps::Fd socket_with_timeout(time_t seconds) {
  auto socket = socket_of(SOCK_STREAM);
  const timeval timeout{.tv_sec = seconds, .tv_usec = 0};
  for (const int which : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    must(::setsockopt(socket.get(), SOL_SOCKET, which, &timeout, sizeof(timeout)), "SO_RCVTIMEO");
  }
  return socket;
}

/// Whether a call failed otherwise than by its timeout.
inline bool cut(ssize_t returned) { return returned < 0 && errno != EAGAIN && errno != EINPROGRESS; }

inline const sockaddr* plain(const sockaddr_in& end) { return reinterpret_cast<const sockaddr*>(&end); }

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace lb::bench
