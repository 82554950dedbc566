// SPDX-License-Identifier: Apache-2.0
// Watches for deletions of an nftables table by other programs: `nft flush ruleset` deletes all tables.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <string>
#include <string_view>

#include "agent/netlink/netlink.hpp"

namespace lb::agent {

/// Whether a datagram of group NFNLGRP_NFTABLES contains a message that a table of that name was deleted, in
/// any family. Pure; malformed messages are ignored.
[[nodiscard]] bool reports_deletion(netlink::Bytes datagram, std::string_view table);

class NfTableWatch {
 public:
  /// `deleted` is called from the context after each deletion of a table of that name, and after lost
  /// notifications. It must not destroy this.
  NfTableWatch(boost::asio::io_context& context, std::string table, std::function<void()> deleted);

  /// Starts watching; earlier deletions are not reported. If the kernel has no such notifications, `deleted`
  /// is never called.
  void start();

 private:
  void wait();
  [[nodiscard]] bool take_reports();

  boost::asio::posix::stream_descriptor events_;
  std::string table_;
  std::function<void()> deleted_;
};

}  // namespace lb::agent
