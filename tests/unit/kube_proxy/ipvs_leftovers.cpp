// SPDX-License-Identifier: Apache-2.0
// Which virtual services and IP sets are kube-proxy's, and which of IPVS's connections conntrack can carry
// on.
#include "agent/kube_proxy/ipvs_leftovers.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "agent/base/system_error.hpp"

namespace lb::test {
namespace {

using namespace lb::agent;
using Names = std::vector<std::string>;

k8s::Address address(const char* text) { return k8s::Address::parse(text).value(); }

VirtualService service(lb_protocol protocol, const char* text, std::uint16_t port) {
  return {protocol, address(text), port};
}

Names texts(const std::vector<VirtualService>& services) {
  Names texts;
  for (const auto& each : services) {
    texts.push_back(virtual_service_text(each));
  }
  return texts;
}

/// A node whose kube-ipvs0 has a ClusterIP of each family, and whose sets have two node ports.
IpvsState node(std::vector<VirtualService> services) {
  IpvsState state;
  state.bound = {address("10.96.0.80"), address("fd00:10:96::80")};
  std::ranges::sort(state.bound);
  state.services = std::move(services);
  state.sets = {{"KUBE-NODE-PORT-TCP", {{{}, 30080}}},
                {"KUBE-6-NODE-PORT-UDP", {{{}, 30053}}},
                {"KUBE-NODE-PORT-SCTP-HASH", {{address("10.0.0.10"), 30132}}},
                {"MINE", {{{}, 30081}}}};
  return state;
}

/// What is tracked, and nothing else; takes what it is given, save in the place of what it has.
class Table final : public ConntrackTable {
 public:
  std::map<TrackedTuple, Tracked> flows;
  int others = 0;  ///< packets that are tracked anew as soon as their entry is erased

