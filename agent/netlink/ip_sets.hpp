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

/// A member, as far as its set's type has an address and a port.
struct IpSetEntry {
  std::optional<k8s::Address> address;
  std::uint16_t port = 0;
};

struct IpSet {
  std::string name;
  std::vector<IpSetEntry> entries;
};

/// One message of a list; a set with many members comes in several. Without a name for bytes that are none.
[[nodiscard]] IpSet read_ip_set(netlink::Bytes body);

/// All of this network namespace. Makes the kernel load nothing; without the module there are none.
[[nodiscard]] boost::system::result<std::vector<IpSet>> list_ip_sets();

/// EBUSY while a rule names it.
[[nodiscard]] boost::system::error_code destroy_ip_set(std::string_view name);

}  // namespace lb::agent
