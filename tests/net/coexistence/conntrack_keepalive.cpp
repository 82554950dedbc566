// SPDX-License-Identifier: Apache-2.0
// The tables that keep conntrack translating (REL-84) and tracking (REL-89), as nft lists them, and what the
// kernel reports and accepts by ctnetlink.
#include "agent/netlink/conntrack_keepalive.hpp"

#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <string>
#include <vector>

#include "agent/netlink/nf_table_watch.hpp"
#include "agent/netlink/nf_tables.hpp"
#include "agent/netlink/tracked.hpp"
#include "tests/net/lib/lab.hpp"
#include "tests/net/lib/pod_scene.hpp"

namespace lb::test {
namespace {

using agent::Conntrack;
using agent::Tracked;
using agent::TrackedTuple;

k8s::Address address(const char* text) { return k8s::Address::parse(text).value(); }

/// A connection whose source and destination are both translated.
Tracked translated(lb_protocol protocol, const char* client, const char* service, const char* pod,
                   const char* node) {
  return {.original = {address(client), address(service), 40000, 80, protocol},
          .reply = {address(pod), address(node), 8080, 1042, protocol},
          .mark = 7};
}

std::vector<Tracked> all_translated(const Conntrack& conntrack, int family) {
  std::vector<Tracked> found;
  REQUIRE_FALSE(conntrack.for_each_translated(family, [&](const Tracked& each) { found.push_back(each); }));
  return found;
}

void live(Conntrack& conntrack, int family, const Tracked& flow) {
  REQUIRE_FALSE(conntrack.track(flow, 600));
  CHECK(conntrack.track(flow, 600).value() == EEXIST);
  const auto found = conntrack.find(flow.original);
  REQUIRE(found.has_value());
  CHECK(found->original == flow.original);
  CHECK(found->reply == flow.reply);
  CHECK(found->mark == flow.mark);
  CHECK(conntrack.find(agent::reversed(flow.reply)).error().value() == ENOENT);
  REQUIRE(all_translated(conntrack, family).size() == 1);
  CHECK(all_translated(conntrack, family).front() == *found);
  CHECK_FALSE(conntrack.erase(flow.original));
  CHECK(conntrack.erase(flow.original).value() == ENOENT);
  CHECK(all_translated(conntrack, family).empty());
}

}  // namespace

TEST_CASE("REL-84 a table of ours keeps conntrack translating") {
  const Lab lab;
  for (const auto& [family, word] : {std::pair(AF_INET, "ip"), std::pair(AF_INET6, "ip6")}) {
    REQUIRE_FALSE(agent::keep_nat(family, "ours"));
    CHECK_FALSE(agent::keep_nat(family, "ours"));
    const auto listed = Host::here().output(std::string("nft list table ") + word + " ours");
    CHECK(listed.find(
              "type nat hook postrouting priority srcnat; policy accept;\n\t\tct status dnat accept\n") !=
          std::string::npos);
    INFO(listed);
    CHECK(agent::has_nf_table(family, "ours"));
    CHECK_FALSE(agent::remove_nf_table(family, "ours"));
    CHECK_FALSE(agent::has_nf_table(family, "ours"));
  }
}

TEST_CASE("REL-89 a table of ours keeps conntrack tracking") {
  const Lab lab;
  // The number of entries in this network namespace after one datagram of each family.
  const auto tracked = [] {
    const Host here = Host::here();
    for (const auto& [family, loopback] : {std::pair(AF_INET, "127.0.0.1"), std::pair(AF_INET6, "::1")}) {
      REQUIRE(here.socket(family, SOCK_DGRAM).send_to(end(loopback, 9), "tracked?") == 0);
    }
    return std::stoi(here.output("cat /proc/sys/net/netfilter/nf_conntrack_count"));
  };
  CHECK(tracked() == 0);
  for (const auto& [family, word] : {std::pair(AF_INET, "ip"), std::pair(AF_INET6, "ip6")}) {
    REQUIRE_FALSE(agent::keep_tracking(family, "ours"));
    CHECK_FALSE(agent::keep_tracking(family, "ours"));
    CHECK(Host::here().output(std::string("nft list table ") + word + " ours").find("\t\tct state new\n") !=
          std::string::npos);
  }
  CHECK(tracked() == 2);
  agent::remove_kept("ours");
  CHECK(agent::families_with("ours").empty());
}

TEST_CASE("REL-89 a flush of all nftables rules is noticed at once") {
  const Lab lab;
  boost::asio::io_context context;
  int heard = 0;
  agent::NfTableWatch watch(context, "ours", [&] {
    ++heard;
    for (const int family : {AF_INET, AF_INET6}) {
      REQUIRE_FALSE(agent::keep_tracking(family, "ours"));
    }
  });
  watch.start();
  for (const int family : {AF_INET, AF_INET6}) {
    REQUIRE_FALSE(agent::keep_tracking(family, "ours"));
  }
  const auto here = Host::here();
  here.run("nft add table ip other && nft delete table ip other && nft add table ip6 ourselves");
  context.poll();
  CHECK(heard == 0);  // notifications are in the socket before nft has ended
  for (int round = 1; round <= 3; ++round) {
    here.run("nft flush ruleset");
    CHECK(agent::families_with("ours").empty());
    context.poll();
    CHECK(heard == round);
    CHECK(agent::families_with("ours").size() == 2);
  }
  here.run("nft delete table ip ours");
  context.poll();
  CHECK(heard == 4);
  CHECK(agent::families_with("ours").size() == 2);
}

TEST_CASE("REL-84 conntrack takes connections over, and tells of them") {
  const Lab lab;
  REQUIRE_FALSE(agent::keep_nat(AF_INET, "ours"));
  REQUIRE_FALSE(agent::keep_nat(AF_INET6, "ours"));
  auto conntrack = Conntrack::open();
  REQUIRE(conntrack.has_value());
  for (const auto protocol : {LB_TCP, LB_UDP}) {
    live(*conntrack, AF_INET, translated(protocol, "192.0.2.7", "10.96.0.80", "10.244.2.10", "10.0.0.10"));
    live(*conntrack, AF_INET6,
         translated(protocol, "2001:db8::7", "fd00:96::80", "fd00:244:2::10", "fd00::10"));
  }
}

}  // namespace lb::test
