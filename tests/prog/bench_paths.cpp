// SPDX-License-Identifier: Apache-2.0
// The packets of bench/run's part programs take the paths whose names they have. A benchmark is run by hand,
// so a change of the programs would break it unseen.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>

#include "bench/paths.hpp"

namespace lb::test {
namespace {

constexpr std::uint32_t slots = 10;
constexpr std::uint32_t few_batches = 4;

/// Throws if most batches had another outcome than the expected one.
void run_some(bench::Case (*make)(const bench::Place&), const bench::Place& place) {
  const auto made = make(place);
  made.mirror->attach();
  (void)bench::round_mean(made.batch, few_batches);
}

}  // namespace

TEST_CASE("every path that bench/run measures is the one it names") {
  const NetNamespace network;
  const auto device = bench::make_network();
  for (const int family : {4, 6}) {
    for (const auto& path : bench::paths()) {
      INFO(bench::name_of(path.hook) << ", IPv" << family << ", " << path.what);
      CHECK_NOTHROW(run_some(path.make, {device, family, path.hook, slots}));
    }
    for (const auto hook : {Hook::xdp, Hook::tc_in}) {
      INFO(bench::name_of(hook) << ", IPv" << family);
      for (const auto make : {bench::established, bench::new_flows, bench::unrelated}) {
        CHECK_NOTHROW(run_some(make, {device, family, hook, slots}));
      }
    }
    CHECK_NOTHROW(run_some(bench::looked_after, {device, family, Hook::tc_in, slots}));
  }
}

}  // namespace lb::test
