// SPDX-License-Identifier: Apache-2.0
// Netlink messages as bytes: parses and builds them with every length checked, and sends a request and reads
// its replies.
#pragma once

#include <linux/netlink.h>

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "maps/map.hpp"

namespace lb::agent::netlink {

using Bytes = std::span<const std::byte>;

/// A non-blocking socket that receives the notifications of multicast groups (1U << (group - 1) each).
/// `protocol`: NETLINK_ROUTE, … Invalid if the kernel refuses it; errno has the reason.
[[nodiscard]] maps::Fd open_notifications(int protocol, std::uint32_t groups);

template <class T>
std::optional<T> read(Bytes bytes) {
  if (bytes.size() < sizeof(T)) {
    return std::nullopt;
  }
  T value;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

/// The bytes after the first `size` bytes and their padding.
[[nodiscard]] Bytes after(Bytes bytes, std::size_t size);

/// Calls `visit` with the type and the content of each attribute; stops at a malformed one.
template <class Visit>
void for_each_attribute(Bytes bytes, Visit visit) {
  while (const auto head = read<nlattr>(bytes)) {
    if (head->nla_len < sizeof(nlattr) || head->nla_len > bytes.size()) {
      return;
    }
    visit(static_cast<unsigned short>(head->nla_type & NLA_TYPE_MASK),
          bytes.subspan(sizeof(nlattr), head->nla_len - sizeof(nlattr)));
    bytes = after(bytes, head->nla_len);
  }
}

/// The content of the first attribute of that type; empty where there is none.
[[nodiscard]] Bytes attribute(Bytes bytes, unsigned short type);

/// The text up to its first zero byte.
[[nodiscard]] std::string text_of(Bytes bytes);

/// one: an acknowledgement; all: a dump; nothing: no reply unless there is an error.
enum class Wanted : std::uint8_t { one, all, nothing };

[[nodiscard]] constexpr int flags_of(Wanted wanted) {
  return wanted == Wanted::all ? NLM_F_DUMP : wanted == Wanted::one ? NLM_F_ACK : 0;
}

class Request {
 public:
  template <class Head>
  Request(std::uint16_t type, Wanted wanted, const Head& head) : bytes_(sizeof(nlmsghdr)) {
    nlmsghdr message{};
    message.nlmsg_type = type;
    message.nlmsg_flags = static_cast<__u16>(NLM_F_REQUEST | flags_of(wanted));
    std::memcpy(bytes_.data(), &message, sizeof(message));
    put(&head, sizeof(head));
  }

  Request& add(std::uint16_t type, std::uint32_t value);
  Request& add(std::uint16_t type, std::string_view text);
  /// Adds a number in network byte order, as netfilter attributes have it.
  Request& add_network_order(std::uint16_t type, std::uint64_t value);
  Request& add_network_order(std::uint16_t type, std::uint32_t value);
  Request& add_network_order(std::uint16_t type, std::uint16_t value);
  Request& add_bytes(std::uint16_t type, Bytes content);
  /// Sets flags such as NLM_F_CREATE in addition to those for `Wanted`.
  Request& with_flags(std::uint16_t flags);
  /// Adds a nested attribute of that type; `inner` adds its content.
  Request& nest(std::uint16_t type, const std::function<void(Request& request)>& inner);

  /// The complete message, ready to send.
  [[nodiscard]] Bytes bytes();

 private:
  void put(const void* from, std::size_t size);
  std::size_t begin(std::uint16_t type);
  void end(std::size_t at);

  std::vector<std::byte> bytes_;
};

using Take = std::function<void(const nlmsghdr& head, Bytes body)>;

/// Receives replies and calls `take` for each, until the end of the dump or the acknowledgement.
[[nodiscard]] boost::system::error_code receive(int socket, const Take& take);

/// Sends the request and calls `take` for each reply, until the end of the dump or the acknowledgement.
/// Errors are errno values: the kernel's, or EINTR for a dump that changed while it was reported.
[[nodiscard]] boost::system::error_code ask(int socket, Request request, const Take& take);

}  // namespace lb::agent::netlink
