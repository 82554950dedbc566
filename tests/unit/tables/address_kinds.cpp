// SPDX-License-Identifier: Apache-2.0
// Addresses and ranges that belong to no single service: ClusterIPs, this node's addresses, pods' ranges.
#include <catch2/catch_test_macros.hpp>
#include <map>

#include "maps/abi/checks.h"
#include "tests/unit/tables/fakes.hpp"

using lb::agent::Batch;
using namespace lb::tables_test;

namespace {

/// The kind of each address, by the address's last byte.
std::map<int, lb_address_kind> kinds(FakeKernel& kernel) {
  std::map<int, lb_address_kind> found;
  for (const auto& [bytes, entry] : kernel.addresses.entries) {
    CHECK(entry.second.check == lb_address_check(&entry.first));
    found[entry.first.address[15]] = entry.second.kind;
  }
  return found;
}

using Kinds = std::map<int, lb_address_kind>;

/// The service number and the last byte of the address of each range.
std::multimap<std::uint32_t, int> ranges(FakeKernel& kernel) {
  std::multimap<std::uint32_t, int> found;
  for (const auto& [bytes, entry] : kernel.ranges.entries) {
    CHECK(entry.second.service == entry.first.service);
    found.emplace(entry.first.service, entry.first.address[15]);
  }
  return found;
}

lb::k8s::Prefix host(std::uint8_t last) { return {.address = address(0, last), .length = 128}; }

}  // namespace

TEST_CASE("a ClusterIP is known as long as one frontend of it is there (choice A)") {
  FakeKernel kernel;
  Agent agent(kernel);
  auto web = service("web", 1, {1});
  web->frontends.push_back({.address = address(0, 7), .port = 80, .kind = LB_LOAD_BALANCER});
  agent.tables.apply(Batch::whole, {change(web), change(service("db", 2, {2}))});
  CHECK(kinds(kernel) == Kinds{{1, LB_CLUSTER_ADDRESS}, {2, LB_CLUSTER_ADDRESS}, {7, LB_SERVICE_ADDRESS}});

  auto two = service("web", 1, {1});
  two->frontends.push_back({.address = address(0, 1), .port = 81, .kind = LB_CLUSTER_IP});
  agent.tables.apply(Batch::changes, {change(two)});
  agent.tables.apply(Batch::changes, {change(service("web", 1, {1}))});
  CHECK(kinds(kernel).contains(1));
  agent.tables.apply(Batch::changes, {change("web", {})});
  CHECK(kinds(kernel) == Kinds{{2, LB_CLUSTER_ADDRESS}});
  CHECK(agent.tables.complete());
}

TEST_CASE("a ClusterIP that passes to another service stays known") {
  FakeKernel kernel;
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {change(service("old", 1, {1}))});
  agent.tables.apply(Batch::changes, {change("old", {}), change(service("new", 1, {2}))});
  CHECK(kinds(kernel) == Kinds{{1, LB_CLUSTER_ADDRESS}});
  agent.tables.apply(Batch::changes, {change("new", {})});
  CHECK(kinds(kernel).empty());
}

TEST_CASE("a ClusterIP that is this node's too is the node's (REL-73), and is known again when it goes") {
  FakeKernel kernel;
  Agent agent(kernel);
  agent.tables.apply(Batch::whole, {change(service("dns", 1, {1}))});
  agent.tables.set_addresses({{.address = address(0, 1), .kind = LB_NODE_ADDRESS},
                              {.address = address(0, 9), .kind = LB_NODE_PORT_ADDRESS}});
  CHECK(kinds(kernel) == Kinds{{1, LB_NODE_ADDRESS}, {9, LB_NODE_PORT_ADDRESS}});
  agent.tables.set_addresses({{.address = address(0, 9), .kind = LB_NODE_PORT_ADDRESS}});
  CHECK(kinds(kernel) == Kinds{{1, LB_CLUSTER_ADDRESS}, {9, LB_NODE_PORT_ADDRESS}});
}

TEST_CASE("the next agent keeps ClusterIPs, and forgets those of services that went meanwhile") {
  FakeKernel kernel;
  {
    Agent agent(kernel);
    agent.tables.apply(Batch::whole, {change(service("web", 1, {1})), change(service("db", 2, {2}))});
  }
  Agent agent(kernel);
  REQUIRE(agent.tables.adopt().has_value());
  const int writes = kernel.faults.writes;
  agent.tables.set_addresses({});
  agent.tables.apply(Batch::whole, {change(service("web", 1, {1})), change(service("db", 2, {2}))});
  CHECK(kernel.faults.writes == writes);
  agent.tables.apply(Batch::whole, {change(service("web", 1, {1}))});
  CHECK(kinds(kernel) == Kinds{{1, LB_CLUSTER_ADDRESS}});
}

