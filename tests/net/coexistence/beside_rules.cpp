// SPDX-License-Identifier: Apache-2.0
// Other owners on a node: rules that forbid traffic, programs at the same hooks, and policy routing by marks
// and sources (SEM-52, REL-66, REL-68).
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <net/if.h>
#include <sys/socket.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/attach/hook_neighbours.hpp"
#include "tests/net/lib/talk.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t port = 80;
constexpr std::uint16_t node_port = 30080;
constexpr std::uint16_t backend_port = 8080;

End offer(Writer& writer, const std::string& frontend, const End& backend, lb_kind kind) {
  const auto where = end(frontend, port);
  writer.service(1, {{1, backend}});
  for (const auto protocol : {LB_TCP, LB_UDP}) {
    writer.frontend(where, protocol, 1, kind);
  }
  return where;
}

/// A tc program that returns `verdict`, sets the mark, and counts packets.
class Foreign {
 public:
  explicit Foreign(int verdict, int mark = 0) {
    constexpr auto place = static_cast<short>(offsetof(__sk_buff, mark));
    const std::array<bpf_insn, 4> code = {{{BPF_ALU64 | BPF_MOV | BPF_K, 2, 0, 0, mark},
                                           {BPF_STX | BPF_MEM | BPF_W, 1, 2, place, 0},
                                           {BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, verdict},
                                           {BPF_JMP | BPF_EXIT, 0, 0, 0, 0}}};
    program_ =
        maps::Fd(bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, "foreign", "GPL", code.data(), code.size(), nullptr));
    REQUIRE(program_);
  }

  void attach(const char* device, bpf_attach_type side, std::uint32_t place) {
    struct bpf_link_create_opts options{};
    options.sz = sizeof(options);
    options.flags = place;
    link_ =
        maps::Fd(bpf_link_create(program_.get(), static_cast<int>(if_nametoindex(device)), side, &options));
    REQUIRE(link_);
  }

  /// Attaches it as a clsact filter, which is removed with the device.
  void attach_filter(const char* device, bpf_tc_attach_point side, std::uint32_t priority) const {
    bpf_tc_hook hook{};
    hook.sz = sizeof(hook);
    hook.ifindex = static_cast<int>(if_nametoindex(device));
    hook.attach_point = side;
    bpf_tc_opts place{};
    place.sz = sizeof(place);
    place.priority = priority;
    place.prog_fd = program_.get();
    REQUIRE(bpf_tc_attach(&hook, &place) == 0);
  }

  [[nodiscard]] std::uint64_t runs() const {
    bpf_prog_info info{};
    std::uint32_t size = sizeof(info);
    REQUIRE(bpf_prog_get_info_by_fd(program_.get(), &info, &size) == 0);
    return info.run_cnt;
  }

 private:
  maps::Fd program_, link_;
};

}  // namespace

TEST_CASE("a FORWARD rule that forbids a pod is obeyed") {
  PodScene scene(Wiring::routed);
  REQUIRE(scene.attach().pod_failure().empty());
  Writer writer(scene.lab.pins());
  shell(
      "nft 'table inet host { chain forward { type filter hook forward priority filter; "
      "ip daddr 10.244.1.3 meta l4proto tcp reject with tcp reset; "
      "ip6 daddr fd00:244:1::3 meta l4proto tcp reject with tcp reset; "
      "ip daddr 10.244.1.3 drop; ip6 daddr fd00:244:1::3 drop; }; }'");
  for (const int family : {AF_INET, AF_INET6}) {
    const auto& known = names(family);
    const auto forbidden = end(known.server, backend_port);
    const auto allowed = end(known.remote_pod, backend_port);
    for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
      INFO((family == AF_INET ? "IPv4 " : "IPv6 ") << (type == SOCK_STREAM ? "TCP" : "UDP"));
      const auto here = serve_at(scene.server, type, forbidden);
      const auto elsewhere = serve_at(scene.remote, type, allowed);
      CHECK_FALSE(talk(scene.outside, here, type, offer(writer, known.vip, forbidden, LB_LOAD_BALANCER)));
      CHECK_FALSE(talk(scene.client, here, type, offer(writer, known.service, forbidden, LB_CLUSTER_IP)));
      CHECK(talk(scene.outside, elsewhere, type, offer(writer, known.vip, allowed, LB_LOAD_BALANCER)));
      CHECK(talk(scene.client, elsewhere, type, offer(writer, known.service, allowed, LB_CLUSTER_IP)));
    }
  }
}

namespace {

enum class By : std::uint8_t { tcx, clsact };

/// Two programs at one hook: one runs before our program and one after it.
struct Pair {
  Pair(By by, const char* device, bpf_attach_type side) {
    if (by == By::tcx) {
      before.attach(device, side, BPF_F_BEFORE);
      after.attach(device, side, BPF_F_AFTER);
    } else {
      const auto point = side == BPF_TCX_INGRESS ? BPF_TC_INGRESS : BPF_TC_EGRESS;
      before.attach_filter(device, point, 1);  // within one priority the newest filter runs first
      after.attach_filter(device, point, 2);
    }
    place = std::string(device) + (side == BPF_TCX_INGRESS ? " ingress" : " egress");
  }

