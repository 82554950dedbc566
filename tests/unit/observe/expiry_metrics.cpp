// SPDX-License-Identifier: Apache-2.0
// The counters of expired flows.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "agent/observe/metrics.hpp"

namespace {

using namespace lb::agent;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("flows that expired are counted by reason, from zero") {
  Metrics metrics;
  metrics.flows_ended("orphaned", 0);
  metrics.flows_ended("closed", 3);
  metrics.flows_ended("closed", 4);
  const auto text = metrics.render({});
  CHECK_THAT(text, ContainsSubstring("# TYPE sluice_flows_ended_total counter"));
  CHECK_THAT(text, ContainsSubstring("sluice_flows_ended_total{reason=\"closed\"} 7\n"));
  CHECK_THAT(text, ContainsSubstring("sluice_flows_ended_total{reason=\"orphaned\"} 0\n"));
}

}  // namespace
