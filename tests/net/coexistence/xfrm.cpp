// SPDX-License-Identifier: Apache-2.0
// The watch follows IPsec policies, and the datapath no longer redirects packets that they encrypt or block
// (REL-88).
#include "agent/netlink/xfrm.hpp"

#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "agent/tables/redirected_flows.hpp"
#include "tests/net/lib/paths.hpp"
#include "tests/net/lib/talk.hpp"

namespace lb::test {
namespace {

using Texts = std::vector<std::string>;

constexpr const char* encrypts =
    "ip xfrm policy add src 0.0.0.0/0 dst 10.244.2.0/24 dir out "
    "tmpl src 192.0.2.1 dst 192.0.2.2 proto esp mode tunnel";
/// Forwarded packets from that range must have been encrypted: says nothing about hosts behind this node.
constexpr const char* expects =
    "ip xfrm policy add src 10.244.3.0/24 dst 192.0.2.0/24 dir fwd "
    "tmpl src 192.0.2.2 dst 192.0.2.1 proto esp mode tunnel";
constexpr const char* blocks = "ip xfrm policy add src ::/0 dst fd00:244:2::/64 dir fwd action block";

Texts texts(const agent::XfrmPolicies& policies) {
  Texts all;
  for (const auto& range : policies.ranges) {
    all.push_back(range.text());
  }
  return all;
}

/// Runs the context until the watch has these policies; returns false after half a minute.
bool says(boost::asio::io_context& context, const agent::XfrmWatch& watch, const Texts& wanted) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (texts(watch.policies()) != wanted && std::chrono::steady_clock::now() < deadline) {
    context.run_one_for(std::chrono::milliseconds(100));
  }
  return texts(watch.policies()) == wanted;
}

template <class Table>
std::size_t entries(Table& table) {
  std::size_t count = 0;
  CHECK_FALSE(table.for_each([&](const auto&, const auto&) { ++count; }));
  return count;
}

struct Entries {
  std::size_t ipv4 = 0;
  std::size_t ipv6 = 0;
  bool operator==(const Entries&) const = default;
};

Entries entries_of(maps::MapSet& maps) {
  return {.ipv4 = entries(maps.flows4) + entries(maps.unassured4),
          .ipv6 = entries(maps.flows6) + entries(maps.unassured6)};
}

/// Opens TCP and UDP flows through the node, in both families, each along a leg.
void open_flows(const PodScene& scene, Writer& writer, const Leg& leg) {
  std::uint32_t number = 0;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const auto type : {SOCK_STREAM, SOCK_DGRAM}) {
      const auto& known = names(family);
      const auto backend = end(known.*leg.backend, 8080);
      const auto where =
          offer(writer, ++number, load_balancer, known, backend, type == SOCK_STREAM ? LB_TCP : LB_UDP);
      REQUIRE(talk(scene.*leg.from, serve_at(scene.*leg.to, type, backend), type, where));
    }
  }
}

/// Ends the flows towards that range; returns the number of erased entries.
std::size_t end_towards(maps::MapSet& maps, const std::string& range) {
  boost::asio::io_context context;
  std::size_t erased = 0;
  agent::RedirectedFlows flows(context, maps, [&](std::size_t entries) { erased = entries; });
  flows.end({*k8s::Prefix::parse(range)});
  context.run();
  return erased;
}

}  // namespace

TEST_CASE("IPsec policies are followed as they come and go") {
  const Lab lab;
  shell(encrypts);
  boost::asio::io_context context;
  int changes = 0;
  const agent::XfrmWatch watch(context, [&] { ++changes; });
  CHECK(texts(watch.policies()) == Texts{"10.244.2.0/24"});
  shell(blocks);
  CHECK(says(context, watch, {"10.244.2.0/24", "fd00:244:2::/64"}));
  CHECK(changes == 1);
  shell(expects);
  CHECK(says(context, watch, {"10.244.2.0/24", "10.244.3.0/24", "fd00:244:2::/64"}));
  shell("ip xfrm policy delete src 10.244.3.0/24 dst 192.0.2.0/24 dir fwd");
  shell("ip xfrm policy delete src 0.0.0.0/0 dst 10.244.2.0/24 dir out");
  CHECK(says(context, watch, {"fd00:244:2::/64"}));
  shell("ip xfrm policy flush");
  CHECK(says(context, watch, {}));
  shell("ip xfrm policy setdefault out block");
  CHECK(says(context, watch, {"::/0", "0.0.0.0/0"}));
  shell("ip xfrm policy setdefault out accept");
  CHECK(says(context, watch, {}));
}

