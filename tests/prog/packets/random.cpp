// SPDX-License-Identifier: Apache-2.0
// Random valid packets of random flows, compared with a model of translation: new addresses, new ports, one
// hop less, and checksums recomputed over every byte.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <map>
#include <random>
#include <set>

#include "tests/lib/amount.hpp"
#include "tests/prog/packets/build.hpp"
#include "tests/prog/packets/world.hpp"

namespace lb::test {
namespace {

constexpr int services_each = 6;  // for each family and protocol

struct Service {
  Tuple to;  ///< the frontend is the destination
  bool local = false;
  std::set<Endpoint> backends;
};

struct Flow {
  Tuple request;          ///< as it arrives
  Tuple onward;           ///< as it leaves
  bool local = false;     ///< delivered by the stack
  bool from_pod = false;  ///< arrives at the host's end of a pod's device
};

Mac mac_of(const Address& address) { return {2, 7, address[12], address[13], address[14], address[15]}; }

std::string text_of(const Mac& mac) {
  return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", mac[0], mac[1], mac[2], mac[3], mac[4],
                     mac[5]);
}

const std::map<std::uint8_t, std::string> protocols = {{6, "tcp"}, {17, "udp"}, {132, "sctp"}};
/// The source address from the FIB, and the one used when the FIB gives none.
const std::map<int, std::string> node_source = {{4, "198.51.100.1"}, {6, "2001:db8:2::1"}};
const std::map<int, std::string> stand_in = {{4, "198.51.100.2"}, {6, "2001:db8:2::2"}};
const std::map<int, std::string> router = {{4, "192.0.2.254"}, {6, "2001:db8:1::fe"}};

class Model {
 public:
  Model(World& world, const lb_config& config)
      : world_(world),
        sources_(config.fib_source == LB_YES ? node_source : stand_in),
        random_(Catch::getSeed()) {
    for (const int family : {4, 6}) {
      add_neighbours(family);
      for (const auto& [protocol, name] : protocols) {
        add_services(family, protocol);
      }
    }
  }

  /// Runs one random packet, or the first few of a flow. Returns false after a failed check.
  bool step() {
    const auto kind = below(10);
    if (flows_.empty() || kind < 3) {
      return open_flow();
    }
    return kind == 9 ? send_stranger() : send_known(flows_[below(flows_.size())]);
  }

  [[nodiscard]] std::size_t flows() const noexcept { return flows_.size(); }
  /// Packets of known flows that XDP left to tc.
  [[nodiscard]] std::size_t left() const noexcept { return left_; }

 private:
  std::size_t below(std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_);
  }
  std::uint16_t port() { return static_cast<std::uint16_t>(1 + below(65535)); }

  void add_neighbours(int family) {
    std::string lines = fmt::format("neighbour replace {} lladdr 02:08:00:00:00:01 dev out0 nud permanent\n",
                                    router.at(family));
    for (unsigned host = 100; host < 200; ++host) {
      const auto text = backend_text(family, host);
      lines += fmt::format("neighbour replace {} lladdr {} dev out1 nud permanent\n", text,
                           text_of(mac_of(address_of(text))));
    }
    run_ip(lines);
  }

  static std::string backend_text(int family, unsigned host) {
    return family == 4 ? fmt::format("198.51.100.{}", host) : fmt::format("2001:db8:2::{}", host);
  }
  static std::string local_text(int family, unsigned host) {
    return family == 4 ? fmt::format("10.244.1.{}", host) : fmt::format("fd00:244:1::{}", host);
  }

  void add_services(int family, std::uint8_t protocol) {
    for (int number = 0; number < services_each; ++number) {
      Service service;
      const auto name = fmt::format("random_{}_{}_{}", family, protocol, number);
      const auto address =
          family == 4 ? fmt::format("198.19.9.{}", number + 1) : fmt::format("2001:db8:9::{}", number + 1);
      service.to = {family, protocol, {}, {address_of(address), port()}};
      service.local = number == 0;
      world_.change({"policy", name, "cluster", "cluster", "reject", "reject"});
      add_backends(service, name);
      world_.change({"frontend", name, "load_balancer", protocols.at(protocol), address,
                     std::to_string(service.to.destination.port)});
      services_.push_back(std::move(service));
    }
  }

  void add_backends(Service& service, const std::string& name) {
    Words slots = {"cluster", name};
    for (std::size_t i = 0; i <= below(40); ++i) {
      const auto host = static_cast<unsigned>(100 + below(100));
      const auto address =
          service.local ? local_text(service.to.family, host) : backend_text(service.to.family, host);
      const Endpoint endpoint{address_of(address), port()};
      const auto backend = fmt::format("{}_{}", name, i);
      world_.change({"backend", backend, name, service.local ? "same_node" : "elsewhere", address,
                     std::to_string(endpoint.port)});
      service.backends.insert(endpoint);
      slots.push_back(backend);
    }
    world_.change(slots);
  }

