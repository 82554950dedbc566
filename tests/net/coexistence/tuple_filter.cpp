// SPDX-License-Identifier: Apache-2.0
// The nftables table that drops packets of connections on their way to conntrack (REL-84).
#include "agent/netlink/tuple_filter.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <string>
#include <vector>

#include "tests/net/lib/lab.hpp"
#include "tests/net/lib/pod_scene.hpp"
#include "tests/net/lib/scene.hpp"

namespace lb::test {
namespace {

using agent::NfTupleFilter;
using agent::TrackedTuple;

struct Ends {
  int family;
  std::string here, there;
};
const std::vector<Ends> both_families = {{AF_INET, "10.0.0.1", "10.0.0.2"}, {AF_INET6, "fd00::1", "fd00::2"}};

/// Datagrams in both directions between this namespace and a host.
struct Pair {
  explicit Pair(const Ends& ends)
      : ends_(ends), here_(ends.family, SOCK_DGRAM), there_(other.socket(ends.family, SOCK_DGRAM)) {
    const std::string bits = ends.family == AF_INET ? "/24" : "/64 nodad";
    shell("ip link add wire type veth peer name wire netns " + other.space().path());
    shell(fmt::format("ip address add {}{} dev wire && ip link set wire up", ends.here, bits));
    other.run(fmt::format("ip address add {}{} dev wire && ip link set wire up", ends.there, bits));
    shell(await_carrier("wire"));
    other.run(await_carrier("wire"));
    if (ends.family == AF_INET6) {
      shell(await_local_route(ends.here));
      other.run(await_local_route(ends.there));
    }
    REQUIRE(here_.bind(end(ends.here, 5000)) == 0);
    REQUIRE(there_.bind(end(ends.there, 6000)) == 0);
    REQUIRE(arrives());
  }
  ~Pair() { shell("ip link delete wire"); }

  [[nodiscard]] TrackedTuple to_here() const {
    return {parsed(ends_.there), parsed(ends_.here), 6000, 5000, LB_UDP};
  }
  [[nodiscard]] int send() const { return here_.send_to(end(ends_.there, 6000), "out"); }
  [[nodiscard]] bool arrives() const {
    REQUIRE(there_.send_to(end(ends_.here, 5000), "in") == 0);
    return here_.receive().has_value();
  }

  Host other;

 private:
  static k8s::Address parsed(const std::string& text) { return k8s::Address::parse(text).value(); }

  Ends ends_;
  Socket here_, there_;
};

}  // namespace

TEST_CASE("REL-84 packets of given tuples are dropped before conntrack, and no others") {
  for (const auto& ends : both_families) {
    const Lab lab;
    const Pair pair(ends);
    auto filter = NfTupleFilter::open();
    REQUIRE(filter.has_value());
    const auto in = pair.to_here(), out = agent::reversed(in);
    CHECK(pair.arrives());
    CHECK(pair.send() == 0);

    REQUIRE_FALSE(filter->drop(std::vector{in}));
    CHECK_FALSE(pair.arrives());
    CHECK(pair.send() == 0);

    REQUIRE_FALSE(filter->drop(std::vector{out}));
    CHECK(pair.arrives());
    CHECK(pair.send() == EPERM);

    auto other = in;
    ++other.source_port;
    auto tcp = in;
    tcp.protocol = LB_TCP;
    REQUIRE_FALSE(filter->drop(std::vector{other, tcp}));
    CHECK(pair.arrives());
    CHECK(pair.send() == 0);

    REQUIRE_FALSE(filter->drop(std::vector{other, in, out}));
    CHECK_FALSE(pair.arrives());
    CHECK(pair.send() == EPERM);
    const auto ruleset = Host::here().output("nft list ruleset");
    INFO(ruleset);
    CHECK(ruleset.find(fmt::format("{} . {} . udp . 6000 . 5000", ends.there, ends.here)) !=
          std::string::npos);

    REQUIRE_FALSE(filter->drop({}));
    CHECK(pair.arrives());
    CHECK(pair.send() == 0);
  }
}

TEST_CASE("REL-84 the filter goes from one family to the other") {
  const Lab lab;
  const Pair pair(both_families[0]);
  auto filter = NfTupleFilter::open();
  REQUIRE(filter.has_value());
  REQUIRE_FALSE(filter->drop(std::vector{pair.to_here()}));
  CHECK_FALSE(pair.arrives());
  const auto other = k8s::Address::parse("fd00::1").value();
  REQUIRE_FALSE(filter->drop(std::vector{TrackedTuple{other, other, 1, 2, LB_TCP}}));
  CHECK(pair.arrives());
}

TEST_CASE("REL-84 the filter ends with its owner, and two owners have one each") {
  const Lab lab;
  const Pair pair(both_families[0]);
  {
    auto one = NfTupleFilter::open(), two = NfTupleFilter::open();
    REQUIRE(one.has_value());
    REQUIRE(two.has_value());
    REQUIRE_FALSE(one->drop(std::vector{pair.to_here()}));
    REQUIRE_FALSE(two->drop(std::vector{pair.to_here()}));
    REQUIRE_FALSE(one->drop({}));
    CHECK_FALSE(pair.arrives());
  }
  CHECK(pair.arrives());
  CHECK(Host::here().output("nft list tables").empty());
}

}  // namespace lb::test
