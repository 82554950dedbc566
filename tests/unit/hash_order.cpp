// SPDX-License-Identifier: Apache-2.0
// Each run of the unit tests has another order of the agent's hash containers: a result that depends on it
// fails sooner or later.
#include <fmt/format.h>

#include <catch2/interfaces/catch_interfaces_reporter.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
#include <cstdint>
#include <cstdio>

#include "maps/hash.hpp"
#include "tests/lib/seed.hpp"

namespace {

class HashOrder final : public Catch::EventListenerBase {
 public:
  using EventListenerBase::EventListenerBase;
  void testRunStarting(const Catch::TestRunInfo& /*run*/) override { lb::maps::hash_seed() = seed_; }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    if (stats.totals.assertions.failed > 0) {
      fmt::print(stderr, "the order of hash containers was that of SLUICE_SEED={}\n", seed_);
    }
  }

 private:
  std::uint32_t seed_ = lb::test::seed();
};

}  // namespace

CATCH_REGISTER_LISTENER(HashOrder)
