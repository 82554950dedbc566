// SPDX-License-Identifier: Apache-2.0
// Keeps lb_addresses: the node's own addresses and those of services.
#include "agent/tables/address_table.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "agent/tables/node_reserve.hpp"
#include "agent/tables/table_keys.hpp"
#include "maps/abi/checks.h"

namespace lb::agent {

using maps::error_code;

void AddressTable::set_node(const std::vector<NodeAddress>& addresses) {
  node_.clear();
  for (const NodeAddress& each : addresses) {
    lb_address_key key{};
    std::memcpy(static_cast<void*>(key.address), each.address.bytes.data(), sizeof(key.address));
    node_.insert_or_assign(key, each.kind);
  }
  pending_ = true;
}

void AddressTable::count(const lb_frontend_key& frontend, lb_kind kind, int change) {
  if (kind == LB_NODE_PORT) {
    return;
  }
  const lb_address_key address = address_of(frontend.address);
  ServiceUse& use = services_[address];
  (kind == LB_CLUSTER_IP ? use.cluster : use.others) += static_cast<std::uint32_t>(change);
  if (use.cluster == 0 && use.others == 0) {
    services_.erase(address);
  }
  touched_.insert(address);
}

error_code AddressTable::write() {
  if (!pending_) {
    return {};
  }
  Keys keys;
  for (const auto& [key, kind] : node_) {
    keys.insert(key);
  }
  for (const auto& [key, use] : services_) {
    keys.insert(key);
  }
  for (const auto& [key, value] : entries_.entries()) {
    keys.insert(key);
  }
  pending_ = false;
  return write(keys);
}

error_code AddressTable::write_touched() { return write(std::exchange(touched_, {})); }

/// In this order a full table takes what fits, whatever the order of `keys`: entries that go make room, and
/// the node's own precede those of services.
error_code AddressTable::write(const Keys& keys) {
  std::vector<lb_address_key> own;
  std::vector<lb_address_key> others;
  error_code error;
  const auto note = [&](const error_code& failed) { error = failed ? failed : error; };
  for (const lb_address_key& key : keys) {
    if (node_.contains(key)) {
      own.push_back(key);
    } else if (services_.contains(key)) {
      others.push_back(key);
    } else {
      note(entries_.erase(key));
    }
  }
  for (const lb_address_key& key : own) {
    note(entries_.put(key, value_of(key, node_.find(key)->second)));
  }
  if (!others.empty()) {
    note(write_services(others));
  }
  pending_ = pending_ || error;
  return error;
}

error_code AddressTable::write_services(const std::vector<lb_address_key>& keys) {
  const auto own = std::ranges::count_if(
      node_, [this](const auto& address) { return entries_.entries().contains(address.first); });
  const auto max = limit_for_services(limit(), static_cast<std::size_t>(own));
  error_code error;
  for (const lb_address_key& key : keys) {
    const bool fits = size() < max || entries_.entries().contains(key);
    const auto kind = services_.find(key)->second.cluster > 0 ? LB_CLUSTER_ADDRESS : LB_SERVICE_ADDRESS;
    const auto failed = fits ? entries_.put(key, value_of(key, kind))
                             : make_error_code(boost::system::errc::no_space_on_device);
    if (failed) {
      error = failed;
    }
  }
  return error;
}

lb_address AddressTable::value_of(const lb_address_key& key, lb_address_kind kind) {
  lb_address value{};
  value.kind = kind;
  value.check = lb_address_check(&key);
  return value;
}

}  // namespace lb::agent