  boost::system::result<Tracked> find(const TrackedTuple& original) override {
    const auto found = flows.find(original);
    if (found == flows.end()) {
      return system_error(ENOENT);
    }
    return found->second;
  }
  boost::system::error_code erase(const TrackedTuple& original) override {
    const bool erased = flows.erase(original) == 1;
    if (others > 0) {
      --others;
      flows[original] = {.original = original, .reply = reversed(original)};
    }
    return erased ? boost::system::error_code() : system_error(ENOENT);
  }
  boost::system::error_code track(const Tracked& flow, std::uint32_t) override {
    if (!flows.try_emplace(flow.original, flow).second) {
      return system_error(EEXIST);
    }
    return {};
  }
};

constexpr const char* connections =
    "Pro FromIP   FPrt ToIP     TPrt DestIP   DPrt State       Expires PEName PEData\n"
    "TCP 0A000064 9C40 0A60 0050 0AF4010A 1F90 ESTABLISHED     890\n"
    "TCP 0A000064 9C41 0A600050 0050 0AF4010A 1F90 ESTABLISHED     890\n"
    "TCP 0A000064 9C42 0A600050 0050 0AF4010A 1F90 FIN_WAIT        110\n"
    "UDP fd00:0010:0000:0000:0000:0000:0000:0064 9C43 fd00:0010:0096:0000:0000:0000:0000:0080 0035 "
    "fd00:0010:0244:0001:0000:0000:0000:0010 14E9 UDP             290\n"
    "SCTP 0A000064 9C44 0A600050 0050 0AF4010A 1F90 ESTABLISHED     890\n"
    "TCP 0A000064 9C45\n"
    "IP  0A000064 9C45 0A600050 0050 0AF4010A 1F90 NONE 890\n";

std::vector<IpvsConnection> read() {
  std::istringstream text(connections);
  return read_ipvs_connections(text);
}

/// As IPVS has it tracked: the answers come from the backend, to an address of the node's.
Tracked tracked(const TrackedTuple& requests) {
  return {.original = requests,
          .reply = {.source = address("10.244.1.10"),
                    .destination = address("10.0.0.10"),
                    .source_port = 8080,
                    .destination_port = 2000,
                    .protocol = requests.protocol},
          .mark = 7};
}

}  // namespace

TEST_CASE("SEM-75: kube-proxy's IP sets by their names, IPv6's cut at 31 characters, and no others") {
  for (const auto* name : {"KUBE-LOOP-BACK", "KUBE-CLUSTER-IP", "KUBE-LOAD-BALANCER-SOURCE-CIDR",
                           "KUBE-NODE-PORT-LOCAL-SCTP-HASH", "KUBE-IPVS-IPS", "KUBE-6-IPVS-IPS",
                           "KUBE-6-CLUSTER-IP", "KUBE-6-LOAD-BALANCER-SOURCE-CID", "KUBE-6-NODE-PORT-TCP"}) {
    INFO(name);
    CHECK(is_kube_proxy_set(name));
  }
  for (const auto* name :
       {"KUBE-", "KUBE-6-", "KUBE-X", "KUBE-CLUSTER-IP-X", "KUBE-SVC-ABC", "XKUBE-CLUSTER-IP", "CLUSTER-IP",
        "kube-router-svip", "KUBE-6-LOAD-BALANCER-SOURCE-CIDR", ""}) {
    INFO(name);
    CHECK_FALSE(is_kube_proxy_set(name));
  }
}

TEST_CASE("SEM-75: virtual services at addresses of kube-ipvs0 and node ports go, and no others") {
  const auto removal =
      plan_ipvs_removal(node({service(LB_TCP, "10.96.0.80", 80), service(LB_UDP, "fd00:10:96::80", 53),
                              service(LB_TCP, "10.0.0.10", 30080), service(LB_UDP, "fd00:10::10", 30053),
                              service(LB_SCTP, "10.0.0.10", 30132),
                              // Of another protocol, family, port and address than the sets have.
                              service(LB_UDP, "10.0.0.10", 30080), service(LB_TCP, "fd00:10::10", 30080),
                              service(LB_TCP, "10.0.0.10", 30081), service(LB_SCTP, "10.0.0.11", 30132),
                              service(LB_TCP, "192.0.2.80", 80)}));
  CHECK(texts(removal.services) ==
        Names{"virtual service tcp 10.96.0.80:80", "virtual service udp [fd00:10:96::80]:53",
              "virtual service tcp 10.0.0.10:30080", "virtual service udp [fd00:10::10]:30053",
              "virtual service sctp 10.0.0.10:30132"});
  CHECK(removal.sets == Names{"KUBE-NODE-PORT-TCP", "KUBE-6-NODE-PORT-UDP", "KUBE-NODE-PORT-SCTP-HASH"});
}

TEST_CASE("SEM-75: where kube-proxy left nothing of IPVS, all virtual services are others'") {
  IpvsState state;
  state.services = {service(LB_TCP, "192.0.2.80", 80)};
  state.sets = {{"MINE", {}}};
  const auto removal = plan_ipvs_removal(state);
  CHECK(removal.services.empty());
  CHECK(removal.sets.empty());
}

TEST_CASE("REL-84: the kernel's list of IPVS's connections, and lines that are none") {
  const auto all = read();
  REQUIRE(all.size() == 5);
  CHECK(all[1].requests == TrackedTuple{.source = address("10.0.0.100"),
                                        .destination = address("10.96.0.80"),
                                        .source_port = 40000 + 1,
                                        .destination_port = 80,
                                        .protocol = LB_TCP});
  CHECK(all[3].requests.source == address("fd00:10::64"));
  CHECK(all[3].requests.destination_port == 53);
  CHECK(all[4].requests.protocol == LB_SCTP);
}

TEST_CASE("REL-84: what goes through virtual services that go is carried on, if it has begun and not ended") {
  const auto removal =
      plan_ipvs_removal(node({service(LB_TCP, "10.96.0.80", 80), service(LB_UDP, "fd00:10:96::80", 53)}));
  const auto carried = carried_by(removal, read());
  REQUIRE(carried.size() == 2);
  CHECK(carried[0].requests.source_port == 40001);
  CHECK(carried[1].state == "UDP");
}

TEST_CASE("REL-84: what conntrack cannot carry on is named with the reason") {
  Table table;
  auto connection = read()[1];
  CHECK(why_not_handed(connection, {}, table) == "conntrack does not know its backend");
  table.flows[connection.requests] = {connection.requests, reversed(connection.requests)};
  CHECK(why_not_handed(connection, {}, table) == "conntrack does not know its backend");
  table.flows[connection.requests] = tracked(connection.requests);
  CHECK(why_not_handed(connection, {}, table).empty());
  CHECK(why_not_handed(connection, {connection.requests.source}, table) ==
        "the node's own, from an address of kube-ipvs0");
  connection.requests.protocol = LB_SCTP;
  CHECK(why_not_handed(connection, {}, table) == "SCTP");
}

TEST_CASE("REL-84: a connection is handed over as it is tracked, also when a packet comes in between") {
  for (const int others : {0, 1, 2}) {
    Table table;
    table.others = others;
    const auto connection = read()[1];
    table.flows[connection.requests] = tracked(connection.requests);
    CHECK_FALSE(hand_over_ipvs(connection, table));
    CHECK(table.flows.at(connection.requests) == tracked(connection.requests));
  }
  Table table;
  table.others = 9;
  const auto connection = read()[1];
  table.flows[connection.requests] = tracked(connection.requests);
  CHECK(hand_over_ipvs(connection, table) == system_error(EEXIST));
}

}  // namespace lb::test