TEST_CASE("REL-88 an IPsec policy that expired is noticed") {
  const Lab lab;
  boost::asio::io_context context;
  const agent::XfrmWatch watch(context, [] {});
  shell(std::string(encrypts) + " && " + blocks + " limit time-hard 2");
  CHECK(says(context, watch, {"10.244.2.0/24", "fd00:244:2::/64"}));
  CHECK(says(context, watch, {"10.244.2.0/24"}));
}

TEST_CASE("REL-88 IPsec policies that could not be read are read again") {
  const Lab lab;
  boost::asio::io_context context;
  rlimit files{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &files) == 0);
  const auto limit_to = [&files](rlim_t most) {
    const rlimit limit{.rlim_cur = most, .rlim_max = files.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  };
  const agent::XfrmWatch watch(context, [] {});
  shell(encrypts);
  limit_to(0);  // so that no socket can be made
  context.run_for(std::chrono::milliseconds(100));
  CHECK(texts(watch.policies()).empty());
  limit_to(files.rlim_cur);
  CHECK(says(context, watch, {"10.244.2.0/24"}));
}

TEST_CASE("flows that no policy sees end where one covers the backend, or the client, and others go on") {
  struct Case {
    const Leg& leg;
    const char* ends4;  // the policy that ends the flows of a family
    const char* ends6;
  };
  const std::array cases = {Case{outside_elsewhere, "10.244.2.0/24", "fd00:244:2::/64"},
                            Case{outside_elsewhere, "192.0.2.100/32", "2001:db8:1::100/128"},
                            Case{outside_here, "192.0.2.100/32", "2001:db8:1::100/128"}};
  for (const auto& [leg, ends4, ends6] : cases) {
    INFO(leg.name << " and a policy for " << ends4);
    PodScene scene(Wiring::routed);
    REQUIRE(scene.attach().failure().empty());
    Writer writer(scene.lab.pins());
    auto maps = maps::MapSet::open(maps::Pins(scene.lab.pins()), maps::Access::write);
    REQUIRE(maps.has_value());
    open_flows(scene, writer, leg);
    const auto before = entries_of(*maps);
    REQUIRE(before.ipv4 >= 4);
    REQUIRE(before.ipv6 >= 4);
    CHECK(end_towards(*maps, "198.18.0.0/15") == 0);
    CHECK(end_towards(*maps, ends4) == before.ipv4);
    CHECK(entries_of(*maps) == Entries{.ipv4 = 0, .ipv6 = before.ipv6});
    CHECK(end_towards(*maps, ends6) == before.ipv6);
    CHECK(entries_of(*maps) == Entries{});
  }
}

TEST_CASE("flows that the stack encrypts, and pods' own to themselves, outlive a policy") {
  struct Case {
    const Leg& leg;
    std::string PodNames::* covered;
  };
  const std::array cases = {Case{outside_here, &PodNames::server}, Case{pod_elsewhere, &PodNames::client},
                            Case{pod_elsewhere, &PodNames::remote_pod},
                            Case{pod_to_itself, &PodNames::client}};
  for (const auto& [leg, covered] : cases) {
    INFO(leg.name);
    PodScene scene(Wiring::routed);
    REQUIRE(scene.attach().failure().empty());
    Writer writer(scene.lab.pins());
    auto maps = maps::MapSet::open(maps::Pins(scene.lab.pins()), maps::Access::write);
    REQUIRE(maps.has_value());
    open_flows(scene, writer, leg);
    CHECK(end_towards(*maps, names(AF_INET).*covered + "/32") == 0);
    CHECK(end_towards(*maps, names(AF_INET6).*covered + "/128") == 0);
  }
}

}  // namespace lb::test
