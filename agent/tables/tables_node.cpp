// What belongs to no one service: the node's addresses and those of services in lb_addresses, and the ranges
// of pods and ClusterIPs in lb_ranges.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "agent/tables/table_keys.hpp"
#include "agent/tables/tables.hpp"

namespace lb::agent {

using maps::error_code;

error_code Tables::put_frontend(const lb_frontend_key& key, const lb_frontend& value) {
  const auto before = frontends_.find(key);
  if (before && maps::EqualBytes()(*before, value)) return {};
  if (!before) count_node_port(key, 1);
  if (const error_code error = frontends_.put(key, value)) {
    if (!before) count_node_port(key, -1);
    return error;
  }
  if (before) count_address(key, *before, -1);
  if (before && before->service != value.service) ++takeovers_;
  count_address(key, value, 1);
  return {};
}

error_code Tables::remove_frontend(const lb_frontend_key& key) {
  const auto before = frontends_.find(key);
  if (const error_code error = frontends_.erase(key)) return error;
  if (!before) return {};
  count_address(key, *before, -1);
  count_node_port(key, -1);
  return {};
}

/// Kept from source NAT before anybody can be a client of it, and as long as anybody can.
void Tables::count_node_port(const lb_frontend_key& key, int change) {
  if (is_node_port(key)) reserved_ports_.count_node_port(key.port, change);
}

/// Node ports are at every address of the node's.
void Tables::count_address(const lb_frontend_key& key, const lb_frontend& value, int change) {
  if (value.kind == LB_NODE_PORT) return;
  const lb_address_key address = address_of(key.address);
  ServiceUse& use = service_addresses_[address];
  (value.kind == LB_CLUSTER_IP ? use.cluster : use.others) += static_cast<std::uint32_t>(change);
  if (use.cluster == 0 && use.others == 0) service_addresses_.erase(address);
  touched_addresses_.insert(address);
}

error_code Tables::write_address(const lb_address_key& key) {
  lb_address value{};
  value.check = lb_address_check(&key);
  if (const auto ours = node_addresses_.find(key); ours != node_addresses_.end()) {
    value.kind = ours->second;
  } else if (const auto use = service_addresses_.find(key); use != service_addresses_.end()) {
    value.kind = use->second.cluster > 0 ? LB_CLUSTER_ADDRESS : LB_SERVICE_ADDRESS;
  } else {
    return addresses_.erase(key);
  }
  return addresses_.put(key, value);
}

// After all frontends of the batch have come, so that a port which comes with its service is never refused.
void Tables::write_service_addresses() {
  error_code error;
  for (const lb_address_key& key : std::exchange(touched_addresses_, {})) {
    if (const error_code failed = write_address(key)) error = failed;
  }
  if (error) tell_addresses(error);
}

void Tables::set_addresses(std::vector<NodeAddress> addresses) {
  node_addresses_.clear();
  for (const NodeAddress& each : addresses) {
    lb_address_key key{};
    std::memcpy(static_cast<void*>(key.address), each.address.bytes.data(), sizeof(key.address));
    node_addresses_.insert_or_assign(key, each.kind);
  }
  addresses_pending_ = true;
  write_addresses();
}

void Tables::write_addresses() {
  if (!started_ || !addresses_pending_) return;
  Addresses keys;
  for (const auto& [key, kind] : node_addresses_) keys.insert(key);
  for (const auto& [key, use] : service_addresses_) keys.insert(key);
  for (const auto& [key, value] : addresses_.held()) keys.insert(key);
  error_code error;
  for (const lb_address_key& key : keys) {
    if (const error_code failed = write_address(key)) error = failed;
  }
  tell_addresses(error);
}

void Tables::tell_addresses(const error_code& error) {
  addresses_pending_ = static_cast<bool>(error);
  if (is_full(error)) note_short(&Sizes::frontends);
  const std::string reason =
      error ? fmt::format("its addresses and those of services cannot be written (lb_addresses holds {}): {}",
                          addresses_.limit(), error.message())
            : std::string();
  if (std::exchange(reported_["Node"], reason) != reason && error) {
    complain_({.object = "Node", .where = {}, .reason = reason});
  }
}

void Tables::set_ranges(std::uint32_t list, const std::vector<k8s::Prefix>& ranges) {
  auto keys = range_keys(ranges, list);
  const auto [wanted, first] = wanted_ranges_.try_emplace(list);
  if (!first && std::ranges::equal(wanted->second, keys, maps::EqualBytes())) return;
  wanted->second = std::move(keys);
  ranges_pending_ = true;
  write_ranges();
}

void Tables::write_ranges() {
  if (!started_ || !ranges_pending_) return;
  error_code error;
  std::vector<lb_range_key> gone;
  Ranges wanted;
  for (const auto& [list, keys] : wanted_ranges_) wanted.insert(keys.begin(), keys.end());
  for (const auto& [key, value] : ranges_.held()) {
    if (wanted_ranges_.contains(key.service) && !wanted.contains(key)) gone.push_back(key);
  }
  for (const auto& [list, keys] : wanted_ranges_) {
    for (const lb_range_key& key : keys) {
      if (const error_code failed = ranges_.put(key, {.service = list})) error = failed;
    }
  }
  for (const lb_range_key& key : gone) {
    if (const error_code failed = ranges_.erase(key)) error = failed;
  }
  ranges_pending_ = static_cast<bool>(error);
  if (is_full(error)) note_short(&Sizes::ranges);
  const auto reason =
      error ? "the ranges of pods, ClusterIPs and IPsec policies cannot be written: " + error.message()
            : std::string();
  if (std::exchange(reported_["ranges"], reason) != reason && error) {
    complain_({.object = "Node", .where = {}, .reason = reason});
  }
}

}  // namespace lb::agent
