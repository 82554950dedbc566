// SPDX-License-Identifier: Apache-2.0
// Receives nf_tables notifications and reports deletions of one table.
#include "agent/netlink/nf_table_watch.hpp"

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/system/error_code.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "maps/map.hpp"

namespace lb::agent {
namespace {

constexpr int table_deleted = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_DELTABLE;

}  // namespace

bool reports_deletion(netlink::Bytes datagram, std::string_view table) {
  while (const auto head = netlink::read<nlmsghdr>(datagram)) {
    if (head->nlmsg_len < sizeof(nlmsghdr) || head->nlmsg_len > datagram.size()) {
      return false;
    }
    if (head->nlmsg_type == table_deleted) {
      const auto attributes =
          netlink::after(datagram.first(head->nlmsg_len), sizeof(nlmsghdr) + sizeof(nfgenmsg));
      if (netlink::text_of(netlink::attribute(attributes, NFTA_TABLE_NAME)) == table) {
        return true;
      }
    }
    datagram = netlink::after(datagram, head->nlmsg_len);
  }
  return false;
}

NfTableWatch::NfTableWatch(boost::asio::io_context& context, std::string table, std::function<void()> deleted)
    : events_(context), table_(std::move(table)), deleted_(std::move(deleted)) {}

void NfTableWatch::start() {
  const auto listener = netlink::open_notifications(NETLINK_NETFILTER, 1U << (NFNLGRP_NFTABLES - 1U));
  if (!listener) {
    spdlog::debug("cannot follow nftables' tables: {}", std::strerror(errno));
    return;
  }
  events_.assign(::dup(listener.get()));
  wait();
}

void NfTableWatch::wait() {
  events_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [this](const boost::system::error_code& error) {
                       if (error) {
                         return;
                       }
                       if (take_reports()) {
                         deleted_();
                       }
                       wait();
                     });
}

/// Reads all pending notifications. Returns whether one reported the table's deletion, or one was lost.
bool NfTableWatch::take_reports() {
  std::array<std::byte, 65536> report{};
  bool deleted = false;
  for (;;) {
    const auto size = ::recv(events_.native_handle(), report.data(), report.size(), MSG_TRUNC);
    if (size < 0 && errno != ENOBUFS) {
      return deleted;
    }
    const bool is_lost = size < 0 || static_cast<std::size_t>(size) > report.size();
    deleted = deleted || is_lost ||
              reports_deletion(netlink::Bytes(report).first(static_cast<std::size_t>(size)), table_);
  }
}

}  // namespace lb::agent