  std::string place;
  Foreign before{-1};
  Foreign after{-1};
};

/// Other owners' programs at all four hooks of two devices at once, while an external client talks to a local
/// pod (pods3) or to a remote one (by eth0).
struct Beside {
  explicit Beside(By by) : scene(Wiring::routed) {
    if (by == By::clsact) {
      scene.options.without.emplace_back("tcx");
    }
    REQUIRE(scene.attach().pod_failure().empty());
    writer.emplace(scene.lab.pins());
    counting = maps::Fd(bpf_enable_stats(BPF_STATS_RUN_TIME));
    REQUIRE(counting);
    for (const auto* device : {"eth0", "pods3"}) {
      for (const auto side : {BPF_TCX_INGRESS, BPF_TCX_EGRESS}) {
        pairs.push_back(std::make_unique<Pair>(by, device, side));
      }
    }
  }

  void ask(int family, int type, const Host& host, const std::string& address) {
    const auto backend = end(address, backend_port);
    const auto server = serve_at(host, type, backend);
    for (auto& pair : pairs) {
      seen[pair->place] = {pair->before.runs(), pair->after.runs()};
    }
    REQUIRE(talk(scene.outside, server, type, offer(*writer, names(family).vip, backend, LB_LOAD_BALANCER),
                 1000));
    for (auto& pair : pairs) {
      auto& [before, after] = seen[pair->place];
      before = pair->before.runs() - before;
      after = pair->after.runs() - after;
    }
  }

  PodScene scene;
  std::optional<Writer> writer;
  maps::Fd counting;
  std::vector<std::unique_ptr<Pair>> pairs;
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> seen;  ///< packets before us and after us
};

/// Checks that at least three packets of every conversation are seen.
void see_all(Beside& beside) {
  for (const int family : {AF_INET, AF_INET6}) {
    for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
      INFO((family == AF_INET ? "IPv4 " : "IPv6 ") << (type == SOCK_STREAM ? "TCP" : "UDP"));
      const auto& known = names(family);
      beside.ask(family, type, beside.scene.server, known.server);
      for (const auto& [place, packets] : beside.seen) {
        INFO(place << ", to a pod here");
        CHECK(packets.first >= 3);
        CHECK(packets.second >= 3);
      }
      // Once our program redirects a packet, the kernel runs no later program at that ingress hook.
      beside.ask(family, type, beside.scene.remote, known.remote_pod);
      const auto& [before_in, after_in] = beside.seen.at("eth0 ingress");
      CHECK(before_in >= 6);
      CHECK(after_in < before_in);
      const auto& [before_out, after_out] = beside.seen.at("eth0 egress");
      CHECK(before_out >= 6);
      CHECK(after_out >= 6);
    }
  }
}

}  // namespace

TEST_CASE("REL-68 another tc program before or after ours is neither skipped nor skips us", "[features]") {
  Beside beside(By::tcx);
  for (const auto* device : {"eth0", "pods3"}) {
    std::vector<agent::Neighbour> wanted;
    for (const auto kind : {agent::HookKind::tc_ingress, agent::HookKind::tc_egress}) {
      wanted.push_back({{kind, device}, "foreign", agent::Order::before_us});
      wanted.push_back({{kind, device}, "foreign", agent::Order::after_us});
    }
    CHECK(agent::neighbours_of(if_nametoindex(device), device) == wanted);
  }
  see_all(beside);
}

TEST_CASE("REL-68 another clsact filter before or after ours is neither skipped nor skips us") {
  Beside beside(By::clsact);
  const auto all = agent::neighbours_of(if_nametoindex("eth0"), "eth0");
  REQUIRE(all.size() == 4);
  CHECK(all.at(0).order == agent::Order::before_us);
  CHECK(all.at(1).order == agent::Order::after_us);
  see_all(beside);
}

namespace {

void ip_of(int family, const std::string& words) { shell((family == AF_INET ? "ip -4 " : "ip -6 ") + words); }

/// Only packets with mark 1 have a route to the other node's pods.
void open_by_mark_alone(int family) {
  const auto* pods = family == AF_INET ? "10.244.2.0/24" : "fd00:244:2::/64";
  ip_of(family, fmt::format("route del {}", pods));
  ip_of(family, fmt::format("route add prohibit {}", pods));
  ip_of(family, "rule add fwmark 0x1 lookup 100");
  ip_of(family, fmt::format("route add {} via {} table 100", pods, names(family).remote));
}

}  // namespace

