// Keeps lb_addresses: the node's own addresses and those of services.
#include "agent/tables/address_table.hpp"

#include <cstring>
#include <utility>

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
  if (kind == LB_NODE_PORT) return;
  const lb_address_key address = address_of(frontend.address);
  ServiceUse& use = services_[address];
  (kind == LB_CLUSTER_IP ? use.cluster : use.others) += static_cast<std::uint32_t>(change);
  if (use.cluster == 0 && use.others == 0) services_.erase(address);
  touched_.insert(address);
}

error_code AddressTable::write() {
  if (!pending_) return {};
  Keys keys;
  for (const auto& [key, kind] : node_) keys.insert(key);
  for (const auto& [key, use] : services_) keys.insert(key);
  for (const auto& [key, value] : entries_.entries()) keys.insert(key);
  pending_ = false;
  return write(keys);
}

error_code AddressTable::write_touched() { return write(std::exchange(touched_, {})); }

error_code AddressTable::write(const Keys& keys) {
  error_code error;
  for (const lb_address_key& key : keys) {
    if (const error_code failed = write(key)) error = failed;
  }
  pending_ = pending_ || error;
  return error;
}

error_code AddressTable::write(const lb_address_key& key) {
  lb_address value{};
  value.check = lb_address_check(&key);
  if (const auto ours = node_.find(key); ours != node_.end()) {
    value.kind = ours->second;
  } else if (const auto use = services_.find(key); use != services_.end()) {
    value.kind = use->second.cluster > 0 ? LB_CLUSTER_ADDRESS : LB_SERVICE_ADDRESS;
  } else {
    return entries_.erase(key);
  }
  return entries_.put(key, value);
}

}  // namespace lb::agent
