// SPDX-License-Identifier: Apache-2.0
// The programs' settings for clients and ports, derived from options and the agent's own Node.
#include "agent/run/node_policy.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <string>

#include "agent/netlink/kernel_ports.hpp"
#include "agent/tables/node_page.hpp"
#include "tests/unit/plan/build.hpp"

namespace {

using namespace lb::agent;
using lb::test::prefix;
using Ranges = std::vector<lb::k8s::Prefix>;

Ranges ranges(const std::vector<std::string>& texts) {
  Ranges made;
  for (const auto& text : texts) {
    made.push_back(prefix(text));
  }
  return made;
}

struct Row {
  const char* name;
  PodDetector asked;
  std::vector<std::string> cluster;
  std::vector<std::string> devices;
  std::string bridge;
  std::vector<std::string> node;
  lb_local_detection ipv4;
  lb_local_detection ipv6;
  std::vector<std::string> pods;
};

const std::vector<Row> rows = {
    {"nothing is known", PodDetector::automatic, {}, {}, "", {}, LB_DETECT_NONE, LB_DETECT_NONE, {}},
    {"the Node's ranges",
     PodDetector::automatic,
     {},
     {},
     "",
     {"10.244.1.0/24", "fd00:1::/64"},
     LB_DETECT_BY_RANGE,
     LB_DETECT_BY_RANGE,
     {"10.244.1.0/24", "fd00:1::/64"}},
    {"pods' devices win over the Node's ranges",
     PodDetector::automatic,
     {},
     {"veth"},
     "",
     {"10.244.1.0/24"},
     LB_DETECT_BY_DEVICE,
     LB_DETECT_BY_DEVICE,
     {}},
    {"so does a bridge",
     PodDetector::automatic,
     {},
     {},
     "cni0",
     {"10.244.1.0/24"},
     LB_DETECT_BY_DEVICE,
     LB_DETECT_BY_DEVICE,
     {}},
    {"cluster CIDRs win over devices",
     PodDetector::automatic,
     {"10.244.0.0/16"},
     {"veth"},
     "cni0",
     {},
     LB_DETECT_BY_RANGE,
     LB_DETECT_NONE,
     {"10.244.0.0/16"}},
    {"the first of each family counts",
     PodDetector::cluster_cidr,
     {"10.1.0.0/16", "10.2.0.0/16", "fd01::/48", "fd02::/48"},
     {},
     "",
     {},
     LB_DETECT_BY_RANGE,
     LB_DETECT_BY_RANGE,
     {"10.1.0.0/16", "fd01::/48"}},
    {"a CIDR of the other family is none (SEM-68)",
     PodDetector::cluster_cidr,
     {"fd01::/48"},
     {},
     "",
     {},
     LB_DETECT_NONE,
     LB_DETECT_BY_RANGE,
     {"fd01::/48"}},
    {"cluster CIDRs asked for and not given",
     PodDetector::cluster_cidr,
     {},
     {"veth"},
     "",
     {"10.244.1.0/24"},
     LB_DETECT_NONE,
     LB_DETECT_NONE,
     {}},
    {"the Node's ranges asked for",
     PodDetector::node_cidr,
     {"10.244.0.0/16"},
     {"veth"},
     "",
     {"10.244.1.0/24"},
     LB_DETECT_BY_RANGE,
     LB_DETECT_NONE,
     {"10.244.1.0/24"}},
    {"devices asked for",
     PodDetector::prefix,
     {"10.244.0.0/16"},
     {"veth"},
     "",
     {},
     LB_DETECT_BY_DEVICE,
     LB_DETECT_BY_DEVICE,
     {}},
};

TEST_CASE("how a pod is distinguished from other clients (SEM-32)") {
  for (const auto& row : rows) {
    INFO(row.name);
    AgentOptions options;
    options.detect_local = row.asked;
    options.cluster_cidrs = ranges(row.cluster);
    options.pod_devices = row.devices;
    options.pod_bridge = row.bridge;
    const auto policy = node_policy_of(options, ranges(row.node), KubeProxy::absent);
    CHECK(policy.word.local_detection4 == row.ipv4);
    CHECK(policy.word.local_detection6 == row.ipv6);
    CHECK(policy.pods == ranges(row.pods));
    CHECK(policy.word.masquerade_all == LB_NO);
    CHECK(policy.word.drop_unallocated == LB_NO);
  }
}

TEST_CASE("masquerade all, and dropping what is not allocated: not where another proxy has services") {
  AgentOptions options;
  options.masquerade = Masquerade::all;
  options.unallocated = Unallocated::drop;
  CHECK(node_policy_of(options, {}, KubeProxy::absent).word.masquerade_all == LB_YES);
  CHECK(node_policy_of(options, {}, KubeProxy::absent).word.drop_unallocated == LB_YES);
  CHECK(node_policy_of(options, {}, KubeProxy::present).word.drop_unallocated == LB_NO);
  CHECK(node_policy_of(options, {}, KubeProxy::present).word.masquerade_all == LB_YES);
  options.service_proxy_name = "sluice";
  CHECK(node_policy_of(options, {}, KubeProxy::absent).word.drop_unallocated == LB_NO);
}

TEST_CASE("lists of ports as the kernel writes them") {
  CHECK(parse_port_list("").empty());
  CHECK(parse_port_list("\n").empty());
  CHECK(parse_port_list("8080,30000-32767,9\n") ==
        std::vector<PortRange>{{8080, 8080}, {30000, 32767}, {9, 9}});
  CHECK(parse_port_list("x,5-3,70000,7") == std::vector<PortRange>{{7, 7}});
}

TEST_CASE("source NAT leaves the kernel's own ports alone (REL-64)") {
  const std::vector<PortRange> wanted = {{1024, 29999}, {61000, 65535}};
  CHECK(source_ports(wanted, {.ephemeral = {32768, 60999}, .reserved = {}}) == wanted);
  CHECK(source_ports(wanted, {}) == wanted);
  CHECK(source_ports(wanted, {.ephemeral = {10000, 62000}, .reserved = {}}) ==
        std::vector<PortRange>{{1024, 9999}, {62001, 65535}});
  CHECK(source_ports(wanted, {.ephemeral = {5000, 5999}, .reserved = {}}) ==
        std::vector<PortRange>{{6000, 29999}, {61000, 65535}});
  // Too few ports would be left: all are used, and the program looks up sockets anyway.
  CHECK(source_ports(wanted, {.ephemeral = {1024, 65535}, .reserved = {}}) == wanted);
}

TEST_CASE("reserved ports are bits, and the ephemeral range with them where source NAT stays outside of it") {
  const auto is_set = [](const auto& bits, unsigned port) {
    return (bits.at(port / 64) >> port % 64 & 1) != 0;
  };
  const KernelPorts kernel{.ephemeral = {32768, 60999}, .reserved = {{8080, 8080}, {30000, 30063}}};
  const auto bits = reserved_bits({{1024, 29999}}, kernel);
  for (const unsigned port : {8080U, 30000U, 30063U, 32768U, 60999U}) {
    CHECK(is_set(bits, port));
  }
  for (const unsigned port : {0U, 8079U, 8081U, 29999U, 30064U, 32767U, 61000U}) {
    CHECK_FALSE(is_set(bits, port));
  }
  const auto all = reserved_bits({{1024, 65535}}, kernel);
  CHECK(is_set(all, 8080));
  CHECK_FALSE(is_set(all, 40000));
}

NodePage page() { return NodePage(lb::maps::MappedArray<lb_node>::in_memory(1)); }

TEST_CASE("REL-89: flows are looked for only where another layout's flow tables were left") {
  auto fresh = page();
  fresh.begin("one", 250, "", NodePage::Before::nothing);
  CHECK(fresh.read().lost_until == 0);
  auto migrated = page();
  migrated.begin("one", 250, "", NodePage::Before::other_layout);
  const auto until = migrated.read().lost_until;
  CHECK(until > 0);
  // The next start keeps the flows of this one.
  migrated.begin("one", 250, "", NodePage::Before::other_layout);
  CHECK(migrated.read().lost_until == until);
}

TEST_CASE("nodes of one cluster choose alike, and each keeps its own source ports to itself") {
  auto one = page();
  auto other = page();
  one.begin("one", 250, "sixteen bytes and more", NodePage::Before::nothing);
  other.begin("other", 250, "sixteen bytes and more", NodePage::Before::nothing);
  const auto equal = [](const auto& left, const auto& right) {
    return std::memcmp(&left, &right, sizeof(left)) == 0;
  };
  CHECK(equal(one.read().choice, other.read().choice));
  CHECK_FALSE(equal(one.read().secret, other.read().secret));
  auto stranger = page();
  stranger.begin("stranger", 250, "sixteen bytes, others", NodePage::Before::nothing);
  CHECK_FALSE(equal(one.read().choice, stranger.read().choice));
}

TEST_CASE("without a cluster's secret only consistent selection is the same everywhere") {
  auto one = page();
  auto other = page();
  one.begin("one", 250, "", NodePage::Before::nothing);
  other.begin("other", 250, "", NodePage::Before::nothing);
  const auto ours = one.read();
  const auto theirs = other.read();
  const auto equal = [&](lb_selection selection) {
    return std::memcmp(&ours.choice[selection], &theirs.choice[selection], sizeof(ours.choice[selection])) ==
           0;
  };
  CHECK(equal(LB_CONSISTENT));
  CHECK_FALSE(equal(LB_RANDOM));
  CHECK(ours.choice[LB_CONSISTENT][0] != ours.choice[LB_CONSISTENT][1]);
}

TEST_CASE("an agent that starts again keeps its choice") {
  auto array = page();
  array.begin("one", 250, "", NodePage::Before::nothing);
  const auto before = array.read();
  array.set_node_policy({.local_detection4 = LB_DETECT_BY_RANGE,
                         .local_detection6 = LB_DETECT_BY_DEVICE,
                         .masquerade_all = LB_YES,
                         .drop_unallocated = LB_NO,
                         .xfrm = LB_XFRM_NONE,
                         .conntrack_nat = LB_NO,
                         .draining = LB_NO,
                         .pad = 0});
  array.begin("one", 250, "", NodePage::Before::nothing);
  const auto after = array.read();
  CHECK(std::memcmp(&before.choice, &after.choice, sizeof(before.choice)) == 0);
  CHECK(after.policy.local_detection4 == LB_DETECT_BY_RANGE);
  CHECK(after.policy.local_detection6 == LB_DETECT_BY_DEVICE);
  CHECK(after.policy.masquerade_all == LB_YES);
}

}  // namespace
