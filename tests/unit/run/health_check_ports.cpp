// SPDX-License-Identifier: Apache-2.0
// The text about ports that other processes hold.
#include "agent/run/health_check_ports.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

namespace lb::agent {

TEST_CASE("ports that are taken are named, those of health checks are counted") {
  const WaitingServer health{"FailedToStartProxierHealthcheck", "cannot listen on 0.0.0.0:10256"};
  const WaitingServer metrics{"FailedToStartMetrics", "cannot listen on 127.0.0.1:10249"};
  struct Row {
    std::vector<WaitingServer> servers;
    std::size_t checks;
    std::string text;
  };
  const std::vector<Row> rows = {
      {{}, 0, ""},
      {{health}, 0, "cannot listen on 0.0.0.0:10256"},
      {{}, 2, "2 health-check node ports are taken"},
      {{health, metrics},
       3,
       "cannot listen on 0.0.0.0:10256; cannot listen on 127.0.0.1:10249; "
       "3 health-check node ports are taken"},
  };
  for (const auto& row : rows) {
    CHECK(taken_ports_text(row.servers, row.checks) == row.text);
  }
}

}  // namespace lb::agent
