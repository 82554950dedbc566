// SPDX-License-Identifier: Apache-2.0
// nf_tables changes that the kernel commits as one transaction.
#pragma once

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "agent/netlink/netlink.hpp"

namespace lb::agent {

class NfBatch {
 public:
  /// `family`: AF_INET or AF_INET6.
  explicit NfBatch(int family);

  /// Starts the request of a change (NFT_MSG_…); fill it, then add() or commit() it.
  [[nodiscard]] netlink::Request request(int message,
                                         netlink::Wanted wanted = netlink::Wanted::nothing) const;
  void add(netlink::Request request);
  /// Adds the last change and commits. commit() waits for the acknowledgement of `last` (Wanted::one), which
  /// arrives after all errors.
  [[nodiscard]] boost::system::error_code commit(netlink::Request last);
  /// The same by an nfnetlink socket, which owns what it creates with NFT_TABLE_F_OWNER. After an error it
  /// may hold further messages, so use it no more.
  [[nodiscard]] boost::system::error_code commit(int socket, netlink::Request last);

 private:
  void add_marker(int message);

  int family_;
  std::vector<std::byte> bytes_;
};

}  // namespace lb::agent
