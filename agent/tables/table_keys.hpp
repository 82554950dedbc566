// SPDX-License-Identifier: Apache-2.0
// Converts plans to the keys and values of the hashes. Only for agent/tables/.
#pragma once

#include <algorithm>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstdint>
#include <cstring>
#include <vector>

#include "agent/plan/plan.hpp"
#include "k8s/objects/raw_address.hpp"
#include "maps/abi/abi.h"
#include "maps/abi/checks.h"
#include "maps/mirror.hpp"

namespace lb::agent {

/// Frontends and ranges of a service; its object may name any number of both.
using FrontendKeys = boost::unordered_flat_set<lb_frontend_key, maps::HashBytes, maps::EqualBytes>;
using Ranges = boost::unordered_flat_set<lb_range_key, maps::HashBytes, maps::EqualBytes>;

[[nodiscard]] inline lb_frontend_key key_of(const ServicePortKey& service, const FrontendPlan& frontend) {
  lb_frontend_key key{};
  std::memcpy(static_cast<void*>(key.address), frontend.address.bytes.data(), sizeof(key.address));
  key.port = frontend.port;
  key.protocol = service.protocol;
  return key;
}

[[nodiscard]] inline lb_address_key address_of(const __u8 (&bytes)[16]) {
  lb_address_key key{};
  std::memcpy(static_cast<void*>(key.address), static_cast<const void*>(bytes), sizeof(key.address));
  return key;
}

/// Whether the key is a node port: its address is zero. An IPv4 zero address is one too.
[[nodiscard]] inline bool is_node_port(const lb_frontend_key& key) {
  return k8s::address_of(key.address).unspecified();
}

[[nodiscard]] inline lb_frontend frontend_of(const lb_frontend_key& key, const FrontendPlan& plan,
                                             std::uint32_t number) {
  lb_frontend frontend{};
  frontend.service = number;
  frontend.kind = plan.kind;
  frontend.check = lb_frontend_check(&key);
  return frontend;
}

/// The keys of these ranges in the trie, where the number's 32 bits come first.
[[nodiscard]] inline std::vector<lb_range_key> range_keys(const std::vector<k8s::Prefix>& ranges,
                                                          std::uint32_t number) {
  std::vector<lb_range_key> keys;
  for (const k8s::Prefix& range : ranges) {
    lb_range_key key{};
    key.prefix = 32U + range.length;
    key.service = number;
    std::memcpy(static_cast<void*>(key.address), range.address.bytes.data(), sizeof(key.address));
    keys.push_back(key);
  }
  return keys;
}

/// Whether the error says that the map is full: hashes and tries report different errors.
[[nodiscard]] inline bool is_full(const maps::error_code& error) {
  return error == boost::system::errc::argument_list_too_long ||
         error == boost::system::errc::no_space_on_device;
}

}  // namespace lb::agent
