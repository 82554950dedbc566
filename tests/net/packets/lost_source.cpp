// SPDX-License-Identifier: Apache-2.0
// REL-177: the address that source-NATed flows have at their backends leaves the node. Their replies do not
// come back any more; once the agent has ended them, TCP is reset by its next packet, and UDP goes on from
// another address. An address that returns in time keeps its flows.
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/netlink/node_watch.hpp"
#include "agent/tables/lost_sources.hpp"
#include "maps/mapset.hpp"
#include "tests/net/lib/paths.hpp"
#include "tests/net/lib/talk.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t backend_port = 8080;
constexpr std::chrono::milliseconds patience{300};

struct Way {
  const char* name;
  agent::XdpMode xdp;
  agent::Forwarding forwarding;
};

/// The addresses that the kernel prefers towards the backend, and which then leave; the node keeps its first
/// ones.
struct Renumbered {
  std::string ipv4 = "192.0.2.77", ipv6 = "2001:db8:1::77";

  void add() const {
    shell("ip address add " + ipv4 + "/24 dev eth0 && ip address add " + ipv6 + "/64 dev eth0 nodad");
    shell("ip route add 10.244.2.2 via 192.0.2.2 src " + ipv4 +
          " && ip route add fd00:244:2::2 via 2001:db8:1::2 src " + ipv6);
  }
  /// The kernel removes IPv4's routes with their source, IPv6's it keeps without.
  void remove() const {
    shell("ip address delete " + ipv4 + "/24 dev eth0 && ip address delete " + ipv6 + "/64 dev eth0");
    shell("ip -6 route delete fd00:244:2::2 2>/dev/null || true");
  }
  [[nodiscard]] const std::string& of(int family) const { return family == AF_INET ? ipv4 : ipv6; }
};

std::vector<k8s::Address> own_addresses() {
  std::vector<k8s::Address> addresses;
  for (const auto& each : agent::read_network(agent::Routes::ignored).addresses({}, {})) {
    addresses.push_back(each.address);
  }
  return addresses;
}

class Follower {
 public:
  explicit Follower(const std::string& pins)
      : maps_(*maps::MapSet::open(maps::Pins(pins), maps::Access::write)),
        sources_(context_, maps_, [this](std::size_t entries) { ended_ += entries; }, patience) {}

  /// Tells it the present addresses, and lets it do what there is to do.
  std::size_t follow() {
    ended_ = 0;
    sources_.follow(own_addresses());
    context_.restart();
    context_.run();
    return ended_;
  }
  /// Tells it the present addresses only.
  void tell() { sources_.follow(own_addresses()); }

 private:
  boost::asio::io_context context_;
  maps::MapSet maps_;
  std::size_t ended_ = 0;
  agent::LostSources sources_;
};

/// A connection and a UDP flow from outside to a pod elsewhere.
struct Flows {
  Flows(const PodScene& scene, Writer& writer, int family)
      : backend(end(names(family).remote_pod, backend_port)),
        where(offer(writer, 1, load_balancer, names(family), backend, LB_TCP)),
        listener(serve_at(scene.remote, SOCK_STREAM, backend)),
        hearer(serve_at(scene.remote, SOCK_DGRAM, backend)),
        stream(scene.outside.socket(family, SOCK_STREAM)),
        speaker(scene.outside.socket(family, SOCK_DGRAM)) {
    writer.frontend(where, LB_UDP, 1, LB_LOAD_BALANCER);
    REQUIRE(stream.connect(where) == 0);
    taken = take(listener);
    REQUIRE(taken);
    REQUIRE(pass(stream.fd(), taken.get(), 1000));
    REQUIRE(pass(taken.get(), stream.fd(), 1000));
    REQUIRE(speaker.connect(where) == 0);
    REQUIRE(speak());
  }

  /// The address from which the backend saw a datagram, if its answer came back.
  [[nodiscard]] std::optional<std::string> speak() const {
    if (speaker.send("words") != 0) {
      return std::nullopt;
    }
    const auto seen = echo_once(hearer);
    return seen && speaker.receive() ? std::optional(seen->address.text()) : std::nullopt;
  }
  [[nodiscard]] std::string stream_source() const { return peer_of(taken.get())->address.text(); }
  /// Whether the client's next words are answered by a reset.
  [[nodiscard]] bool is_reset() const {
    static_cast<void>(stream.send("words"));
    char byte = 0;
    return is_readable(stream.fd(), std::chrono::seconds(3)) && ::recv(stream.fd(), &byte, 1, 0) < 0 &&
           errno == ECONNRESET;
  }

  End backend, where;
  Socket listener, hearer, stream, speaker;
  maps::Fd taken;
};

}  // namespace

TEST_CASE(
    "REL-177 flows from an address that left the node end: TCP is reset, UDP goes on from another address",
    "[features]") {
  const auto way = GENERATE(Way{"tc", agent::XdpMode::off, agent::Forwarding::redirect},
                            Way{"XDP", agent::XdpMode::native, agent::Forwarding::redirect},
                            Way{"the stack forwards", agent::XdpMode::off, agent::Forwarding::stack});
  for (const int family : {AF_INET, AF_INET6}) {
    INFO(way.name << (family == AF_INET ? ", IPv4" : ", IPv6"));
    PodScene scene(Wiring::routed);
    scene.check_sums();
    scene.options.xdp = way.xdp;
    scene.options.forwarding = way.forwarding;
    const Renumbered addresses;
    addresses.add();
    REQUIRE(scene.attach().failure().empty());
    Writer writer(scene.lab.pins());
    Follower follower(scene.lab.pins());
    CHECK(follower.follow() == 0);
    const Flows flows(scene, writer, family);
    REQUIRE(flows.stream_source() == addresses.of(family));
    REQUIRE(flows.speak() == addresses.of(family));

    addresses.remove();
    follower.tell();
    addresses.add();  // in time
    CHECK(follower.follow() == 0);
    CHECK(flows.speak() == addresses.of(family));
    CHECK(pass(flows.stream.fd(), flows.taken.get(), 1000));

    addresses.remove();
    scene.attach();  // publishes the node's source, for kernels whose FIB does not say it
    CHECK(follower.follow() >= 4);
    CHECK(flows.is_reset());
    CHECK(flows.speak() == names(family).node);
  }
}

}  // namespace lb::test