TEST_CASE("REL-64 a node port is reserved before it is served, and for as long as a service has it") {
  FakeKernel kernel;
  Agent agent(kernel);
  const auto kept = [&](std::uint16_t port) { return is_reserved(kernel.store(), port); };
  const auto node_port = [](const std::string& name, std::uint8_t address, std::uint16_t port) {
    auto made = service(name, address, {1});
    made->frontends.push_back({.address = lb::k8s::Address{}, .port = port, .kind = LB_NODE_PORT});
    return made;
  };
  lb::agent::ReservedPorts::Bits kernels{};
  kernels.at(8080 / 64) |= std::uint64_t{1} << 8080 % 64;
  agent.tables.set_kernel_ports(kernels);
  CHECK(kept(8080));

  kernel.faults.fail_at = 2;  // the writes: a name, a frontend, and the node port
  agent.tables.apply(Batch::whole, {change(node_port("web", 1, 20080))});
  CHECK_FALSE(kept(20080));
  agent.tables.retry();
  CHECK(kept(20080));
  agent.tables.apply(Batch::changes, {change(node_port("db", 2, 8080))});
  agent.tables.apply(Batch::changes, {change("db", {})});
  CHECK(kept(8080));
  agent.tables.set_kernel_ports({});
  CHECK_FALSE(kept(8080));
  CHECK(kept(20080));

  Agent next(kernel);
  REQUIRE(next.tables.adopt().has_value());
  next.tables.set_kernel_ports(kernels);
  CHECK(kept(20080));
  next.tables.apply(Batch::whole, {change(service("web", 1, {1}))});
  CHECK_FALSE(kept(20080));
  CHECK(kept(8080));
}

TEST_CASE("REL-64 an agent that is killed when it serves a node port has reserved it already") {
  FakeKernel kernel;
  kernel.faults.kill_at = 2;
  Agent agent(kernel);
  auto web = service("web", 1, {1});
  web->frontends.push_back({.address = lb::k8s::Address{}, .port = 20080, .kind = LB_NODE_PORT});
  CHECK_THROWS_AS(agent.tables.apply(Batch::whole, {change(web)}), Killed);
  CHECK(kernel.frontends.entries.size() == 1);
  CHECK(is_reserved(kernel.store(), 20080));
}

TEST_CASE("the lists of ranges hold what was last reported, beside the services' own") {
  FakeKernel kernel;
  Agent agent(kernel);
  agent.tables.set_ranges(LB_POD_RANGES, {host(1)});
  CHECK(kernel.ranges.entries.empty());
  auto web = service("web", 1, {1});
  web->source_ranges = {host(9)};
  agent.tables.apply(Batch::whole, {change(web)});
  using Ranges = std::multimap<std::uint32_t, int>;
  CHECK(ranges(kernel) == Ranges{{1, 9}, {LB_POD_RANGES, 1}});
  agent.tables.set_ranges(LB_CLUSTER_IP_RANGES, {host(3), host(4)});
  agent.tables.set_ranges(LB_POD_RANGES, {host(2)});
  CHECK(ranges(kernel) ==
        Ranges{{LB_CLUSTER_IP_RANGES, 3}, {LB_CLUSTER_IP_RANGES, 4}, {1, 9}, {LB_POD_RANGES, 2}});
  agent.tables.set_ranges(LB_CLUSTER_IP_RANGES, {});
  CHECK(ranges(kernel) == Ranges{{1, 9}, {LB_POD_RANGES, 2}});
}

TEST_CASE(
    "consistent selection gives a set the slots that were asked for, the same ones whatever the ids are") {
  FakeKernel one({.slots = 8192});
  FakeKernel other({.slots = 8192});
  Agent first(one, 1021);
  Agent second(other, 1021);
  auto web = service("web", 1, {1, 2, 3, 4});
  web->policy.selection = LB_CONSISTENT;
  first.tables.apply(Batch::whole, {change(web)});
  second.tables.apply(Batch::whole, {change(service("before", 9, {7, 8, 9}))});
  second.tables.apply(Batch::changes, {change(web)});
  const auto endpoints = [](FakeKernel& kernel, std::uint32_t number) {
    std::vector<int> lasts;
    const auto set = kernel.services.load(number).cluster;
    for (std::uint32_t at = 0; at < set.count; ++at) {
      lasts.push_back(kernel.backends.load(kernel.slots.load(set.first + at)).address[15]);
    }
    return lasts;
  };
  CHECK(endpoints(one, 1).size() == 1021);
  CHECK(endpoints(one, 1) == endpoints(other, 2));
}
