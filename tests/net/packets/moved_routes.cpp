// SPDX-License-Identifier: Apache-2.0
// Open connections through a node with two uplinks, when a route moves from one to the other, and when a
// device is made again: kube-proxy's survive that, because the kernel routes each packet.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/socket.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "tests/net/packets/xdp_scene.hpp"

namespace lb::test {
namespace {

/// A client and a backend that reach the node by eth0, and could by eth1.
struct TwoWays : XdpScene {
  explicit TwoWays(agent::XdpMode mode) : XdpScene(mode) {
    wire.run("ip link add wire1 type bridge && ip link set wire1 up");
    join("eth1", Host::here(), "node1", "198.18.0.1/24", "2001:db8:18::1/64");
    join("eth1", remote, "remote1", "198.18.0.2/24", "2001:db8:18::2/64");
    join("eth1", outside, "outside1", "198.18.0.100/24", "2001:db8:18::100/64");
    for (const auto* host : {&remote, &outside}) {
      host->run(loose + " && ethtool -K eth1 tx off >/dev/null");
    }
    outside.run("ip address add 198.51.100.77/32 dev lo && ip address add 2001:db8:77::77/128 dev lo nodad");
    shell(loose + " && ip route del default && ip -6 route del default");
    let_client_use("192.0.2.1", "2001:db8:1::1");
    route_client("192.0.2.100", "2001:db8:1::100");
    options.devices = {"eth0", "eth1"};
  }

  /// Connects a device of the host to the wire of that name's number.
  void join(const std::string& device, const Host& host, const std::string& port, const std::string& address4,
            const std::string& address6) const {
    wire.run(
        fmt::format("ip link add {0} type veth peer name {1} netns {2} && ip link set {0} master {3} up && "
                    "ethtool -K {0} gro on tx off >/dev/null",
                    port, device, host.space().path(), device == "eth0" ? "wire" : "wire1"));
    host.run(fmt::format(
        "ip link set {0} up && ip address add {1} dev {0} && ip address add {2} dev {0} nodad && {3}", device,
        address4, address6, await_carrier(device)));
  }
  void let_client_use(const char* router4, const char* router6) const {
    outside.run(
        fmt::format("ip route replace default via {} src 198.51.100.77 && "
                    "ip route replace default via {} src 2001:db8:77::77",
                    router4, router6));
  }
  static void route_client(const char* router4, const char* router6) {
    shell(fmt::format("ip route replace 198.51.100.77 via {} && ip route replace 2001:db8:77::77 via {}",
                      router4, router6));
  }
  static void route_backend(const char* router4, const char* router6) {
    shell(fmt::format("ip route replace 10.244.2.0/24 via {} && ip route replace fd00:244:2::/64 via {}",
                      router4, router6));
  }

  void move_backend() const {
    remote.run(
        "ip link set eth0 down && ip route add 192.0.2.1 via 198.18.0.1 && "
        "ip route add 2001:db8:1::1 via 2001:db8:18::1");
    route_backend("198.18.0.2", "2001:db8:18::2");
  }
  void move_client() const {
    outside.run("ip link set eth0 down");
    let_client_use("198.18.0.1", "2001:db8:18::1");
    route_client("198.18.0.100", "2001:db8:18::100");
  }
  void remake_device() {
    const auto before = Host::here().device_index("eth0");
    const auto address = Host::here().mac_address("eth0");
    shell("ip link del eth0");
    join("eth0", Host::here(), "to-node", "192.0.2.1/24", "2001:db8:1::1/64");
    shell("echo 0 >/proc/sys/net/ipv4/conf/eth0/rp_filter && " +
          fmt::format("ip link set eth0 address {:02x}", fmt::join(address, ":")));
    REQUIRE(Host::here().device_index("eth0") != before);
    route_backend("192.0.2.2", "2001:db8:1::2");
    route_client("192.0.2.100", "2001:db8:1::100");
    REQUIRE(attach().failure().empty());
  }

 private:
  static inline const std::string loose =
      "for each in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 >$each; done";
};

/// An open connection, or a UDP flow.
class Conversation {
 public:
  Conversation(const Host& client, const Host& host, int type, const End& where, const End& backend)
      : type_(type),
        listener_(serve_at(host, type, backend)),
        client_(client.socket(where.address.family() == k8s::Family::ipv4 ? AF_INET : AF_INET6, type)) {
    REQUIRE(client_.connect(where) == 0);
    if (type == SOCK_STREAM) {
      taken_ = take(listener_);
      REQUIRE(taken_);
    }
    REQUIRE(goes_on());
  }

