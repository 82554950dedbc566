// SPDX-License-Identifier: Apache-2.0
// Which devices are pods' devices, and how the command line selects them.
#include "agent/attach/pods.hpp"

#include <catch2/catch_test_macros.hpp>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "agent/options/config.hpp"

namespace lb::test {
namespace {

std::variant<agent::Options, agent::Finished> parse(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"agent", "--manifests", "/m", "--devices", "eth0"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return agent::parse_command_line(std::move(arguments), "node-1");
}

}  // namespace

TEST_CASE("an uplink is no pod's, whatever it is called") {
  agent::AgentOptions options;
  options.devices = {"veth0"};
  options.pod_devices = {"veth"};
  options.pod_bridge = "br0";
  const auto device = [](const char* name, std::uint32_t master = 0) {
    agent::NetDevice made;
    made.name = name;
    made.master = master;
    return made;
  };
  const std::map<std::uint32_t, agent::NetDevice> all = {{1, device("veth0", 4)},
                                                         {2, device("veth1")},
                                                         {3, device("tap0", 4)},
                                                         {4, device("br0")},
                                                         {5, device("eth1", 9)}};
  std::vector<std::uint32_t> found;
  for (const auto& pod : agent::pod_devices(all, options)) {
    found.push_back(pod.index);
  }
  CHECK(found == std::vector<std::uint32_t>{2, 3});
}

TEST_CASE("pods' devices are named by prefixes, by bridge, or not at all") {
  const auto options =
      std::get<agent::Options>(parse({"--pod-devices", "veth, cali", "--pod-bridge", "cni0"}));
  CHECK(options.agent.pod_devices == std::vector<std::string>{"veth", "cali"});
  CHECK(options.agent.pod_bridge == "cni0");
  const auto none = std::get<agent::Options>(parse({"--pod-devices", "none"}));
  CHECK(none.agent.pod_devices.empty());
  CHECK(std::get<agent::Options>(parse({})).agent.pod_devices.empty());
  for (const auto& wrong : {std::vector<std::string>{"--pod-devices", ","},
                            std::vector<std::string>{"--pod-devices", "a-name-of-16-char"},
                            std::vector<std::string>{"--pod-bridge", "a-name-of-16-char"}}) {
    CHECK(std::get<agent::Finished>(parse(wrong)).exit_code == 2);
  }
}

}  // namespace lb::test
