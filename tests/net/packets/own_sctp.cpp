// SPDX-License-Identifier: Apache-2.0
// SEM-32: SCTP from the node's own processes to services: no socket hook sees it, so the packets are
// translated when they leave.
#include <fmt/format.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "tests/lib/paths.hpp"
#include "tests/net/lib/talk.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t port = 80;
constexpr std::uint16_t backend_port = 8080;
constexpr std::uint16_t client_port = 33000;

std::string script(const std::string& verb) {
  return fmt::format("/usr/bin/python3 {} {}", source_path("tests/net/lib/sctp_talk.py"), verb);
}

std::string words_of(const End& end) { return fmt::format(" {} {}", end.address.text(), end.port); }

}  // namespace

TEST_CASE("SEM-32 SCTP of the node's own processes reaches backends elsewhere and pods here") {
  PodScene scene(Wiring::routed);
  REQUIRE(scene.attach().pod_failure().empty());
  Writer writer(scene.lab.pins());
  const auto node = Host::here();
  for (const int family : {AF_INET, AF_INET6}) {
    const auto& known = names(family);
    writer.address(known.node, LB_NODE_PORT_ADDRESS);
    for (const bool here : {false, true}) {
      INFO((family == AF_INET ? "IPv4" : "IPv6") << (here ? ", here" : ", elsewhere"));
      const auto backend = end(here ? known.server : known.remote_pod, backend_port);
      const auto number = static_cast<std::uint16_t>(port + (here ? 1 : 0));
      const auto where = end(known.service, number);
      writer.service(number, {{number, backend}});
      writer.frontend(where, LB_SCTP, number, LB_CLUSTER_IP);
      const auto server = (here ? scene.server : scene.remote).start(script("serve") + words_of(backend));
      const auto rose = counter_deltas(writer, [&] {
        CHECK(node.output(script("ask") + words_of(end(known.node, client_port)) + words_of(where)) == "");
      });
      CHECK(rose.new_remote > 0);
      CHECK(rose.flow_redirect > 0);
      CHECK(rose.flow_stack > 1);
    }
  }
}

}  // namespace lb::test
