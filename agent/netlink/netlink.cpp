// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes netlink messages, and receives replies from a socket.
#include "agent/netlink/netlink.hpp"

#include <endian.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "agent/base/system_error.hpp"

namespace lb::agent::netlink {
namespace {

using boost::system::error_code;

constexpr std::size_t aligned(std::size_t size) { return (size + 3) / 4 * 4; }

/// Whether the replies are complete, and the error.
struct Progress {
  bool done = false;
  error_code error;
};

Progress take_datagram(Bytes datagram, const Take& take) {
  Progress progress;
  while (const auto head = read<nlmsghdr>(datagram)) {
    if (head->nlmsg_len < sizeof(nlmsghdr) || head->nlmsg_len > datagram.size()) {
      return {true, system_error(EBADMSG)};
    }
    const auto body = datagram.subspan(sizeof(nlmsghdr), head->nlmsg_len - sizeof(nlmsghdr));
    if ((head->nlmsg_flags & NLM_F_DUMP_INTR) != 0) {
      progress.error = system_error(EINTR);
    }
    if (head->nlmsg_type == NLMSG_ERROR || head->nlmsg_type == NLMSG_DONE) {
      const auto code = read<std::int32_t>(body).value_or(0);
      return {true, code < 0 ? system_error(-code) : progress.error};
    }
    take(*head, body);
    datagram = after(datagram, head->nlmsg_len);
  }
  return progress;
}

}  // namespace

maps::Fd open_notifications(int protocol, std::uint32_t groups) {
  maps::Fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = groups;
  if (socket && ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    const int error = errno;
    socket = maps::Fd();
    errno = error;
  }
  return socket;
}

Bytes after(Bytes bytes, std::size_t size) { return bytes.subspan(std::min(aligned(size), bytes.size())); }

Bytes attribute(Bytes bytes, unsigned short type) {
  std::optional<Bytes> found;
  for_each_attribute(bytes, [&](unsigned short each, Bytes content) {
    if (each == type && !found) {
      found = content;
    }
  });
  return found.value_or(Bytes());
}

std::string text_of(Bytes bytes) {
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  return {text, bytes.empty() ? 0 : ::strnlen(text, bytes.size())};
}

void Request::put(const void* from, std::size_t size) {
  const auto* bytes = static_cast<const std::byte*>(from);
  bytes_.insert(bytes_.end(), bytes, bytes + size);
  bytes_.resize(aligned(bytes_.size()));
}

std::size_t Request::begin(std::uint16_t type) {
  const auto at = bytes_.size();
  const nlattr head{0, type};
  put(&head, sizeof(head));
  return at;
}

void Request::end(std::size_t at) {
  const auto size = static_cast<std::uint16_t>(bytes_.size() - at);
  std::memcpy(bytes_.data() + at, &size, sizeof(size));
}

Request& Request::add(std::uint16_t type, std::uint32_t value) {
  const auto at = begin(type);
  put(&value, sizeof(value));
  end(at);
  return *this;
}

// The attribute's length excludes the padding.
Request& Request::add(std::uint16_t type, std::string_view text) {
  const auto at = begin(type);
  const std::string ended(text);
  put(ended.c_str(), ended.size() + 1);
  const auto size = static_cast<std::uint16_t>(sizeof(nlattr) + ended.size() + 1);
  std::memcpy(bytes_.data() + at, &size, sizeof(size));
  return *this;
}

// As for text, the attribute's length excludes the padding.
Request& Request::add_bytes(std::uint16_t type, Bytes content) {
  const auto at = begin(type);
  put(content.data(), content.size());
  const auto size = static_cast<std::uint16_t>(sizeof(nlattr) + content.size());
  std::memcpy(bytes_.data() + at, &size, sizeof(size));
  return *this;
}

Request& Request::add_network_order(std::uint16_t type, std::uint64_t value) {
  const auto swapped = htobe64(value);
  return add_bytes(type, std::as_bytes(std::span(&swapped, 1)));
}

Request& Request::add_network_order(std::uint16_t type, std::uint32_t value) {
  const auto swapped = htobe32(value);
  return add_bytes(type, std::as_bytes(std::span(&swapped, 1)));
}

Request& Request::add_network_order(std::uint16_t type, std::uint16_t value) {
  const auto swapped = htobe16(value);
  return add_bytes(type, std::as_bytes(std::span(&swapped, 1)));
}

Request& Request::with_flags(std::uint16_t flags) {
  nlmsghdr head{};
  std::memcpy(&head, bytes_.data(), sizeof(head));
  head.nlmsg_flags = static_cast<__u16>(head.nlmsg_flags | flags);
  std::memcpy(bytes_.data(), &head, sizeof(head));
  return *this;
}

Request& Request::nest(std::uint16_t type, const std::function<void(Request& request)>& inner) {
  const auto at = begin(static_cast<std::uint16_t>(type | NLA_F_NESTED));
  inner(*this);
  end(at);
  return *this;
}

Bytes Request::bytes() {
  const auto size = static_cast<std::uint32_t>(bytes_.size());
  std::memcpy(bytes_.data(), &size, sizeof(size));
  return bytes_;
}

error_code ask(int socket, Request request, const Take& take) {
  const auto message = request.bytes();
  if (::send(socket, message.data(), message.size(), 0) < 0) {
    return system_error(errno);
  }
  return receive(socket, take);
}

error_code receive(int socket, const Take& take) {
  std::array<std::byte, 65536> buffer{};
  Progress progress;
  error_code error;
  while (!progress.done) {
    const auto size = ::recv(socket, buffer.data(), buffer.size(), 0);
    if (size <= 0) {
      return system_error(size < 0 ? errno : EBADMSG);
    }
    progress = take_datagram(Bytes(buffer).first(static_cast<std::size_t>(size)), take);
    error = progress.error ? progress.error : error;
  }
  return error;
}

}  // namespace lb::agent::netlink
