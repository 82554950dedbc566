// SPDX-License-Identifier: Apache-2.0
// What kube-proxy of each Kubernetes release writes in its modes nftables and IPVS for
// tests/corpus/kube_proxy_versions/objects.yaml (tests/e2e/lib/record_versions.sh records it): the services
// found in it are the same for all, and exactly those of the objects.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "agent/kube_proxy/chains.hpp"
#include "agent/kube_proxy/ipvs_leftovers.hpp"
#include "agent/kube_proxy/nf_chains.hpp"
#include "tests/unit/kube_proxy/recorded.hpp"

namespace lb::test {
namespace {

using namespace lb::agent;

constexpr std::array versions = {"1.33", "1.36", "1.37"};
constexpr std::array ipvs_versions = {"1.37"};

Blob recorded_of(const std::string& version, const std::string& name) {
  return recorded("kube_proxy_versions/" + version + "/" + name);
}

const char* suffix(int family) { return family == AF_INET ? "-ip" : "-ip6"; }

/// The frontends of objects.yaml in one family, as seen from the node `node`. A service's addresses and its
/// node port end with the same number.
class Expected {
 public:
  explicit Expected(int family) : v4_(family == AF_INET) {}

  Lines lines() {
    add("web:port tcp", cluster(80, 80), all(8080));
    add("web:port tcp", node_port(80), all(8080));
    add("web:port tcp", v4_ ? "192.0.2.80:80" : "[2001:db8:2::80]:80", all(8080));
    add("web:port tcp", balancer(80), all(8080));
    add("here:port tcp", cluster(81, 80), all(8080));
    add("here:port tcp", node_port(81), pod(1, 8080) + " inside " + all(8080));
    add("here:port tcp", balancer(81), pod(1, 8080) + " inside " + all(8080));
    add("inside tcp", cluster(82, 80), pod(1, 8080));
    add("sticky:port tcp", cluster(83, 80), all(8080) + " affinity 600");
    add("sticky:port tcp", node_port(83), all(8080) + " affinity 600");
    add("ranges:port tcp", cluster(84, 80), all(8080));
    add("ranges:port tcp", balancer(84), all(8080) + " limited");
    add("dns:dns udp", cluster(53, 53), all(5353));
    add("dns:dns udp", node_port(53), all(5353));
    add("dns:dns-tcp tcp", cluster(53, 53), all(5353));
    add("dns:dns-tcp tcp", node_port(53), all(5353));
    add("calls:port sctp", cluster(70, 7000), all(7000));
    add("calls:port sctp", node_port(70), all(7000));
    for (const auto& at : {cluster(85, 80), node_port(85), balancer(85)}) {
      add("none:port tcp", at, "reject");
    }
    add("away:port tcp", cluster(86, 80), "drop");
    add("away:port tcp", node_port(86), "drop inside " + elsewhere());
    add("away:port tcp", balancer(86), "drop inside " + elsewhere());
    if (v4_) {
      add("kubernetes:https tcp", cluster(1, 443), "10.0.0.2:6443");
    }
    std::ranges::sort(lines_);
    return std::move(lines_);
  }

  /// The only endpoint of `away`.
  [[nodiscard]] std::string elsewhere() const { return pod(2, 8080); }

 private:
  void add(const std::string& service, const std::string& at, const std::string& endpoints) {
    lines_.push_back("default/" + service + " " + at + " " + endpoints);
  }
  [[nodiscard]] std::string in_family(const char* start4, const char* start6, int number, int port) const {
    const auto address = (v4_ ? start4 : start6) + std::to_string(number);
    return (v4_ ? address : "[" + address + "]") + ":" + std::to_string(port);
  }
  [[nodiscard]] std::string cluster(int number, int port) const {
    return in_family("10.96.0.", "fd00:10:96::", number, port);
  }
  [[nodiscard]] std::string balancer(int number) const {
    return in_family("203.0.113.", "2001:db8:113::", number, 80);
  }
  [[nodiscard]] std::string node_port(int number) const {
    return (v4_ ? "0.0.0.0:300" : "[::]:300") + std::to_string(number);
  }
  [[nodiscard]] std::string pod(int number, int port) const {
    const auto node = std::to_string(number);
    return (v4_ ? "10.244." + node + ".10:" : "[fd00:10:244:" + node + "::10]:") + std::to_string(port);
  }
  [[nodiscard]] std::string all(int port) const { return pod(1, port) + "," + pod(2, port); }

