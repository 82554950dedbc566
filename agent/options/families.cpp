// SPDX-License-Identifier: Apache-2.0
// Reads two files of /proc.
#include "agent/options/families.hpp"

#include <filesystem>
#include <fstream>

namespace lb::agent {

std::vector<lb_family> host_families(const std::string& root) {
  int off = 0;
  std::ifstream(root + "/proc/sys/net/ipv6/conf/all/disable_ipv6") >> off;
  std::error_code error;
  if (off == 1 || !std::filesystem::exists(root + "/proc/net/if_inet6", error)) {
    return {LB_IPV4};
  }
  return {LB_IPV4, LB_IPV6};
}

}  // namespace lb::agent
