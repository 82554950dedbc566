// SPDX-License-Identifier: Apache-2.0
// Writes services at any of their addresses, and the CNI's masquerade rules.
#include "tests/net/lib/paths.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

namespace lb::test {
namespace {

constexpr std::uint16_t service_port = 80;
constexpr std::uint16_t port_of_nodes = 30080;

std::string masquerade_of(const char* family, const std::string& pods) {
  return fmt::format(
      "table {0} cni {{ chain post {{ type nat hook postrouting priority srcnat; "
      "{0} saddr {1} {0} daddr != {1} masquerade; }}\n}}\n",
      family, pods);
}

}  // namespace

End offer(Writer& writer, std::uint32_t number, const At& at, const PodNames& known, const End& backend,
          lb_protocol protocol) {
  const auto& address = known.*at.address;
  writer.service(number, {{number, backend}});
  if (at.kind != LB_NODE_PORT) {
    const auto where = end(address, service_port);
    writer.frontend(where, protocol, number, at.kind);
    return where;
  }
  const auto where = end(address, port_of_nodes);
  writer.address(address, LB_NODE_PORT_ADDRESS);
  writer.node_port(where.address, where.port, protocol, number);
  return where;
}

std::string masquerade_rules() {
  return masquerade_of("ip", names(AF_INET).pods) + masquerade_of("ip6", names(AF_INET6).pods);
}

}  // namespace lb::test