// A rule of type prohibit answers by ICMP, so that the client does not wait for a timeout.
TEST_CASE("REL-66 routes by source and by mark are honoured behind a translation") {
  const int family = GENERATE(AF_INET, AF_INET6);
  const int type = GENERATE(SOCK_STREAM, SOCK_DGRAM);
  INFO((family == AF_INET ? "IPv4 " : "IPv6 ") << (type == SOCK_STREAM ? "TCP" : "UDP"));
  PodScene scene(Wiring::routed);
  REQUIRE(scene.attach().pod_failure().empty());
  Writer writer(scene.lab.pins());
  const auto& known = names(family);
  const auto ip = [&](const std::string& words) { ip_of(family, words); };
  const auto backend = end(known.remote_pod, backend_port);
  const auto server = serve_at(scene.remote, type, backend);
  const auto service = offer(writer, known.service, backend, LB_CLUSTER_IP);
  REQUIRE(talk(scene.client, server, type, service));
  SECTION("a rule that forbids this pod the way") {
    ip(fmt::format("rule add from {} lookup 100", known.client));
    ip("route add prohibit default table 100");
    CHECK_FALSE(talk(scene.client, server, type, service));
  }
  SECTION("a mark that alone opens the way") {
    open_by_mark_alone(family);
    CHECK_FALSE(talk(scene.client, server, type, service));
    shell(fmt::format(
        "nft 'table inet host {{ chain pre {{ type filter hook prerouting priority mangle; {} saddr {} meta "
        "mark set 0x1; }}; }}'",
        family == AF_INET ? "ip" : "ip6", known.client));
    CHECK(talk(scene.client, server, type, service));
  }
  SECTION("a rule that forbids a client outside the way") {
    const auto vip = offer(writer, known.vip, backend, LB_LOAD_BALANCER);
    REQUIRE(talk(scene.outside, server, type, vip));
    ip(fmt::format("rule add from {} lookup 100", known.outside));
    ip("route add prohibit default table 100");
    CHECK_FALSE(talk(scene.outside, server, type, vip));
  }
}

// A packet from outside to another node never passes the host rules that set marks; marks set by programs
// before ours count.
TEST_CASE("REL-66 a mark that a program before ours has set opens the way to a backend elsewhere",
          "[features]") {
  const int family = GENERATE(AF_INET, AF_INET6);
  const int type = GENERATE(SOCK_STREAM, SOCK_DGRAM);
  INFO((family == AF_INET ? "IPv4 " : "IPv6 ") << (type == SOCK_STREAM ? "TCP" : "UDP"));
  PodScene scene(Wiring::routed);
  REQUIRE(scene.attach().failure().empty());
  Writer writer(scene.lab.pins());
  const auto& known = names(family);
  const auto backend = end(known.remote_pod, backend_port);
  const auto server = serve_at(scene.remote, type, backend);
  const auto vip = offer(writer, known.vip, backend, LB_LOAD_BALANCER);
  open_by_mark_alone(family);
  CHECK_FALSE(talk(scene.outside, server, type, vip));
  Foreign marking(-1, 1);
  marking.attach("eth0", BPF_TCX_INGRESS, BPF_F_BEFORE);
  CHECK(talk(scene.outside, server, type, vip));
}

// The usual rules of a host with two uplinks match the uplink's address, which a pod's replies have only
// after the routing decision.
TEST_CASE("REL-66 replies leave by the uplink that the flow came by") {
  PodScene scene(Wiring::routed);
  const Host beyond;
  shell(fmt::format("ip link add eth1 type veth peer name eth0 netns {}", beyond.space().path()));
  shell(
      "ip link set eth1 up && ip address add 198.18.0.1/24 dev eth1 && "
      "ip address add 2001:db8:18::1/64 dev eth1 nodad && "
      "ip rule add from 198.18.0.1 lookup 200 && ip route add default via 198.18.0.2 table 200 && "
      "ip -6 rule add from 2001:db8:18::1 lookup 200 && ip route add default via 2001:db8:18::2 table 200");
  beyond.run(
      "ip link set eth0 up && ip address add 198.18.0.2/24 dev eth0 && "
      "ip address add 2001:db8:18::2/64 dev eth0 nodad && ip address add 198.19.0.1/32 dev lo && "
      "ip address add 2001:db8:19::1/128 dev lo nodad && "
      "ip route add 198.18.0.1/32 dev eth0 src 198.19.0.1 && "
      "ip route add 2001:db8:18::1/128 dev eth0 src 2001:db8:19::1");
  scene.options.devices = {"eth0", "eth1"};
  REQUIRE(scene.attach().failure().empty());
  Writer writer(scene.lab.pins());
  for (const int family : {AF_INET, AF_INET6}) {
    const auto& known = names(family);
    const auto where = end(family == AF_INET ? "198.18.0.1" : "2001:db8:18::1", node_port);
    writer.address(where.address.text(), LB_NODE_PORT_ADDRESS);
    for (const bool here : {true, false}) {
      const auto backend = end(here ? known.server : known.remote_pod, backend_port);
      for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
        INFO((family == AF_INET ? "IPv4 " : "IPv6 ")
             << (type == SOCK_STREAM ? "TCP " : "UDP ") << (here ? "here" : "elsewhere"));
        const auto server = serve_at(here ? scene.server : scene.remote, type, backend);
        writer.service(1, {{1, backend}});
        writer.node_port(where.address, where.port, type == SOCK_STREAM ? LB_TCP : LB_UDP, 1);
        CHECK(talk(beyond, server, type, where));
      }
    }
  }
}

}  // namespace lb::test
