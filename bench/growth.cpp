// SPDX-License-Identifier: Apache-2.0
// What a packet costs when there are many flows, and when there are many services, in nanoseconds by
// BPF_PROG_TEST_RUN. (Many endpoints: bench/programs.cpp.) Run as root, with the machine idle.
//
// The services form a ring, in random order: the backend of one is the frontend of the next. So a
// packet that the program has rewritten is the next flow's packet, and a test run, which repeats on the same
// buffer, goes through as many flows as the packet has hops left: a chain. Each chain begins with its own
// client, and a batch is one chain, chosen at random. It counts only if the outcome's counter rose by exactly
// its length. A single flow's packet is rewritten to itself: its source after NAT is the client's own.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "bench/rounds.hpp"
#include "bench/rows.hpp"
#include "maps/abi/checks.h"
#include "tests/prog/lib/harness.hpp"
#include "tests/prog/packets/build.hpp"

namespace lb::bench {
namespace {

using namespace lb::test;

constexpr const char* part = "growth";
constexpr int rounds = 9;
constexpr std::uint64_t mebibytes = 6144;
constexpr std::uint32_t chain_flows = 200;  // below the TTL
constexpr std::uint32_t new_flows = 64;     // of one batch
constexpr std::uint32_t slots_each = 4;
constexpr std::uint32_t first_frontend = 0xc6120000;  // 198.18.0.0/15
constexpr std::uint32_t first_client = 0x0a000000;    // 10.0.0.0/8
constexpr std::uint16_t service_port = 80, client_port = 5000;

Address mapped(std::uint32_t address) {
  Address bytes{};
  bytes[10] = bytes[11] = 0xff;
  const auto network = htonl(address);
  std::memcpy(bytes.data() + 12, &network, sizeof(network));
  return bytes;
}

/// One device, with one neighbour as next hop for every address.
std::uint32_t make_network() {
  run_ip(
      "link add growth0 address 02:00:00:00:00:10 type veth peer name growth0p\nlink set growth0 up\nlink "
      "set growth0p up\n"
      "address add 192.0.2.1/24 dev growth0\n"
      "neighbour replace 192.0.2.10 lladdr 02:00:00:00:00:10 dev growth0 nud permanent\n"
      "route add default via 192.0.2.10 dev growth0\n");
  return ::if_nametoindex("growth0");
}

struct Shape {
  std::uint32_t services;
  std::uint32_t flows;
};

/// The services of a shape, with their established flows.
class Ring {
 public:
  Ring(Shape shape, std::uint32_t device)
      : programs_(settings_of(shape)),
        device_(device),
        next_(order_of(shape.services)),
        random_(shape.flows) {
    demand(!programs_.devices.put(device, {.kind = LB_UPLINK, .pad = {}, .check = lb_device_check(device)},
                                  maps::Put::any),
           "a map refuses the device");
    demand(!maps::raw::put(programs_.map("lb_devmap"), &device, &device, maps::Put::any), "lb_devmap");
    programs_.set_frame_address(device);
    for (std::uint32_t number = 0; number < shape.services; ++number) {
      add_service(number);
    }
    chains_ = (shape.flows + chain_flows - 1) / chain_flows;
    for (std::uint32_t chain = 0; chain < chains_; ++chain) {
      establish(chain, std::min(chain_flows, shape.flows));
    }
    attach();
  }

  /// A test run of a program that is attached nowhere costs two grace periods.
  void attach() { attach_xdp(device_, programs_.program(Hook::xdp)); }

  /// XDP leaves to tc a packet of each flow that tc has not seen for some seconds; after this call tc has
  /// seen all flows.
  void refresh() {
    for (std::uint32_t chain = 0; chain < chains_; ++chain) {
      run(Hook::tc_in, build(first_of(chain), {.hops = 255}), chain_flows, LB_OUTCOME_flow_redirect);
    }
  }

  /// Nanoseconds per packet of one chain of established flows; 0 if the batch does not count.
  double established(Hook hook) {
    const auto outcome = hook == Hook::xdp ? LB_OUTCOME_flow_xdp : LB_OUTCOME_flow_redirect;
    const auto chain = static_cast<std::uint32_t>(random_() % chains_);
    return run(hook, build(first_of(chain), {.hops = 255}), chain_flows, outcome);
  }

