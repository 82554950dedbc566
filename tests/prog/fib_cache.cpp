// XDP caches a FIB result for an eighth of a second: changes of neighbours and routes still take effect
// (bpf/path/fib_cache.h).
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <optional>
#include <string>

#include "tests/prog/packets/build.hpp"
#include "tests/prog/packets/world.hpp"

namespace lb::test {
namespace {

constexpr auto timeouts = std::chrono::seconds(20);  // tc gets one packet of a flow in four seconds

struct Names {
  int family;
  const char* client;
  const char* service;
  const char* backend;
};
constexpr std::array<Names, 2> families = {{{4, "192.0.2.10", "198.19.0.1", "198.51.100.11"},
                                            {6, "2001:db8:1::10", "2001:db8:ffff::1", "2001:db8:2::11"}}};

Tuple request_of(const Names& names) {
  return {names.family, 6, {address_of(names.client), 33000}, {address_of(names.service), 80}};
}

class Line {
 public:
  explicit Line(const Names& names) : world_(Settings()), request_(request_of(names)) { establish(); }

  /// Runs the flow's packet at XDP until the result satisfies `wanted`; returns false if none does in time.
  template <class Wanted>
  bool until(Wanted wanted) {
    const auto end = std::chrono::steady_clock::now() + timeouts;
    while (std::chrono::steady_clock::now() < end) {
      if (wanted(
              run(Hook::xdp, "out0", build(request_, {.flags = ack, .sequence = 1001, .acknowledged = 701}))))
        return true;
    }
    return false;
  }

 private:
  Verdict run(Hook hook, const std::string& device, const Bytes& packet) {
    return world_.programs().run({.hook = hook, .device = world_.device(device)}, packet);
  }

  void establish() {
    const auto first = run(Hook::tc_in, "out0", build(request_, {.flags = syn, .sequence = 1000}));
    REQUIRE(first.counts[LB_OUTCOME_new_remote] == 1);
    const auto answer = tuple_of(first.packet).reversed();
    run(Hook::tc_in, "out1", build(answer, {.flags = syn | ack, .sequence = 700, .acknowledged = 1001}));
    const auto third =
        run(Hook::tc_in, "out0", build(request_, {.flags = ack, .sequence = 1001, .acknowledged = 701}));
    REQUIRE(third.counts[LB_OUTCOME_assured] == 1);
  }

  World world_;
  Tuple request_;
};

Mac next_of(const Verdict& verdict) {
  Mac mac{};
  std::copy_n(verdict.packet.begin(), mac.size(), mac.begin());
  return mac;
}

bool sent(const Verdict& verdict) { return verdict.counts[LB_OUTCOME_flow_xdp] == 1; }

}  // namespace

TEST_CASE("REL-65 XDP follows a neighbour whose link address changes, and a route that goes") {
  for (const auto& names : families) {
    INFO("IPv" << names.family);
    Line line(names);
    std::optional<Mac> before;
    REQUIRE(line.until([&](const Verdict& verdict) {
      if (sent(verdict)) before = next_of(verdict);
      return sent(verdict);
    }));
    run_ip(
        fmt::format("neighbour replace {} lladdr 02:77:77:77:77:77 dev out1 nud permanent\n", names.backend));
    const Mac after = {0x02, 0x77, 0x77, 0x77, 0x77, 0x77};
    CHECK(line.until([&](const Verdict& verdict) {
      CHECK((!sent(verdict) || next_of(verdict) == *before || next_of(verdict) == after));
      return sent(verdict) && next_of(verdict) == after;
    }));
    run_ip(fmt::format("route add unreachable {}/{}\n", names.backend, names.family == 4 ? 32 : 128));
    // XDP leaves a flow to tc for one second of four; after the route is gone it does so for longer.
    auto last_sent = std::chrono::steady_clock::now();
    CHECK(line.until([&last_sent](const Verdict& verdict) {
      const auto now = std::chrono::steady_clock::now();
      if (sent(verdict)) last_sent = now;
      return now - last_sent > std::chrono::seconds(2);
    }));
    run_ip(fmt::format("route del unreachable {}/{}\n", names.backend, names.family == 4 ? 32 : 128));
    CHECK(line.until(sent));
  }
}

}  // namespace lb::test
