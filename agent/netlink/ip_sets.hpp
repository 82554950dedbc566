// SPDX-License-Identifier: Apache-2.0
// The kernel's IP sets (ipset), listed and destroyed by netlink.
#pragma once

#include <boost/system/error_code.hpp>
#include <boost/system/result.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/netlink/netlink.hpp"
#include "k8s/objects/model.hpp"

namespace lb::agent {

/// A member of a set; an absent address or port is not part of the set's type.
struct IpSetEntry {
  std::optional<k8s::Address> address;
  std::uint16_t port = 0;
};

struct IpSet {
  std::string name;
  std::vector<IpSetEntry> entries;
};

/// Parses one message of a dump; a set with many members has several. The name is empty if the message is
/// malformed.
[[nodiscard]] IpSet read_ip_set(netlink::Bytes body);

/// All sets of this network namespace. Does not make the kernel load the module; without it there are none.
[[nodiscard]] boost::system::result<std::vector<IpSet>> list_ip_sets();

/// Fails with EBUSY while a rule refers to the set.
[[nodiscard]] boost::system::error_code destroy_ip_set(std::string_view name);

}  // namespace lb::agent
