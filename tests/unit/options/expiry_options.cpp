// SPDX-License-Identifier: Apache-2.0
// The options for flow timeouts.
#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "agent/options/config.hpp"

namespace {

using namespace lb::agent;

std::variant<Options, Finished> parse(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"agent", "--manifests", "/m", "--devices", "eth0"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return parse_command_line(std::move(arguments), "node");
}

FlowTimeouts timeouts(const std::vector<std::string>& more) {
  const auto result = parse(more);
  if (const auto* finished = std::get_if<Finished>(&result)) {
    FAIL(finished->text);
  }
  return std::get<Options>(result).agent.timeouts;
}

TEST_CASE("the time-outs of flows are kube-proxy's and conntrack's (SEM-55, SEM-90)") {
  const auto found = timeouts({});
  CHECK(found.established == 24 * 3600);
  CHECK(found.close_wait == 3600);
  CHECK(found.closing == 60);
  CHECK(found.udp == 30);
  CHECK(found.udp_stream == 180);
  CHECK(found.sctp == 210);
}

TEST_CASE("time-outs have units, seconds if none") {
  const auto found =
      timeouts({"--tcp-established-timeout", "2d", "--tcp-close-wait-timeout", "10m", "--tcp-closing-timeout",
                "45", "--udp-timeout", "5s", "--udp-stream-timeout", "1H", "--sctp-timeout", "300s"});
  CHECK(found == FlowTimeouts{.established = 172800,
                              .close_wait = 600,
                              .closing = 45,
                              .udp = 5,
                              .udp_stream = 3600,
                              .sctp = 300});
}

TEST_CASE("a time-out that is none is refused with its option's name") {
  for (const std::string wrong : {"0", "0s", "-1s", "1.5h", "", "10 weeks", "99999999h", "4294967295"}) {
    CAPTURE(wrong);
    const auto result = parse({"--udp-timeout=" + wrong});
    const auto* finished = std::get_if<Finished>(&result);
    REQUIRE(finished != nullptr);
    CHECK(finished->exit_code == 2);
    CHECK(finished->text.find("--udp-timeout") != std::string::npos);
  }
}

}  // namespace
