// SPDX-License-Identifier: Apache-2.0
// External IPs that this node holds: a floating address (keepalived, kube-vip) is served where --external-ips
// names it, and the node's own is safe from ranges (REL-51).
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <string>
#include <vector>

#include "agent/plan/plan.hpp"
#include "build.hpp"

namespace lb::test {
namespace {

struct Row {
  std::string external_ip;
  std::optional<std::vector<std::string>> ranges;  ///< nullopt: all
  bool is_served;
};

const std::vector<Row> rows = {
    // An address of no device.
    {"198.51.100.1", std::nullopt, true},
    {"198.51.100.1", {{"0.0.0.0/0"}}, true},
    {"198.51.100.1", {{"203.0.113.0/24"}}, false},
    // A device's: all names none, nor does a range of the whole family.
    {"203.0.113.7", std::nullopt, false},
    {"203.0.113.7", {{"0.0.0.0/0"}}, false},
    {"203.0.113.7", {{"0.0.0.0/0", "203.0.113.0/24"}}, true},
    {"203.0.113.7", {{"203.0.113.7/32"}}, true},
    {"203.0.113.7", {{"198.51.100.0/24"}}, false},
    {"2001:db8:7::7", {{"::/0"}}, false},
    {"2001:db8:7::7", {{"2001:db8:7::/64"}}, true},
    // The Node object's: only by itself.
    {"192.0.2.10", std::nullopt, false},
    {"192.0.2.10", {{"192.0.2.0/24"}}, false},
    {"192.0.2.10", {{"192.0.2.0/24", "192.0.2.10/32"}}, true},
    {"2001:db8::10", {{"2001:db8::/120"}}, false},
    {"2001:db8::10", {{"2001:db8::10/128"}}, true},
};

TEST_CASE("REL-159 --external-ips names addresses that this node holds, its own only by themselves") {
  agent::NodeView node;
  node.object_addresses = {address("192.0.2.10"), address("2001:db8::10")};
  node.addresses = node.object_addresses;
  node.addresses.push_back(address("203.0.113.7"));
  node.addresses.push_back(address("2001:db8:7::7"));
  std::ranges::sort(node.addresses);
  for (const auto& row : rows) {
    INFO(row.external_ip << (row.ranges ? " in " + row.ranges->front() : ""));
    agent::PlanOptions options;
    if (row.ranges) {
      options.external_ip_ranges.emplace();
      for (const auto& range : *row.ranges) {
        options.external_ip_ranges->push_back(prefix(range));
      }
    }
    auto made = service();
    made.cluster_ips = {address("10.96.0.9"), address("fd00:96::9")};
    made.external_ips = {address(row.external_ip)};
    const auto spec = agent::spec(made, node, options);
    const bool is_served = std::ranges::any_of(spec.ports, [&](const auto& port) {
      return std::ranges::any_of(port.plan.frontends,
                                 [](const auto& each) { return each.kind == LB_EXTERNAL_IP; });
    });
    CHECK(is_served == row.is_served);
    CHECK(spec.complaints.empty() == row.is_served);
  }
}

}  // namespace
}  // namespace lb::test
