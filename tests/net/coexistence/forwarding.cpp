// SPDX-License-Identifier: Apache-2.0
// --forwarding: what the host's forward chain sees of external clients and remote backends, and that its
// verdict applies.
#include <fmt/format.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/net/lib/talk.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t port = 80;
constexpr std::uint16_t backend_port = 8080;

struct Kind {
  int family;
  int type;
};

const std::vector<Kind> kinds = {
    {AF_INET, SOCK_STREAM}, {AF_INET, SOCK_DGRAM}, {AF_INET6, SOCK_STREAM}, {AF_INET6, SOCK_DGRAM}};

const char* client_of(int family) { return family == AF_INET ? "192.0.2.100" : "2001:db8:1::100"; }

/// Rules that accept only connections that clients open towards `backend`, and their replies.
std::string firewall(int family, const std::string& client, const std::string& backend) {
  const auto* ip = family == AF_INET ? "ip" : "ip6";
  return fmt::format(
      "flush ruleset\n"
      "table inet host {{\n"
      "  counter begun {{ }}\n  counter answered {{ }}\n  counter other {{ }}\n"
      "  chain forward {{\n"
      "    type filter hook forward priority filter; policy drop;\n"
      "    ct state new {0} saddr {1} {0} daddr {2} counter name begun accept\n"
      "    ct state established ct direction reply {0} saddr {2} {0} daddr {1} counter name answered accept\n"
      "    ct state established,related accept\n"
      "    counter name other drop\n"
      "  }}\n}}\n",
      ip, client, backend);
}

std::uint64_t counted(const char* name) {
  const auto text = Host::here().output(fmt::format("nft list counter inet host {}", name));
  const auto at = text.find("packets ");
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + 8, nullptr, 10);
}

struct Forwarding : PodScene {
  Forwarding(agent::Forwarding forwarding, agent::XdpMode mode) : PodScene(Wiring::routed) {
    check_sums();
    options.forwarding = forwarding;
    options.xdp = mode;
    REQUIRE(attach().failure().empty());
  }

  /// Writes a service with one backend and a load balancer's address.
  static End offer(Writer& writer, const Kind& kind, const End& backend) {
    const auto where = end(names(kind.family).vip, port);
    writer.service(1, {{1, backend}});
    writer.frontend(where, kind.type == SOCK_STREAM ? LB_TCP : LB_UDP, 1, LB_LOAD_BALANCER);
    return where;
  }
};

std::string about(const Kind& kind) {
  return fmt::format("{} {}", kind.family == AF_INET ? "IPv4" : "IPv6",
                     kind.type == SOCK_STREAM ? "TCP" : "UDP");
}

}  // namespace

TEST_CASE("with --forwarding stack the forward chain sees client and backend, both ways", "[features]") {
  const auto mode = GENERATE(agent::XdpMode::off, agent::XdpMode::native);
  Forwarding scene(agent::Forwarding::stack, mode);
  Writer writer(scene.lab.pins());
  for (const auto& kind : kinds) {
    INFO(about(kind) << (mode == agent::XdpMode::off ? "" : " beside XDP"));
    const auto& known = names(kind.family);
    const auto backend = end(known.remote_pod, backend_port);
    const auto where = Forwarding::offer(writer, kind, backend);
    shell(fmt::format("nft '{}'", firewall(kind.family, client_of(kind.family), known.remote_pod)));
    const auto server = serve_at(scene.remote, kind.type, backend);
    std::optional<End> seen;
    const auto rose = counter_deltas(writer, [&] { seen = talk(scene.outside, server, kind.type, where); });
    REQUIRE(seen);
    CHECK(text({seen->address, 0}) == text(end(known.node, 0)));
    CHECK(counted("begun") == 1);
    CHECK(counted("answered") >= 3);
    CHECK(counted("other") == 0);
    CHECK(rose.flow_xdp + rose.flow_redirect + rose.new_xdp + rose.new_remote == 0);
    CHECK(rose.assured == 2);
  }
}

TEST_CASE("the forward chain's drop counts with --forwarding stack, and is passed by without", "[features]") {
  const auto way = GENERATE(agent::Forwarding::redirect, agent::Forwarding::stack);
  const bool by_stack = way == agent::Forwarding::stack;
  Forwarding scene(way, agent::XdpMode::native);
  Writer writer(scene.lab.pins());
  for (const auto& kind : kinds) {
    INFO(about(kind) << (by_stack ? " by the stack" : " by redirect"));
    const auto backend = end(names(kind.family).remote_pod, backend_port);
    const auto where = Forwarding::offer(writer, kind, backend);
    shell(fmt::format("nft '{}'",
                      firewall(kind.family, names(kind.family).client, names(kind.family).remote_pod)));
    const auto server = serve_at(scene.remote, kind.type, backend);
    CHECK(talk(scene.outside, server, kind.type, where).has_value() == !by_stack);
    CHECK((counted("other") > 0) == by_stack);
  }
}

TEST_CASE("with --forwarding stack a client that is the backend itself is served", "[features]") {
  Forwarding scene(agent::Forwarding::stack, agent::XdpMode::off);
  Writer writer(scene.lab.pins());
  for (const auto& kind : kinds) {
    INFO(about(kind));
    const auto backend = end(client_of(kind.family), backend_port);
    const auto where = Forwarding::offer(writer, kind, backend);
    const auto server = serve_at(scene.outside, kind.type, backend);
    const auto seen = talk(scene.outside, server, kind.type, where);
    REQUIRE(seen);
    CHECK(text({seen->address, 0}) == text(end(names(kind.family).node, 0)));
  }
}

TEST_CASE("with --forwarding stack flows that were redirected before go on, and back again", "[features]") {
  Forwarding scene(agent::Forwarding::redirect, agent::XdpMode::off);
  Writer writer(scene.lab.pins());
  for (const auto& kind : kinds) {
    INFO(about(kind));
    const auto backend = end(names(kind.family).remote_pod, backend_port);
    const auto where = Forwarding::offer(writer, kind, backend);
    const auto server = serve_at(scene.remote, kind.type, backend);
    std::vector<Socket> clients;
    std::vector<maps::Fd> taken;
    for (const auto way :
         {agent::Forwarding::redirect, agent::Forwarding::stack, agent::Forwarding::redirect}) {
      scene.datapath.reset();
      scene.options.forwarding = way;
      REQUIRE(scene.attach().failure().empty());
      clients.push_back(scene.outside.socket(kind.family, kind.type));
      REQUIRE(clients.back().connect(where) == 0);
      if (kind.type == SOCK_STREAM) {
        taken.push_back(take(server));
      }
      for (std::size_t at = 0; at < clients.size(); ++at) {
        INFO("flow " << at << " of " << clients.size());
        if (kind.type == SOCK_STREAM) {
          CHECK(pass(clients[at].fd(), taken[at].get(), 20'000));
          CHECK(pass(taken[at].get(), clients[at].fd(), 20'000));
        } else {
          REQUIRE(clients[at].send("words") == 0);
          CHECK(echo_once(server));
          CHECK(clients[at].receive());
        }
      }
    }
  }
}

}  // namespace lb::test
