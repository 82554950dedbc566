// SPDX-License-Identifier: Apache-2.0
// The options for switching from one service proxy to another.
#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "agent/options/config.hpp"

namespace {

using namespace lb::agent;

Options read(std::vector<std::string> arguments) {
  const auto result = parse_command_line(std::move(arguments), "node");
  if (const auto* finished = std::get_if<Finished>(&result)) {
    FAIL(finished->text);
  }
  return std::get<Options>(result);
}

Options agent(std::vector<std::string> more) {
  more.insert(more.begin(), {"agent", "--manifests", "/m", "--devices", "eth0"});
  return read(std::move(more));
}

}  // namespace

TEST_CASE("REL-84 a drain waits for five minutes, and requires a successor") {
  const auto options = read({"drain"});
  CHECK(options.command == Command::drain);
  CHECK(options.drain.pins == "/sys/fs/bpf/sluice");
  CHECK(options.drain.mode == DrainMode::drain);
  CHECK(options.drain.successor == Successor::required);
  CHECK(options.drain.timeout_seconds == 300);
}

TEST_CASE("REL-84 a drain takes options of its own") {
  const auto options = read({"drain", "--pins", "/sys/fs/bpf/x", "--deadline", "20", "--force"}).drain;
  CHECK(options.pins == "/sys/fs/bpf/x");
  CHECK(options.timeout_seconds == 20);
  CHECK(options.successor == Successor::any);
  CHECK(read({"drain", "--cancel"}).drain.mode == DrainMode::cancel);
  CHECK(std::holds_alternative<Finished>(parse_command_line({"drain", "--deadline", "soon"}, "node")));
}

TEST_CASE("REL-97 programs do not look for an agent unless --orphaned-after says so") {
  CHECK(agent({}).agent.orphaned_after == 0);
  CHECK(agent({"--orphaned-after", "2m"}).agent.orphaned_after == 120);
  CHECK(agent({"--orphaned-after", "90"}).agent.orphaned_after == 90);
}

TEST_CASE("REL-97 alive answers by its exit code, or for node_exporter's collector of files") {
  const auto once = read({"alive"});
  CHECK(once.command == Command::alive);
  CHECK(once.alive.pins == "/sys/fs/bpf/sluice");
  CHECK(once.alive.textfile.empty());
  const auto options = read({"alive", "--textfile", "/t/sluice.prom", "--interval", "15"}).alive;
  CHECK(options.textfile == "/t/sluice.prom");
  CHECK(options.every == 15);
  CHECK(std::holds_alternative<Finished>(parse_command_line({"alive", "--interval", "15"}, "node")));
  CHECK(
      std::holds_alternative<Finished>(parse_command_line({"alive", "--textfile", "/t/sluice.txt"}, "node")));
}

TEST_CASE("REL-84 a check looks at the machine, or at what kube-proxy serves") {
  const auto check = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"check", "--manifests", "/m", "--devices", "none"});
    return read(std::move(more));
  };
  CHECK(check({}).check.against == CheckAgainst::machine);
  const auto options = check({"--against", "kube-proxy", "-o", "json"});
  CHECK(options.command == Command::check);
  CHECK(options.check.against == CheckAgainst::kube_proxy);
  CHECK(options.show.output == Output::json);
  const auto wrong =
      parse_command_line({"check", "--manifests", "/m", "--devices", "none", "--against", "cilium"}, "node");
  CHECK(std::get<Finished>(wrong).exit_code == 2);
}

TEST_CASE("REL-84 a file that cannot be used is no difference between the proxies") {
  const auto code = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"check", "--manifests", "/m", "--devices", "none", "--config", "/nowhere"});
    return std::get<Finished>(parse_command_line(std::move(more), "node")).exit_code;
  };
  CHECK(code({"--against", "kube-proxy"}) == 2);
  CHECK(code({}) == 1);
}

TEST_CASE("SEM-63 a start-up taint has a key, and needs an API") {
  const auto key = [](const std::string& text) {
    const auto result = parse_command_line({"agent", "--devices", "eth0", "--startup-taint", text}, "node");
    return std::holds_alternative<Options>(result) ? std::get<Options>(result).agent.startup_taint
                                                   : "refused";
  };
  CHECK(agent({}).agent.startup_taint.empty());
  CHECK(key("sluice.lb/starting") == "sluice.lb/starting");
  CHECK(key("starting") == "starting");
  for (const auto* wrong : {"a/", "/a", "a/b/c", "a b", "key=value:NoSchedule"}) {
    CHECK(key(wrong) == "refused");
  }
  CHECK(std::holds_alternative<Finished>(parse_command_line(
      {"agent", "--devices", "eth0", "--manifests", "/m", "--startup-taint", "a"}, "node")));
}
