// Changes of nf_tables that the kernel commits together, or not at all.
#pragma once

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "agent/netlink/netlink.hpp"

namespace lb::agent {

class NfBatch {
 public:
  /// AF_INET or AF_INET6.
  explicit NfBatch(int family);

  /// The head of a change (NFT_MSG_…), to be filled and added.
  [[nodiscard]] netlink::Request request(int message,
                                         netlink::Wanted wanted = netlink::Wanted::nothing) const;
  void add(netlink::Request request);
  /// The last change is the one whose acknowledgement is waited for (Wanted::one): it comes behind all
  /// errors.
  [[nodiscard]] boost::system::error_code commit(netlink::Request last);

 private:
  void add_marker(int message);

  int family_;
  std::vector<std::byte> bytes_;
};

}  // namespace lb::agent
