// Hears of nftables tables that are deleted, by whomever: `nft flush ruleset` takes all tables.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <string>
#include <string_view>

#include "agent/netlink/netlink.hpp"

namespace lb::agent {

/// Does a message of the kernel's group NFNLGRP_NFTABLES, or one behind it in these bytes, tell that a table
/// of that name is gone, of whatever family? Pure; what is malformed says nothing.
[[nodiscard]] bool reports_deletion(netlink::Bytes datagram, std::string_view table);

class NfTableWatch {
 public:
  /// `deleted` is called from the context after each deletion of a table of that name, and where reports were
  /// lost. It must not destroy this.
  NfTableWatch(boost::asio::io_context& context, std::string table, std::function<void()> deleted);

  /// Deletions before this are not heard of. Where the kernel does not tell of any nothing is called.
  void start();

 private:
  void wait();
  [[nodiscard]] bool take_reports();

  boost::asio::posix::stream_descriptor events_;
  std::string table_;
  std::function<void()> deleted_;
};

}  // namespace lb::agent