  Endpoint random_client(int family) {
    auto address = address_of(family == 4 ? "100.64.0.0" : "2001:db8:aaaa::");
    for (std::size_t at = family == 4 ? 14 : 6; at < 16; ++at) {
      address[at] = static_cast<std::uint8_t>(below(256));
    }
    return {address, port()};
  }

  Body random_body(const Tuple& tuple) {
    Body body;
    body.hops = static_cast<std::uint8_t>(2 + below(254));
    body.sequence = static_cast<std::uint32_t>(random_());
    body.acknowledged = static_cast<std::uint32_t>(random_());
    body.flags = ack | (below(2) != 0 ? psh : 0);
    if (below(8) == 0) {
      body.options = tuple.family == 4 ? 4 * (1 + below(10)) : 8 * (1 + below(20));
    }
    if (below(8) == 0) {
      body.padding = below(20);
    }
    if (below(8) == 0) {
      body.sum = tuple.protocol == 17 ? Sum::none : Sum::full;
    }
    body.payload.resize(below(3) == 0 ? below(1200) : below(40));
    for (auto& byte : body.payload) {
      byte = static_cast<std::uint8_t>(below(4) == 0 ? 0xff : below(256));
    }
    return body;
  }

  Verdict run(Hook hook, const char* device, const Bytes& packet) {
    return world_.programs().run({.hook = hook, .device = world_.device(device)}, packet);
  }

  static bool rewrites(const Verdict& verdict) {
    for (const auto outcome :
         {LB_OUTCOME_flow_stack, LB_OUTCOME_flow_redirect, LB_OUTCOME_flow_xdp, LB_OUTCOME_new_local,
          LB_OUTCOME_new_remote, LB_OUTCOME_new_xdp, LB_OUTCOME_new_from_pod}) {
      if (verdict.counts[outcome] == 1) {
        return true;
      }
    }
    return false;
  }

  /// `towards` is the neighbour to which XDP sends the frame.
  bool expect(Hook hook, const Bytes& packet, const Verdict& verdict, const Tuple& to, bool local,
              const Mac& out, const Mac& towards) const {
    auto expected = rewritten(packet, to, local ? 0 : 1);
    if (hook == Hook::xdp) {
      set_macs(expected, out, towards);
    }
    INFO(hook_name(hook) << ", " << counts_text(verdict.counts) << "\nin       " << hex(packet)
                         << "\nexpected " << hex(expected) << "\ncame     " << hex(verdict.packet));
    CHECK(verdict.error == 0);
    CHECK(rewrites(verdict));
    CHECK((verdict.packet == expected));  // printed as hex above: Catch2 cannot print every byte
    return rewrites(verdict) && verdict.packet == expected;
  }

  /// Sometimes XDP leaves a known flow's packet to tc, which resolves the neighbour again (REL-65).
  bool carry(Hook hook, const char* device, const Bytes& packet, const Tuple& to, bool local, const Mac& out,
             const Mac& towards) {
    const auto verdict = run(hook, device, packet);
    if (hook != Hook::xdp || verdict.counts[LB_OUTCOME_left_to_tc] == 0) {
      return expect(hook, packet, verdict, to, local, out, towards);
    }
    ++left_;
    return verdict.packet == packet &&
           expect(Hook::tc_in, packet, run(Hook::tc_in, device, packet), to, local, out, towards);
  }

  Hook request_hook(const Flow& flow) {
    if (flow.from_pod) {
      return Hook::pod_in;
    }
    return !flow.local && below(2) == 0 ? Hook::xdp : Hook::tc_in;
  }

  Hook answer_hook(const Flow& flow) {
    if (flow.local) {
      return flow.from_pod ? Hook::pod_out : Hook::tc_out;
    }
    return below(2) == 0 ? Hook::xdp : Hook::tc_in;
  }

  static const char* device_of(const Flow& flow) { return flow.from_pod ? "pod0" : "out0"; }

  bool request(const Flow& flow, const Body& body) {
    const auto hook = request_hook(flow);
    const auto packet = build(flow.request, body);
    return carry(hook, device_of(flow), packet, flow.onward, flow.local, device_mac(0x11),
                 mac_of(flow.onward.destination.address));
  }

  bool answer(const Flow& flow, const Body& body) {
    const auto hook = answer_hook(flow);
    const auto packet = build(flow.onward.reversed(), body);
    return carry(hook, flow.local ? device_of(flow) : "out1", packet, flow.request.reversed(), flow.local,
                 device_mac(0x10), {2, 8, 0, 0, 0, 1});
  }

