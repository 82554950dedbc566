// IPsec policies are followed, and what they should encrypt or block is redirected no more (REL-88).
#include "agent/netlink/xfrm.hpp"

#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "agent/tables/redirected_flows.hpp"
#include "tests/net/lib/talk.hpp"

namespace lb::test {
namespace {

using Texts = std::vector<std::string>;

constexpr const char* encrypts =
    "ip xfrm policy add src 0.0.0.0/0 dst 10.244.2.0/24 dir out "
    "tmpl src 192.0.2.1 dst 192.0.2.2 proto esp mode tunnel";
constexpr const char* blocks = "ip xfrm policy add src ::/0 dst fd00:244:2::/64 dir fwd action block";

Texts texts(const agent::XfrmPolicies& policies) {
  Texts all;
  for (const auto& range : policies.ranges) {
    all.push_back(range.text());
  }
  return all;
}

/// Lets the context run until the watch says so; false after half a minute.
bool says(boost::asio::io_context& context, const agent::XfrmWatch& watch, const Texts& wanted) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (texts(watch.policies()) != wanted && std::chrono::steady_clock::now() < deadline) {
    context.run_one_for(std::chrono::milliseconds(100));
  }
  return texts(watch.policies()) == wanted;
}

/// Entries that programs redirect and that go to that address.
template <class Table>
std::size_t redirected(Table& table) {
  std::size_t count = 0;
  const auto error = table.for_each(
      [&](const auto&, const auto& flow) { count += flow.track.path == LB_PATH_REDIRECT ? 1 : 0; });
  CHECK_FALSE(error);
  return count;
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
  shell("ip xfrm policy delete src 0.0.0.0/0 dst 10.244.2.0/24 dir out");
  CHECK(says(context, watch, {"fd00:244:2::/64"}));
  shell("ip xfrm policy flush");
  CHECK(says(context, watch, {}));
  shell("ip xfrm policy setdefault out block");
  CHECK(says(context, watch, {"::/0", "0.0.0.0/0"}));
  shell("ip xfrm policy setdefault out accept");
  CHECK(says(context, watch, {}));
}

TEST_CASE("redirected flows towards what a policy covers end, and others go on") {
  PodScene scene(Wiring::routed);
  REQUIRE(scene.attach().failure().empty());
  Writer writer(scene.lab.pins());
  auto maps = maps::MapSet::open(maps::Pins(scene.lab.pins()), maps::Access::write);
  REQUIRE(maps.has_value());
  for (const int family : {AF_INET, AF_INET6}) {
    const auto& known = names(family);
    const auto backend = end(known.remote_pod, 8080);
    const auto where = end(known.vip, 80);
    writer.service(family == AF_INET ? 1 : 2, {{family == AF_INET ? 1U : 2U, backend}});
    writer.frontend(where, LB_TCP, family == AF_INET ? 1 : 2, LB_LOAD_BALANCER);
    CHECK(talk(scene.outside, serve_at(scene.remote, SOCK_STREAM, backend), SOCK_STREAM, where));
  }
  const auto before6 = redirected(maps->flows6);
  REQUIRE(redirected(maps->flows4) > 0);
  REQUIRE(before6 > 0);

  boost::asio::io_context context;
  std::size_t erased = 0;
  agent::RedirectedFlows flows(context, *maps, [&](std::size_t entries) { erased = entries; });
  flows.end({*k8s::Prefix::parse("10.244.2.0/24")});
  context.run();
  CHECK(erased >= 2);
  CHECK(redirected(maps->flows4) == 0);
  CHECK(redirected(maps->flows6) == before6);
}

}  // namespace lb::test