  /// Like established(), for new flows from an unused address.
  double opened(Hook hook) {
    const auto outcome = hook == Hook::xdp ? LB_OUTCOME_new_xdp : LB_OUTCOME_new_remote;
    const auto drawn = static_cast<std::uint32_t>(random_());
    set_source(first_client + 0x800000 + (drawn % 0x7fffff));
    auto tuple = first_of(0);
    tuple.destination.address = frontend(drawn % static_cast<std::uint32_t>(next_.size()));
    tuple.source.address = mapped(first_client + 0x700000 + (drawn % 0xfffff));
    return run(hook, build(tuple, {.hops = 255, .flags = syn}), new_flows, outcome);
  }

 private:
  static Settings settings_of(Shape shape) {
    Settings settings;
    settings.slots = settings.backends = shape.services * slots_each + 64;
    settings.flows = std::max<std::uint32_t>(LB_MAX_FLOWS, shape.flows * 2 + shape.flows / 4);
    settings.unassured = LB_MAX_UNASSURED;
    settings.config.fib_source = LB_NO;
    settings.config.first_port = shape.flows == 1 ? client_port : 1024;
    settings.config.last_port = shape.flows == 1 ? client_port : 65535;
    settings.config.high_first_port = settings.config.high_last_port = 0;
    return settings;
  }

  /// The successor of each service: one ring through all of them.
  static std::vector<std::uint32_t> order_of(std::uint32_t services) {
    std::vector<std::uint32_t> shuffled(services);
    std::iota(shuffled.begin(), shuffled.end(), 0U);
    std::ranges::shuffle(shuffled, std::mt19937_64(services));
    std::vector<std::uint32_t> next(services);
    for (std::size_t at = 0; at < services; ++at) {
      next[shuffled[at]] = shuffled[(at + 1) % services];
    }
    return next;
  }

  static Address frontend(std::uint32_t number) { return mapped(first_frontend + number); }

  static Tuple first_of(std::uint32_t chain) {
    return {4, 6, {mapped(first_client + chain + 1), client_port}, {frontend(0), service_port}};
  }

  void add_service(std::uint32_t number) {
    lb_backend backend{};
    const auto target = frontend(next_[number]);
    std::memcpy(backend.address, target.data(), target.size());
    backend.service = number + 1;
    backend.in_cluster = backend.serving = LB_YES;
    backend.port = service_port;
    const std::uint32_t first = number * slots_each;
    for (std::uint32_t at = first; at < first + slots_each; ++at) {
      programs_.backends.store(at + 1, backend);
      programs_.slots.store(at, at + 1);
    }
    lb_service service{};
    service.cluster = {first, slots_each};
    programs_.services.store(number + 1, service);
    lb_frontend_key key{};
    const auto own = frontend(number);
    std::memcpy(key.address, own.data(), own.size());
    key.port = service_port;
    key.protocol = LB_TCP;
    demand(!programs_.frontends.put(
               key,
               {.service = number + 1, .kind = LB_LOAD_BALANCER, .pad = 0, .check = lb_frontend_check(&key)},
               maps::Put::any),
           "a map refuses a frontend");
  }

  void set_source(std::uint32_t address) {
    auto node = programs_.node.load(0);
    const auto bytes = mapped(address);
    std::memcpy(node.source4, bytes.data(), bytes.size());
    programs_.node.store(0, node);
  }

  Verdict once(const Bytes& packet) {
    return programs_.run({.hook = Hook::tc_in, .device = device_, .repeat = 1}, packet);
  }

  /// Makes a handshake for each flow of the chain, so that all are in lb_flows.
  void establish(std::uint32_t chain, std::uint32_t flows) {
    set_source(flows == 1 ? first_client + chain + 1 : first_client + 0x400000 + chain);
    auto request = first_of(chain);
    for (std::uint32_t at = 0; at < flows; ++at) {
      const auto first = once(build(request, {.flags = syn}));
      demand(first.counts[LB_OUTCOME_new_remote] == 1, "no new flow: " + counts_text(first.counts));
      const auto following = tuple_of(first.packet);
      once(build(following.reversed(), {.flags = syn | ack, .sequence = 700, .acknowledged = 1}));
      const auto third = once(build(request, {.flags = ack, .acknowledged = 701}));
      demand(third.counts[LB_OUTCOME_assured] == 1, "no established flow: " + counts_text(third.counts));
      request = following;
    }
  }