  bool v4_;
  Lines lines_;
};

}  // namespace

TEST_CASE("REL-84, REL-165: what each version of kube-proxy serves is read from its nftables rules") {
  for (const std::string version : versions) {
    for (const int family : {AF_INET, AF_INET6}) {
      INFO(version << suffix(family));
      const auto bytes = recorded_of(version, std::string("nftables") + suffix(family));
      const auto rules = nftables_rules(dump_of(bytes, nftables_table), family);
      CHECK(rules.unread == Lines());
      CHECK(lines_of(served_by(rules)) == Expected(family).lines());
    }
  }
}

namespace {

/// Whether `line` has `what`; it ends before it then.
bool cut(std::string& line, const char* what) {
  const auto at = line.find(what);
  if (at != std::string::npos) {
    line.erase(at);
  }
  return at != std::string::npos;
}

/// IPVS has one set for all clients, no names and no ranges of clients. Where a policy allows no endpoint, it
/// has those `elsewhere`: kube-proxy lets pods reach them, and replies to clients outside are lost.
std::string as_ipvs(std::string line, const std::string& elsewhere) {
  line.erase(0, line.find(' '));
  if (cut(line, " drop")) {
    line += " " + elsewhere;
  }
  static_cast<void>(cut(line, " inside "));
  static_cast<void>(cut(line, " limited"));
  return line;
}

std::vector<k8s::Address> bound_in(const std::string& version) {
  std::istringstream text(
      content_of(source_path("tests/corpus/kube_proxy_versions/" + version + "/ipvs-addresses")));
  std::vector<k8s::Address> addresses;
  for (std::string line; std::getline(text, line);) {
    addresses.push_back(k8s::Address::parse(line).value());
  }
  std::ranges::sort(addresses);
  return addresses;
}

/// What the clean-up finds of IPVS.
IpvsState state_in(const std::string& version) {
  IpvsState state;
  state.bound = bound_in(version);
  for_each_message(recorded_of(version, "ipvs"), [&](const auto&, netlink::Bytes body) {
    if (const auto service = virtual_service_of(ipvs_service_in(body))) {
      state.services.push_back(*service);
    }
  });
  for_each_message(recorded_of(version, "ipvs-sets"),
                   [&](const auto&, netlink::Bytes body) { state.sets.push_back(read_ip_set(body)); });
  return state;
}

ChainTable chains_in(const std::string& version, int family, const char* table) {
  ChainTable found;
  for_each_message(
      recorded_of(version, std::string("ipvs") + suffix(family)),
      [&](const auto& head, netlink::Bytes body) { take_nf_chain_message(found, table, head, body); });
  return found;
}

}  // namespace

TEST_CASE("REL-84: what each version of kube-proxy serves is read from IPVS") {
  Lines expected;
  for (const int family : {AF_INET, AF_INET6}) {
    const auto elsewhere = Expected(family).elsewhere();
    for (const auto& line : Expected(family).lines()) {
      expected.push_back(as_ipvs(line, elsewhere));
    }
  }
  std::ranges::sort(expected);
  for (const std::string version : ipvs_versions) {
    INFO(version);
    CHECK(lines_of(from_ipvs(recorded_of(version, "ipvs"), bound_in(version))) == expected);
  }
}

TEST_CASE("SEM-75: all that each version of kube-proxy makes in IPVS mode goes, and no base chain") {
  for (const std::string version : ipvs_versions) {
    INFO(version);
    const auto state = state_in(version);
    const auto removal = plan_ipvs_removal(state);
    CHECK(removal.services.size() == state.services.size());
    CHECK(removal.sets.size() == state.sets.size());
    CHECK(removal.sets.size() > 30);
    for (const int family : {AF_INET, AF_INET6}) {
      for (const auto* table : {"nat", "filter"}) {
        INFO(table << suffix(family));
        auto chains = chains_in(version, family, table);
        const auto planned = plan_removal(chains);
        CHECK(planned.kept == Lines());
        CHECK(planned.jumps.size() >= 2);
        std::erase_if(chains.chains, [&](const std::string& name) {
          return chains.base.contains(name) ||
                 std::ranges::find(planned.chains, name) != planned.chains.end();
        });
        CHECK(chains.chains == Lines());
      }
    }
  }
}

}  // namespace lb::test
