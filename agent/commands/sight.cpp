// SPDX-License-Identifier: Apache-2.0
#include "agent/commands/sight.hpp"

#include <fmt/format.h>
#include <linux/capability.h>
#include <unistd.h>

#include <cerrno>

#include "agent/base/error.hpp"
#include "agent/base/privileges.hpp"
#include "agent/netlink/nf_tables.hpp"

namespace lb::agent {

void require_sight(const maps::Pins& pins) {
  if (::access(pins.base().c_str(), R_OK | X_OK) == 0 || errno == ENOENT) {
    return;
  }
  throw StartError(
      fmt::format("cannot read {}: {}", pins.base().string(), std::generic_category().message(errno)),
      "run as root");
}

void require_whole_sight(const maps::Pins& pins) {
  // In a user namespace of its own a process has capabilities that do not count for the node's network.
  if (!has_capability(own_privileges(""), CAP_NET_ADMIN) ||
      nf_tables_error() == boost::system::errc::operation_not_permitted) {
    throw StartError(
        "this process may not look at this node's rules and programs, because it lacks CAP_NET_ADMIN",
        "run as root");
  }
  require_sight(pins);
}

}  // namespace lb::agent
