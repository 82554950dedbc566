// What a packet costs in the programs, in nanoseconds by BPF_PROG_TEST_RUN, with 10 to 1,000,000 slots,
// beside the floor. Run as root, with the machine idle.
//
// A test run repeats on the same buffer, and the programs rewrite it. So two services mirror each other: the
// backend of one is the frontend of the other. An established packet goes to and fro between two flows for as
// long as its TTL lasts; a new flow's packet is the next new flow's, each batch from a source address of its
// own. A batch starts with a fresh packet, and counts only if the outcome's counter rose by exactly its size.
// All tables but those of slots and backends have their default sizes.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/floor.hpp"
#include "bench/rounds.hpp"
#include "tests/prog/harness.hpp"
#include "tests/prog/packets_build.hpp"

namespace lb::bench {
namespace {

using namespace lb::test;

constexpr std::array<std::uint32_t, 3> sizes = {10, 10'000, 1'000'000};
constexpr int rounds = 15;
constexpr std::uint32_t hops_a_batch = 200;  // below the TTL
constexpr std::uint32_t new_a_batch = 64;    // so few that their ports seldom meet
constexpr std::uint32_t spare_slots = 64;

struct Names {
  const char* client;
  const char* node;
  std::array<const char*, 2> frontends;
};
const Names names4 = {"192.0.2.10", "192.0.2.20", {"192.0.2.80", "192.0.2.81"}};
const Names names6 = {"2001:db8:1::10", "2001:db8:1::20", {"2001:db8:1::80", "2001:db8:1::81"}};
constexpr std::uint16_t service_port = 80;
constexpr std::uint16_t client_port = 5000;

const Names& names_of(int family) { return family == 4 ? names4 : names6; }

Address address(const std::string& text) {
  Address bytes{};
  const auto mapped = text.find(':') == std::string::npos ? "::ffff:" + text : text;
  if (::inet_pton(AF_INET6, mapped.c_str(), bytes.data()) != 1) throw std::runtime_error(text);
  return bytes;
}

void must(const maps::error_code& error) {
  if (error) throw std::runtime_error("a map refused: " + error.message());
}

/// One device, on whose network everybody is.
std::uint32_t make_network() {
  run_ip(
      "link add bench0 address 02:00:00:00:00:10 type veth peer name bench0p\nlink set bench0 up\n"
      "link set bench0p up\naddress add 192.0.2.1/24 dev bench0\naddress add 2001:db8:1::1/64 dev bench0 "
      "nodad\n");
  for (const auto* names : {&names4, &names6}) {
    for (const auto* text : {names->client, names->node, names->frontends[0], names->frontends[1]})
      run_ip(fmt::format("neighbour replace {} lladdr 02:01:00:00:00:01 dev bench0 nud permanent\n", text));
  }
  return ::if_nametoindex("bench0");
}

Settings settings_of(std::uint32_t slots, std::uint16_t first_port, std::uint16_t last_port) {
  Settings settings;
  settings.slots = settings.backends = slots + spare_slots;
  settings.flows = LB_MAX_FLOWS;
  settings.young = LB_MAX_YOUNG;
  settings.config.fib_source = LB_NO;
  settings.config.first_port = first_port;
  settings.config.last_port = last_port;
  settings.config.high_first_port = settings.config.high_last_port = 0;
  return settings;
}

/// Two services that mirror each other, with that many slots in all. Their XDP program is
/// attached to the device, where no packet arrives: it gives the device queues to name, and a program that is
/// attached nowhere costs two grace periods a run.
class Mirror {
 public:
  Mirror(std::uint32_t slots, std::uint32_t device, int family, std::uint16_t first_port,
         std::uint16_t last_port)
      : programs_(settings_of(slots, first_port, last_port)), device_(device) {
    must(programs_.devices.put(device, {.kind = LB_OUTWARD, .pad = {}, .check = lb_device_check(device)},
                               maps::Put::any));
    must(maps::raw::put(programs_.map("lb_ports"), &device, &device, maps::Put::any));
    attach();
    for (const int number : {0, 1}) add_service(family, number, slots / 2);
  }

  /// The XDP program to the device, in place of another mirror's.
  void attach() { attach_xdp(device_, programs_.program(Hook::xdp)); }

  /// Source addresses of new flows, from now on.
  void set_source(int family, const std::string& text) {
    auto node = programs_.node.load(0);
    const auto bytes = address(text);
    std::memcpy(family == 4 ? node.source4 : node.source6, bytes.data(), bytes.size());
    programs_.node.store(0, node);
  }

  void set_secret(std::uint64_t secret) {
    auto node = programs_.node.load(0);
    node.secret[0] = secret;
    programs_.node.store(0, node);
  }

  Verdict run(Hook hook, const Bytes& packet, std::uint32_t repeat) {
    return programs_.run({.hook = hook, .device = device_, .repeat = repeat}, packet);
  }

 private:
  void add_service(int family, int number, std::uint32_t slots) {
    ++service_;
    const auto& names = names_of(family);
    const auto ours = static_cast<std::size_t>(number);
    lb_backend backend{};
    const auto target = address(names.frontends[1 - ours]);
    std::memcpy(backend.address, target.data(), target.size());
    backend.service = service_;
    backend.in_cluster = backend.serving = LB_YES;
    backend.port = service_port;
    const std::uint32_t first = (service_ - 1) * slots;
    for (std::uint32_t at = 0; at < slots; ++at) {
      programs_.backends.store(first + at + 1, backend);
      programs_.slots.store(first + at, first + at + 1);
    }
    lb_service service{};
    service.cluster = {first, slots};
    programs_.services.store(service_, service);
    add_frontend(address(names.frontends[ours]));
  }

  void add_frontend(const Address& at) {
    lb_frontend_key key{};
    std::memcpy(key.address, at.data(), at.size());
    key.port = service_port;
    key.protocol = LB_TCP;
    must(programs_.frontends.put(
        key, {.service = service_, .kind = LB_LOAD_BALANCER, .pad = 0, .check = lb_frontend_check(&key)},
        maps::Put::any));
  }

  Programs programs_;
  std::uint32_t device_;
  std::uint32_t service_ = 0;
};

Tuple request_of(int family, const char* client, int frontend) {
  return {family,
          6,
          {address(client), client_port},
          {address(names_of(family).frontends[static_cast<std::size_t>(frontend)]), service_port}};
}

/// A whole handshake, after which both halves are in lb_flows.
void establish(Mirror& mirror, const Tuple& request) {
  const auto first = mirror.run(Hook::tc_in, build(request, {.flags = syn}), 1);
  demand(first.counts[LB_OUTCOME_new_remote] == 1, "no new flow: " + counts_text(first.counts));
  const auto answer = tuple_of(first.packet).reversed();
  mirror.run(Hook::tc_in, build(answer, {.flags = syn | ack, .sequence = 700, .acknowledged = 1}), 1);
  const auto third = mirror.run(Hook::tc_in, build(request, {.flags = ack, .acknowledged = 701}), 1);
  demand(third.counts[LB_OUTCOME_promoted] == 1, "no established flow: " + counts_text(third.counts));
}

/// Median of the rounds' means.
template <class Batch>
double measure(Batch batch) {
  std::vector<double> means(rounds);
  for (auto& mean : means) mean = round_mean(batch);
  return median(std::move(means));
}

/// One kind of packet with programs of one size.
struct Case {
  std::unique_ptr<Mirror> mirror;
  std::function<double()> batch;
};

double counted_only(const Verdict& verdict, lb_outcome outcome, std::uint32_t repeat) {
  return verdict.counts[outcome] == repeat ? verdict.nanoseconds : 0;
}

Case established(std::uint32_t slots, std::uint32_t device, int family, Hook hook) {
  auto owned = std::make_unique<Mirror>(slots, device, family, client_port, client_port);
  auto& mirror = *owned;
  const auto& names = names_of(family);
  mirror.set_source(family, names.node);
  const auto there = request_of(family, names.client, 0);
  establish(mirror, there);
  mirror.set_source(family, names.client);
  establish(mirror, request_of(family, names.node, 1));
  const auto outcome = hook == Hook::xdp ? LB_OUTCOME_flow_xdp : LB_OUTCOME_flow_redirect;
  return {std::move(owned), [&mirror, hook, outcome, packet = build(there, {.hops = 255})] {
            return counted_only(mirror.run(hook, packet, hops_a_batch), outcome, hops_a_batch);
          }};
}

Case new_flows(std::uint32_t slots, std::uint32_t device, int family, Hook hook) {
  auto owned = std::make_unique<Mirror>(slots, device, family, 1024, 65535);
  auto& mirror = *owned;
  const auto packet = build(request_of(family, names_of(family).client, 0), {.hops = 255, .flags = syn});
  const auto outcome = hook == Hook::xdp ? LB_OUTCOME_new_xdp : LB_OUTCOME_new_remote;
  return {
      std::move(owned), [&mirror, family, hook, outcome, packet, random = std::mt19937_64(slots)]() mutable {
        const auto drawn = random();
        mirror.set_secret(drawn);
        mirror.set_source(family, fmt::format(fmt::runtime(family == 4 ? "10.{}.{}.1" : "fd00::{:x}:{:x}"),
                                              drawn % 256, drawn / 256 % 256));
        return counted_only(mirror.run(hook, packet, new_a_batch), outcome, new_a_batch);
      }};
}

Case unrelated(std::uint32_t slots, std::uint32_t device, int family, Hook hook) {
  auto owned = std::make_unique<Mirror>(slots, device, family, client_port, client_port);
  auto& mirror = *owned;
  auto tuple = request_of(family, names_of(family).client, 0);
  tuple.destination.port = service_port + 1;
  const auto outcome = hook == Hook::xdp ? LB_OUTCOME_left_to_tc : LB_OUTCOME_unrelated;
  return {std::move(owned), [&mirror, hook, outcome, packet = build(tuple, {.hops = 255})] {
            return counted_only(mirror.run(hook, packet, hops_a_batch), outcome, hops_a_batch);
          }};
}

double floor_of(Floor floor, std::uint32_t device, int family, Hook hook) {
  const auto& names = names_of(family);
  const auto there = request_of(family, names.client, 0);
  Floors floors(there, request_of(family, names.node, 1));
  const auto packet = build(there, {.hops = 255});
  floors.attach(floor, device);
  return measure([&] { return floors.run(floor, hook, packet, hops_a_batch); });
}

/// One hook and family: the floor's figures first, then the programs', by name of the packet.
struct Row {
  std::string packet;
  std::array<double, sizes.size()> nanoseconds{};
  double growth = 0;  ///< last size over the first
};

const char* name_of(Hook hook) { return hook == Hook::xdp ? "XDP" : "tc"; }

/// The sizes take turns within each round, because what else the machine does would make a difference between
/// them; the growth is the median of the rounds' own.
template <class Make>
Row measured(const char* what, Make make, std::uint32_t device, int family, Hook hook) {
  std::array<Case, sizes.size()> cases;
  for (std::size_t at = 0; at < sizes.size(); ++at) cases[at] = make(sizes[at], device, family, hook);
  std::array<std::vector<double>, sizes.size()> means;
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t at = 0; at < sizes.size(); ++at) {
      cases[at].mirror->attach();
      means[at].push_back(round_mean(cases[at].batch));
    }
    ratios.push_back(means.back().back() / means.front().back());
  }
  Row row{what, {}, median(ratios)};
  std::ranges::transform(means, row.nanoseconds.begin(), median);
  fmt::print("| {} | IPv{} | {} | {:.0f} | {:.0f} | {:.0f} | {:.2f} |\n", name_of(hook), family, what,
             row.nanoseconds[0], row.nanoseconds[1], row.nanoseconds[2], row.growth);
  std::fflush(stdout);
  return row;
}

double measured_floor(const char* what, Floor floor, std::uint32_t device, int family, Hook hook) {
  const double nanoseconds = floor_of(floor, device, family, hook);
  fmt::print("| {} | IPv{} | floor: {} | {:.0f} | | | |\n", name_of(hook), family, what, nanoseconds);
  return nanoseconds;
}

/// What issue and README compare, of one hook and family.
struct Comparison {
  Hook hook = Hook::xdp;
  int family = 4;
  double established = 0;  ///< over the floor
  double sent = 0;         ///< the same over the floor that counts and redirects
  double new_flow = 0;     ///< over an established packet
  double insert = 0;       ///< a new flow over one bare insert
  double unrelated = 0;    ///< over an established packet
  double growth = 0;       ///< the worst of the three
};

Comparison compare(std::uint32_t device, int family, Hook hook) {
  measured_floor("parse", Floor::parse, device, family, hook);
  const double floor = measured_floor("parse, one look-up, rewrite", Floor::rewrite, device, family, hook);
  const double sent = measured_floor("the same, counted and redirected", Floor::send, device, family, hook);
  const double insert =
      measured_floor("one insert into a table of young flows", Floor::insert, device, family, hook);
  const auto known = measured("established", established, device, family, hook);
  const auto fresh = measured("new flow (SYN), source NAT", new_flows, device, family, hook);
  const auto others = measured("unrelated", unrelated, device, family, hook);
  const double one = known.nanoseconds[0];
  return {hook,
          family,
          one / floor,
          one / sent,
          fresh.nanoseconds[0] / one,
          fresh.nanoseconds[0] / insert,
          others.nanoseconds[0] / one,
          std::max({known.growth, fresh.growth, others.growth})};
}

bool run_all() {
  stay();
  const NetNamespace network;
  const auto device = make_network();
  std::vector<Comparison> comparisons;
  fmt::print("ns a packet, median of {} rounds of {} batches; columns: slots in all\n\n", rounds, batches);
  fmt::print(
      "| hook | family | packet | 10 | 10,000 | 1,000,000 | last / first |\n|---|---|---|---|---|---|---|\n");
  for (const auto hook : {Hook::xdp, Hook::tc_in}) {
    for (const int family : {4, 6}) comparisons.push_back(compare(device, family, hook));
  }
  fmt::print(
      "\n| hook | family | established / floor | established / floor that redirects | new flow / established "
      "| new flow / one insert | "
      "unrelated / established | 1,000,000 slots / 10 |\n|---|---|---|---|---|---|---|---|\n");
  for (const auto& row : comparisons) {
    fmt::print("| {} | IPv{} | {:.2f} | {:.2f} | {:.1f} | {:.1f} | {:.2f} | {:.2f} |\n", name_of(row.hook),
               row.family, row.established, row.sent, row.new_flow, row.insert, row.unrelated, row.growth);
  }
  const bool reached = std::ranges::all_of(comparisons, [](const auto& row) { return row.growth <= 1.5; });
  fmt::print("\nlast / first is to be at most 1.5: {}\n", reached ? "yes" : "NO");
  return reached;
}

}  // namespace
}  // namespace lb::bench

int main() {
  try {
    return lb::bench::run_all() ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_programs: {}\n", error.what());
    return 1;
  }
}
