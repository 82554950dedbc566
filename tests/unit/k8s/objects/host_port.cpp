// SPDX-License-Identifier: Apache-2.0
// Parsing of an address or a name with a port.
#include "k8s/objects/host_port.hpp"

#include <catch2/catch_test_macros.hpp>

using lb::k8s::host_port;

TEST_CASE("a host and its port are written together, IPv6 in brackets") {
  CHECK(host_port("10.0.0.1", 80U) == "10.0.0.1:80");
  CHECK(host_port("fd00::1", 6443U) == "[fd00::1]:6443");
  CHECK(host_port("node", "https") == "node:https");
}