  /// Sends a few bytes to the backend.
  void say() {
    if (type_ == SOCK_STREAM) {
      REQUIRE(::send(client_.fd(), "words", 5, MSG_DONTWAIT) == 5);
      said_ = true;
    } else {
      static_cast<void>(client_.send("words"));
    }
  }
  /// Whether much arrives in both directions; what was lost meanwhile is sent again.
  bool goes_on() {
    constexpr std::size_t bytes = 100'000;
    if (type_ == SOCK_STREAM) {
      std::array<char, 5> words{};
      if (said_ && !(is_readable(taken_.get(), std::chrono::seconds(10)) &&
                     ::recv(taken_.get(), words.data(), words.size(), 0) == 5)) {
        return false;
      }
      said_ = false;
      return pass(client_.fd(), taken_.get(), bytes) && pass(taken_.get(), client_.fd(), bytes);
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    constexpr std::chrono::milliseconds moment(100);
    int answers = 0;
    while (answers < 20 && std::chrono::steady_clock::now() < end) {
      static_cast<void>(client_.send("words"));
      if (is_readable(listener_.fd(), moment)) {
        static_cast<void>(echo_once(listener_));
      }
      if (is_readable(client_.fd(), moment) && client_.receive()) {
        ++answers;
      }
    }
    return answers == 20;
  }

 private:
  int type_;
  Socket listener_;
  Socket client_;
  maps::Fd taken_;
  bool said_ = false;  ///< say() has sent what goes_on() receives first
};

void survives(void (*change)(TwoWays&)) {
  const auto mode = GENERATE(agent::XdpMode::off, agent::XdpMode::native);
  const int family = GENERATE(AF_INET, AF_INET6);
  const int type = GENERATE(SOCK_STREAM, SOCK_DGRAM);
  INFO(mode_text(mode) << (family == AF_INET ? " IPv4" : " IPv6") << (type == SOCK_STREAM ? " TCP" : " UDP"));
  TwoWays scene(mode);
  REQUIRE(scene.attach().failure().empty());
  Writer writer(scene.lab.pins());
  const auto made = offer(writer, family);
  Conversation talking(scene.outside, scene.remote, type, made.elsewhere, made.elsewhere_backend);
  change(scene);
  const auto rose = counter_deltas(writer, [&] { CHECK(talking.goes_on()); });
  CHECK(rose.new_remote + rose.new_xdp == 0);
  CHECK((rose.flow_xdp > 0) == scene.runs_xdp());
}

/// `change` is made to a pod's open flow to a service of which it is the backend itself.
void hairpin_survives(const std::function<void(Conversation&, const Writer&, int family)>& change) {
  const auto wiring = GENERATE(Wiring::routed, Wiring::bridged);
  const int family = GENERATE(AF_INET, AF_INET6);
  const int type = GENERATE(SOCK_STREAM, SOCK_DGRAM);
  INFO((wiring == Wiring::routed ? "routed" : "bridged")
       << (family == AF_INET ? " IPv4" : " IPv6") << (type == SOCK_STREAM ? " TCP" : " UDP"));
  PodScene scene(wiring);
  REQUIRE(scene.attach().pod_failure().empty());
  Writer writer(scene.lab.pins());
  const auto backend = end(names(family).client, backend_port);
  const auto where = end(names(family).service, port);
  writer.service(1, {{1, backend}});
  writer.frontend(where, type == SOCK_STREAM ? LB_TCP : LB_UDP, 1);
  const auto rose = counter_deltas(writer, [&] {
    Conversation talking(scene.client, scene.client, type, where, backend);
    change(talking, writer, family);
    CHECK(talking.goes_on());
  });
  CHECK(rose.new_hairpin == 1);
}

}  // namespace

// Its device, which may be a bridge, is no uplink.
TEST_CASE("SEM-39 a pod that is its own backend goes on for longer than a second") {
  hairpin_survives([](Conversation&, const Writer&, int /*family*/) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  });
}

TEST_CASE("REL-66 SEM-39 a pod that is its own backend goes on when the route to it is back") {
  hairpin_survives([](Conversation& talking, const Writer& writer, int family) {
    const auto no_route = [&](const char* verb) {
      shell(fmt::format("ip -{} rule {} pref 1 to {} unreachable", family == AF_INET ? 4 : 6, verb,
                        names(family).client));
    };
    no_route("add");
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    CHECK(counter_deltas(writer, [&] { talking.say(); }).no_route > 0);
    no_route("del");
  });
}

TEST_CASE("REL-66 an open flow's requests follow the route to its backend to another uplink") {
  survives([](TwoWays& scene) { scene.move_backend(); });
}

TEST_CASE("REL-66 an open flow's replies follow the route to its client to another uplink") {
  survives([](TwoWays& scene) { scene.move_client(); });
}

TEST_CASE("REL-66 an open flow survives that the node's device is deleted and made again") {
  survives([](TwoWays& scene) { scene.remake_device(); });
}

}  // namespace lb::test
