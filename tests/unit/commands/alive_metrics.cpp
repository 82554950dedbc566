// SPDX-License-Identifier: Apache-2.0
// What `sluice alive --textfile` writes for node_exporter (REL-97).
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <string>

#include "agent/commands/alive.hpp"

using namespace lb::agent;
using std::chrono::seconds;

namespace {

constexpr std::chrono::system_clock::time_point then{seconds(1767323045)};
constexpr const char* pins = "/sys/fs/bpf/sluice";

bool has(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

}  // namespace

TEST_CASE("REL-97 an agent that runs and looks after its pins is not absent") {
  const auto text = alive_metrics(pins, {AgentState::running, 1, then}, then + seconds(60));
  CHECK(has(text, R"(sluice_agent_absent{pins="/sys/fs/bpf/sluice"} 0)"));
  CHECK(has(text, R"(sluice_agent_last_heartbeat_timestamp_seconds{pins="/sys/fs/bpf/sluice"} 1767323045)"));
  CHECK(has(text, "# TYPE sluice_agent_absent gauge"));
}

TEST_CASE("REL-97 pins without an agent, or with one that hangs, are without an agent") {
  const std::string absent = R"(sluice_agent_absent{pins="/sys/fs/bpf/sluice"} 1)";
  CHECK(has(alive_metrics(pins, {AgentState::absent, std::nullopt, then}, then + seconds(1)), absent));
  CHECK(has(alive_metrics(pins, {AgentState::running, 1, then}, then + seconds(61)), absent));
}

TEST_CASE("REL-97 a node where nothing is pinned misses no agent") {
  const auto text = alive_metrics(pins, {}, then);
  CHECK(has(text, R"(sluice_agent_absent{pins="/sys/fs/bpf/sluice"} 0)"));
  CHECK(text.find("heartbeat_timestamp") == std::string::npos);
}
