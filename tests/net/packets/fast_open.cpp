// SPDX-License-Identifier: Apache-2.0
// TCP Fast Open (RFC 7413) by real sockets, through a node port: the server replies to the SYN's data, and
// the whole reply arrives while no acknowledgement of the client leaves its host (REL-5).
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <string>
#include <string_view>

#include "tests/net/lib/paths.hpp"
#include "tests/net/lib/talk.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t backend_port = 8080;
constexpr std::size_t early = 8000;  // bytes: fewer than an initial window
constexpr std::size_t later = 100'000;

void allow(const Host& host) { host.run("sysctl -qw net.ipv4.tcp_fastopen=3"); }

/// While this object lives, no TCP segments but SYNs leave the host.
class Held {
 public:
  explicit Held(const Host& host) : host_(host) {
    host_.run(
        "nft 'table inet held { chain out { type filter hook output priority filter; tcp flags & syn == 0 "
        "counter drop; }\n}'");
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { host_.run("nft delete table inet held"); }

  [[nodiscard]] bool held_any() const {
    return host_.output("nft list table inet held").find("counter packets 0 ") == std::string::npos;
  }

 private:
  const Host& host_;
};

/// Whether the server accepted the data in the SYN.
bool sent_with_syn(const Socket& client) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  REQUIRE(::getsockopt(client.fd(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0);
  return (info.tcpi_options & TCPI_OPT_SYN_DATA) != 0;
}

bool hears(const maps::Fd& taken, std::string_view words) {
  std::array<char, 64> buffer{};
  const auto size = ::recv(taken.get(), buffer.data(), buffer.size(), 0);
  return size >= 0 && std::string_view(buffer.data(), static_cast<std::size_t>(size)) == words;
}

/// Gets the server's cookie, which comes with the SYN-ACK of an ordinary connection.
void get_cookie(const Host& from, const Socket& server, const End& where, int family) {
  const auto client = from.socket(family, SOCK_STREAM);
  REQUIRE(client.send_to(where, "a cookie", MSG_FASTOPEN) == 0);
  const auto taken = take(server);
  REQUIRE(taken);
  REQUIRE(hears(taken, "a cookie"));
  CHECK_FALSE(sent_with_syn(client));
}

void ask_early(const PodScene& scene, Writer& writer, int family, const Leg& leg) {
  const auto& known = names(family);
  const auto backend = end(known.*leg.backend, backend_port);
  const auto where = offer(writer, 1, node_port, known, backend, LB_TCP);
  const auto server = serve_at(scene.*leg.to, SOCK_STREAM, backend);
  constexpr int waiting = 8;
  REQUIRE(::setsockopt(server.fd(), IPPROTO_TCP, TCP_FASTOPEN, &waiting, sizeof(waiting)) == 0);
  get_cookie(scene.outside, server, where, family);

  const auto client = scene.outside.socket(family, SOCK_STREAM);
  maps::Fd taken;
  const auto before = counter_deltas(writer, [&] {
    const Held held(scene.outside);
    REQUIRE(client.send_to(where, "a question", MSG_FASTOPEN) == 0);
    taken = take(server);
    REQUIRE(taken);
    REQUIRE(hears(taken, "a question"));
    CHECK(pass(taken.get(), client.fd(), early));
    CHECK(sent_with_syn(client));
    CHECK(held.held_any());
  });
  CHECK(before.new_local + before.new_remote + before.new_xdp == 1);
  CHECK(before.assured == 0);
  const auto after = counter_deltas(writer, [&] {
    CHECK(pass(client.fd(), taken.get(), later));
    CHECK(pass(taken.get(), client.fd(), later));
  });
  CHECK(after.assured == 1);
  CHECK((peer_of(taken.get())->address == end(known.node, 0).address) == (leg.to == &PodScene::remote));
}

}  // namespace

TEST_CASE("REL-5 a server answers a SYN with data before it is acknowledged, by TCP Fast Open") {
  const auto mode = GENERATE(agent::XdpMode::off, agent::XdpMode::native);
  PodScene scene(Wiring::routed);
  scene.check_sums();
  scene.options.xdp = mode;
  REQUIRE(scene.attach().failure().empty());
  Writer writer(scene.lab.pins());
  for (const auto* host : {&scene.outside, &scene.server, &scene.remote}) {
    allow(*host);
  }
  for (const int family : {AF_INET, AF_INET6}) {
    for (const auto& leg : {outside_here, outside_elsewhere}) {
      INFO((mode == agent::XdpMode::off ? "tc, " : "XDP, ")
           << (family == AF_INET ? "IPv4, " : "IPv6, ") << leg.name);
      ask_early(scene, writer, family, leg);
    }
  }
}

}  // namespace lb::test