  double run(Hook hook, const Bytes& packet, std::uint32_t repeat, lb_outcome outcome) {
    const auto verdict = programs_.run({.hook = hook, .device = device_, .repeat = repeat}, packet);
    return verdict.counts[outcome] == repeat ? verdict.nanoseconds : 0;
  }

  Programs programs_;
  std::uint32_t device_;
  std::vector<std::uint32_t> next_;
  std::mt19937_64 random_;
  std::uint32_t chains_ = 0;
};

using Batch = double (Ring::*)(Hook);

/// The dimension that grows, its sizes, and a ring for each size.
struct Growth {
  const char* by;
  std::vector<std::uint32_t> sizes;
  std::vector<std::unique_ptr<Ring>> rings;
};

void print_growth(const Growth& growth, const char* what, Hook hook, const std::vector<Spread>& costs,
                  const Spread& ratio) {
  const auto series = fmt::format("{}, IPv4, {}", hook == Hook::xdp ? "XDP" : "tc ingress", what);
  fmt::print("| {} | {} |", hook == Hook::xdp ? "XDP" : "tc ingress", what);
  for (std::size_t at = 0; at < costs.size(); ++at) {
    fmt::print(" {} |", cell(costs[at]));
    keep({part, series, "ns", costs[at], growth.by, growth.sizes[at]});
  }
  fmt::print(" {} |\n", cell(ratio, 2));
  keep({part, fmt::format("{}: {} {} / {}", series, growth.sizes.back(), growth.by, growth.sizes.front()),
        "ratio", ratio});
  std::fflush(stdout);
}

/// The rings take turns within each round, so that other load on the machine affects all of them alike.
void measure(const Growth& growth, const char* what, Batch batch, Hook hook) {
  const auto& rings = growth.rings;
  std::vector<std::vector<double>> means(rings.size());
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t at = 0; at < rings.size(); ++at) {
      rings[at]->attach();
      rings[at]->refresh();
      means[at].push_back(round_mean([&] { return (*rings[at].*batch)(hook); }));
    }
    ratios.push_back(means.back().back() / means.front().back());
  }
  std::vector<Spread> costs(means.size());
  std::ranges::transform(means, costs.begin(), spread_of);
  print_growth(growth, what, hook, costs, spread_of(std::move(ratios)));
}

void print_head(const Growth& growth) {
  std::string line = "|---|---|---|";
  fmt::print("\n| hook | packet |");
  for (const auto size : growth.sizes) {
    fmt::print(" {}: {} |", growth.by, size);
    line += "---|";
  }
  fmt::print(" most / least |\n{}\n", line);
}

void measure_flows(std::uint32_t device) {
  Growth growth{"flows", {1, chain_flows, 10'000, 1'000'000}, {}};
  for (const auto flows : growth.sizes) {
    growth.rings.push_back(std::make_unique<Ring>(Shape{flows == 1 ? 1U : 2U, flows}, device));
  }
  print_head(growth);
  for (const auto hook : {Hook::xdp, Hook::tc_in}) {
    measure(growth, "established", &Ring::established, hook);
  }
}

void measure_services(std::uint32_t device) {
  Growth growth{"services", {1, 1'000, 50'000}, {}};
  for (const auto services : growth.sizes) {
    growth.rings.push_back(std::make_unique<Ring>(Shape{services, 10'000}, device));
  }
  print_head(growth);
  for (const auto hook : {Hook::xdp, Hook::tc_in}) {
    measure(growth, "established", &Ring::established, hook);
    measure(growth, "new flow (SYN)", &Ring::opened, hook);
  }
}

void run_all() {
  need_memory(mebibytes);
  stay();
  const NetNamespace network;
  const auto device = make_network();
  fmt::print(
      "ns a packet: median of {} rounds of {} batches (least–most); with two services (one for one flow), or "
      "with 10,000 flows\n",
      rounds, batches);
  measure_flows(device);
  measure_services(device);
}

}  // namespace
}  // namespace lb::bench

int main() {
  try {
    lb::bench::run_all();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_growth: {}\n", error.what());
    return 1;
  }
}
