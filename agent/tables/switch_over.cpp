// SPDX-License-Identifier: Apache-2.0
// Stores each word of the page whole.
#include "agent/tables/switch_over.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "agent/base/clock.hpp"
#include "k8s/objects/raw_address.hpp"

namespace lb::agent {
namespace {

template <class Change>
void change_policy(maps::MappedArray<lb_node>& page, Change change) {
  auto node = page.load(0);
  change(node.policy);
  page.publish_change<offsetof(lb_node, policy)>(0, node);
}

}  // namespace

void set_conntrack_nat(maps::MappedArray<lb_node>& page, lb_bool translates) {
  change_policy(page, [&](lb_node_policy& policy) { policy.conntrack_nat = translates; });
}

void set_draining(maps::MappedArray<lb_node>& page, std::uint32_t deadline) {
  auto node = page.load(0);
  if (node.policy.draining != LB_YES) {
    node.drain_started = flow_clock_now(node.hertz);
  }
  node.drain_deadline = deadline;
  page.publish_change<offsetof(lb_node, drain_started)>(0, node);
  change_policy(page, [](lb_node_policy& policy) { policy.draining = LB_YES; });
}

void end_draining(maps::MappedArray<lb_node>& page) {
  change_policy(page, [](lb_node_policy& policy) { policy.draining = LB_NO; });
}

std::uint32_t service_at(const maps::Table<lb_frontend_key, lb_frontend>& frontends,
                         const maps::Table<lb_address_key, lb_address>& addresses,
                         const lb_frontend_key& key) {
  if (const auto found = frontends.get(key)) {
    return found->service;
  }
  lb_address_key address{};
  std::ranges::copy(key.address, std::begin(address.address));
  const auto kind = addresses.get(address);
  if (!kind || kind->kind != LB_NODE_PORT_ADDRESS) {
    return 0;
  }
  auto node_port = key;
  const bool is_ipv4 = k8s::address_of(key.address).family() == k8s::Family::ipv4;
  std::fill(std::begin(node_port.address) + (is_ipv4 ? k8s::ipv4_at : 0), std::end(node_port.address),
            std::uint8_t{0});
  const auto found = frontends.get(node_port);
  return found ? found->service : 0;
}

}  // namespace lb::agent