  static Mac device_mac(std::uint8_t last) { return {2, 0, 0, 0, 0, last}; }

  bool send_known(const Flow& flow) {
    if (flow.local && !flow.from_pod && below(10) == 0) {
      return left_by_xdp(flow);
    }
    const auto body = random_body(flow.request);
    return below(2) == 0 ? request(flow, body) : answer(flow, body);
  }

  bool left_by_xdp(const Flow& flow) {
    return untouched(Hook::xdp, LB_OUTCOME_left_to_tc, build(flow.request, random_body(flow.request)));
  }

  bool send_stranger() {
    Tuple tuple = services_[below(services_.size())].to;
    tuple.source = random_client(tuple.family);
    tuple.destination = random_client(tuple.family);
    const auto hook = hooks.at(below(hooks.size()));
    const bool pods = hook == Hook::pod_in || hook == Hook::pod_out;
    return untouched(hook, hook == Hook::xdp ? LB_OUTCOME_left_to_tc : LB_OUTCOME_unrelated,
                     build(tuple, random_body(tuple)), pods ? "pod0" : "out0");
  }

  bool untouched(Hook hook, lb_outcome outcome, const Bytes& packet, const char* device = "out0") {
    const auto verdict = run(hook, device, packet);
    INFO(counts_text(verdict.counts) << "\nin   " << hex(packet) << "\ncame " << hex(verdict.packet));
    CHECK(verdict.counts[outcome] == 1);
    CHECK((verdict.packet == packet));
    return verdict.packet == packet;
  }

  /// Sends the first packet: the program chooses its translation, within limits; then the flow becomes
  /// assured.
  bool open_flow() {
    const auto& service = services_[below(services_.size())];
    const bool from_pod = below(3) == 0;  // their flows are delivered by the stack, wherever the backend is
    Flow flow{service.to, {}, service.local || from_pod, from_pod};
    flow.request.source = random_client(flow.request.family);
    if (!requests_.insert(flow.request).second) {
      return true;
    }
    auto body = random_body(flow.request);
    body.flags = syn;
    const auto hook = request_hook(flow);
    const auto packet = build(flow.request, body);
    const auto verdict = run(hook, device_of(flow), packet);
    if (!rewrites(verdict)) {
      UNSCOPED_INFO(counts_text(verdict.counts) << "\nin " << hex(packet));
      CHECK(rewrites(verdict));
      return false;
    }
    flow.onward = tuple_of(verdict.packet);
    if (!allowed(service, flow)) {
      return false;
    }
    flows_.push_back(flow);
    return expect(hook, packet, verdict, flow.onward, flow.local, device_mac(0x11),
                  mac_of(flow.onward.destination.address)) &&
           prove(flow);
  }

  bool allowed(const Service& service, const Flow& flow) {
    const auto& source = flow.onward.source;
    CHECK(service.backends.contains(flow.onward.destination));
    const bool fresh =
        answers_.insert(flow.onward.reversed()).second;  // two flows never share a tuple (REL-7)
    CHECK(fresh);
    if (flow.local) {
      CHECK(source.address == flow.request.source.address);
      return fresh && service.backends.contains(flow.onward.destination);
    }
    CHECK(source.address == address_of(sources_.at(flow.request.family)));
    CHECK(((source.port >= 1024 && source.port <= 29999) || source.port >= 61000));
    return fresh && service.backends.contains(flow.onward.destination);
  }

  bool prove(const Flow& flow) {
    auto body = random_body(flow.request);
    body.flags = syn | ack;
    if (!answer(flow, body)) {
      return false;
    }
    if (flow.request.protocol == 17) {
      return true;
    }
    auto third = random_body(flow.request);
    third.flags = ack;
    third.acknowledged = body.sequence + 1;
    return request(flow, third);
  }

  World& world_;
  const std::map<int, std::string>& sources_;
  std::mt19937_64 random_;
  std::vector<Service> services_;
  std::vector<Flow> flows_;
  std::size_t left_ = 0;
  std::set<Tuple> requests_;
  std::set<Tuple> answers_;
};

}  // namespace

TEST_CASE("random packets of random flows are rewritten as the model says") {
  const auto& [without, features, share] = GENERATE(from_range(feature_sets));
  INFO("without " << without);
  const int packets = amount(100'000, 400'000) / share;
  Settings settings;
  settings.flows = 262'144;
  settings.unassured = 262'144;
  features(settings);
  World world(settings);
  Model model(world, settings.config);
  for (int i = 0; i < packets; ++i) {
    REQUIRE(model.step());
  }
  CHECK(model.flows() > static_cast<std::size_t>(packets) / 5);
  CHECK(model.left() < static_cast<std::size_t>(packets) / 5);
}

}  // namespace lb::test
