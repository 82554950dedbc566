// One rtnetlink dump.
#include "agent/filters.hpp"

#include <linux/netlink.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>

#include "maps/map.hpp"

namespace lb::agent {
namespace {

using Bytes = std::span<const std::byte>;

template <class T>
std::optional<T> read(Bytes bytes) {
  T value;
  if (bytes.size() < sizeof(value)) {
    return std::nullopt;
  }
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

Bytes after(Bytes bytes, std::size_t size) {
  const auto aligned = (size + 3) & ~std::size_t{3};
  return aligned < bytes.size() ? bytes.subspan(aligned) : Bytes();
}

/// The content of the first attribute of that type.
std::optional<Bytes> attribute(Bytes bytes, unsigned short type) {
  while (const auto head = read<rtattr>(bytes)) {
    if (head->rta_len < sizeof(rtattr) || head->rta_len > bytes.size()) {
      break;
    }
    if ((head->rta_type & NLA_TYPE_MASK) == type) {
      return bytes.subspan(sizeof(rtattr), head->rta_len - sizeof(rtattr));
    }
    bytes = after(bytes, head->rta_len);
  }
  return std::nullopt;
}

std::string text_of(Bytes bytes) {
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return text.substr(0, text.find('\0'));
}

// The kernel lists each priority once with handle 0, before the filters there.
std::optional<TcFilter> read_filter(Bytes body) {
  const auto head = read<tcmsg>(body);
  if (!head || head->tcm_handle == 0) {
    return std::nullopt;
  }
  const auto attributes = after(body, sizeof(tcmsg));
  TcFilter filter{TC_H_MAJ(head->tcm_info) >> 16, head->tcm_handle, 0,
                  text_of(attribute(attributes, TCA_KIND).value_or(Bytes()))};
  const auto options = attribute(attributes, TCA_OPTIONS);
  if (options && filter.name == "bpf") {
    filter.name = text_of(attribute(*options, TCA_BPF_NAME).value_or(Bytes()));
    filter.program = read<std::uint32_t>(attribute(*options, TCA_BPF_ID).value_or(Bytes())).value_or(0);
  }
  return filter;
}

bool ask(int socket, int device, TcSide side) {
  struct {
    nlmsghdr head;
    tcmsg body;
  } message{};
  message.head.nlmsg_len = NLMSG_LENGTH(sizeof(tcmsg));
  message.head.nlmsg_type = RTM_GETTFILTER;
  message.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  message.body.tcm_family = AF_UNSPEC;
  message.body.tcm_ifindex = device;
  const std::uint32_t minor = side == TcSide::ingress ? TC_H_MIN_INGRESS : TC_H_MIN_EGRESS;
  message.body.tcm_parent = TC_H_MAKE(TC_H_CLSACT, minor);
  return ::send(socket, &message, message.head.nlmsg_len, 0) >= 0;
}

/// Adds a datagram's filters; false: that was the last one.
bool take(Bytes datagram, std::vector<TcFilter>& filters) {
  while (const auto head = read<nlmsghdr>(datagram)) {
    if (head->nlmsg_len < sizeof(nlmsghdr) || head->nlmsg_len > datagram.size()) {
      return false;
    }
    if (head->nlmsg_type != RTM_NEWTFILTER) {
      return false;  // the end, or an error: there is no such qdisc
    }
    if (auto filter = read_filter(datagram.subspan(sizeof(nlmsghdr), head->nlmsg_len - sizeof(nlmsghdr)))) {
      filters.push_back(std::move(*filter));
    }
    datagram = after(datagram, head->nlmsg_len);
  }
  return true;
}

}  // namespace

std::vector<TcFilter> filters_of(int device, TcSide side) {
  std::vector<TcFilter> filters;
  const maps::Fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!socket || !ask(socket.get(), device, side)) {
    return filters;
  }
  std::array<std::byte, 32768> buffer{};
  ssize_t size = 0;
  do {
    size = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
  } while (size > 0 && take(Bytes(buffer).first(static_cast<std::size_t>(size)), filters));
  return filters;
}

}  // namespace lb::agent
