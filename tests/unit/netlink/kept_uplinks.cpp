// SPDX-License-Identifier: Apache-2.0
// Uplinks that are kept through a restart of the network's configuration (REL-149).
#include "agent/netlink/kept_uplinks.hpp"

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <string>
#include <vector>

namespace lb::test {
namespace {

using agent::KeptUplinks;
using agent::Uplink;
using namespace std::chrono_literals;

using Texts = std::vector<std::string>;

/// A node's devices, and the uplinks that its addresses and routes show.
struct Node {
  agent::NodeLinks links;
  KeptUplinks kept;
  KeptUplinks::TimePoint now{};

  Node() {
    add(2, "eth0");
    add(3, "eth1");
    add(4, "eth2");
  }
  void add(std::uint32_t index, const std::string& name) { links[index].device.name = name; }
  Texts served(const Texts& found) {
    std::vector<Uplink> uplinks;
    uplinks.reserve(found.size());
    for (const auto& name : found) {
      uplinks.push_back({name, "default routes"});
    }
    return agent::names_of(kept.joined(uplinks, links, now));
  }
};

}  // namespace

TEST_CASE("REL-149: an uplink whose addresses went is kept for ten seconds, at its position") {
  Node node;
  CHECK(node.served({"eth0", "eth1", "eth2"}) == Texts{"eth0", "eth1", "eth2"});
  CHECK(node.served({"eth0", "eth2"}) == Texts{"eth0", "eth1", "eth2"});
  node.now += 9s;
  CHECK(node.served({}) == Texts{"eth0", "eth1", "eth2"});
  CHECK_FALSE(node.kept.is_due(node.now));
  node.now += 1s;
  CHECK(node.kept.is_due(node.now));
  CHECK(node.served({}) == Texts{"eth0", "eth2"});
  CHECK_FALSE(node.kept.is_due(node.now));
  CHECK(node.served({"eth2"}) == Texts{"eth0", "eth2"});
  node.now += 9s;
  CHECK(node.kept.is_due(node.now));
  CHECK(node.served({"eth2"}) == Texts{"eth2"});
}

TEST_CASE("REL-149: one that comes back within the gap has a whole gap next time") {
  Node node;
  node.served({"eth0"});
  node.served({});
  node.now += 9s;
  CHECK(node.served({"eth0"}) == Texts{"eth0"});
  node.now += 9s;
  CHECK_FALSE(node.kept.is_due(node.now));
  CHECK(node.served({}) == Texts{"eth0"});
  node.now += 9s;
  CHECK(node.served({}) == Texts{"eth0"});
}

TEST_CASE("REL-149: a device that goes, is made again or becomes a port of a bridge is not kept") {
  Node node;
  node.served({"eth0", "eth1", "eth2"});
  node.links.erase(2);
  node.links.erase(3);
  node.add(9, "eth1");
  node.links[4].device.master = 7;
  CHECK(node.served({}).empty());
}

}  // namespace lb::test
