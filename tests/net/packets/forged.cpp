// REL-72: ends that somebody forges who does not know a connection's numbers, while data passes by it, from
// either side: the hosts see that they are forged, and the flow goes on as if they had never been.
#include <fmt/format.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "tests/lib/paths.hpp"
#include "tests/net/lib/paths.hpp"
#include "tests/net/lib/talk.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t backend_port = 8080;
constexpr std::size_t piece = 200'000;

void forge(const Host& host, const End& from, const End& to) {
  host.run(fmt::format("/usr/bin/python3 {} {} {} {} {}", source_path("tests/net/lib/forge.py"),
                       from.address.text(), from.port, to.address.text(), to.port));
}

bool passes_both_ways(int client, int server) {
  return pass(client, server, piece) && pass(server, client, piece);
}

/// A connection by `leg`, and forged ends of it from both sides between its pieces.
void try_to_end(const PodScene& scene, Writer& writer, int family, const Leg& leg) {
  const auto& known = names(family);
  const auto backend = end(known.*leg.backend, backend_port);
  const auto where = offer(writer, 1, load_balancer, known, backend, LB_TCP);
  const auto server = serve_at(scene.*leg.to, SOCK_STREAM, backend);
  const auto client = (scene.*leg.from).socket(family, SOCK_STREAM);
  REQUIRE(client.connect(where) == 0);
  const auto taken = take(server);
  REQUIRE(taken);
  REQUIRE(passes_both_ways(client.fd(), taken.get()));
  const End asker{end(known.outside, 0).address, client.name()->port};
  const auto rose = rise(writer, [&] {
    for (int round = 0; round < 5; ++round) {
      forge(scene.*leg.from, asker, where);
      CHECK(passes_both_ways(client.fd(), taken.get()));
      forge(scene.*leg.to, backend, peer_of(taken.get()).value());
      CHECK(passes_both_ways(client.fd(), taken.get()));
    }
  });
  CHECK(rose.new_local + rose.new_remote + rose.new_xdp + rose.midstream == 0);
  CHECK(rose.flow_stack + rose.flow_redirect + rose.flow_xdp > 500);
  CHECK((rose.flow_xdp > 0) == (scene.runs_xdp() && leg.to == &PodScene::remote));
}

}  // namespace

TEST_CASE("REL-72 forged resets and ends change nothing during a transfer") {
  for (const auto mode : {agent::XdpMode::off, agent::XdpMode::native}) {
    PodScene scene(Wiring::routed);
    scene.check_sums();
    scene.options.xdp = mode;
    REQUIRE(scene.attach().failure().empty());
    Writer writer(scene.lab.pins());
    for (const int family : {AF_INET, AF_INET6}) {
      for (const auto& leg : {outside_here, outside_elsewhere}) {
        INFO((mode == agent::XdpMode::off ? "tc, " : "XDP, ")
             << (family == AF_INET ? "IPv4, " : "IPv6, ") << leg.name);
        try_to_end(scene, writer, family, leg);
      }
    }
  }
}

}  // namespace lb::test
