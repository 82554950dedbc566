// SPDX-License-Identifier: Apache-2.0
// The services read from the kernel's dumps of a real kube-proxy's rules (tests/e2e/check_against.sh records
// them): the same for all modes.
#include <endian.h>
#include <linux/ip_vs.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "agent/kube_proxy/iptables_rules.hpp"
#include "agent/kube_proxy/ipvs_services.hpp"
#include "agent/kube_proxy/nftables_rules.hpp"
#include "agent/kube_proxy/proxy_rules.hpp"
#include "agent/netlink/netfilter.hpp"
#include "tests/unit/kube_proxy/recorded.hpp"

namespace {

using namespace lb::agent;
using lb::test::Blob;
using lb::test::dump_of;
using lb::test::Lines;
using lb::test::lines_of;
using lb::test::text;

Blob recorded(const std::string& name) { return lb::test::recorded("kube_proxy_rules/" + name); }

ServedFrontends from_nftables(netlink::Bytes bytes, int family) {
  return served_by(nftables_rules(dump_of(bytes, nftables_table), family));
}

ProxyRules rules_of_iptables_nft(netlink::Bytes bytes, int family) {
  return iptables_rules(nft_iptables_rules(dump_of(bytes, "nat"), family),
                        nft_iptables_rules(dump_of(bytes, "filter"), family), family);
}

ServedFrontends from_iptables_nft(netlink::Bytes bytes, int family) {
  return served_by(rules_of_iptables_nft(bytes, family));
}

/// Skips the ipt_getinfo that record_rules.py writes before the entries.
netlink::Bytes entries_in(netlink::Bytes table) {
  return table.subspan(std::min(table.size(), sizeof(ipt_getinfo)));
}

ProxyRules rules_of_legacy(netlink::Bytes nat, netlink::Bytes filter, int family) {
  return iptables_rules(legacy_iptables_rules(entries_in(nat), family),
                        legacy_iptables_rules(entries_in(filter), family), family);
}

ServedFrontends from_legacy(netlink::Bytes nat, netlink::Bytes filter, int family) {
  return served_by(rules_of_legacy(nat, filter, family));
}

/// The services that tests/e2e/check_against.sh makes, as seen from the node `node`; ALL, HERE and THERE
/// stand for endpoints.
Lines expected(int family) {
  const bool v4 = family == AF_INET;
  const auto pod = [v4](int number) {
    const auto text = std::to_string(number);
    return v4 ? "10.244." + text + ".10:8080" : "[fd00:10:244:" + text + "::10]:8080";
  };
  const auto cluster = [v4](const char* last) {
    return v4 ? "10.96.0." + std::string(last) + ":80" : "[fd00:10:96::" + std::string(last) + "]:80";
  };
  const auto outside = [v4](const char* last) {
    return v4 ? "203.0.113." + std::string(last) + ":80" : "[2001:db8:113::" + std::string(last) + "]:80";
  };
  const auto node_port = [v4](const char* last) {
    return (v4 ? "0.0.0.0:300" : "[::]:300") + std::string(last);
  };
  const auto all = pod(1) + "," + pod(2) + "," + pod(3) + "," + pod(4);
  const auto here = pod(1);
  Lines lines;
  const auto service = [&](const std::string& name, const char* last, const std::string& at_cluster_ip,
                           const std::string& elsewhere, const std::string& load_balancer) {
    lines.push_back(name + cluster(last) + " " + at_cluster_ip);
    lines.push_back(name + node_port(last) + " " + elsewhere);
    lines.push_back(name + outside(last) + " " + elsewhere + load_balancer);
  };
  service("default/web:port tcp ", "80", all, all, "");
  service("default/here:port tcp ", "81", all, here + " inside " + all, "");
  service("default/inside:port tcp ", "82", here, all, "");
  service("default/sticky:port tcp ", "83", all + " affinity 600", all + " affinity 600", "");
  lines.push_back("default/sticky:port tcp " + std::string(v4 ? "192.0.2.83:80 " : "[2001:db8:2::83]:80 ") +
                  all + " affinity 600");
  service("default/ranges:port tcp ", "84", all, all, " limited");
  service("default/dns:port udp ", "53", all, all, "");
  service("default/none:port tcp ", "85", "reject", "reject", "");
  if (v4) {
    service("default/away:port tcp ", "86", "drop", "drop inside " + pod(2), "");
    lines.push_back("default/kubernetes:https tcp 10.96.0.1:443 10.0.0.2:6443");
  } else {
    service("default/away:port tcp ", "86", "reject", "reject", "");
  }
  std::ranges::sort(lines);
  return lines;
}

const char* suffix(int family) { return family == AF_INET ? "-ip" : "-ip6"; }

}  // namespace

TEST_CASE("REL-84: what a real kube-proxy serves is read from its nftables rules") {
  for (const int family : {AF_INET, AF_INET6}) {
    const auto dump = dump_of(recorded(std::string("nftables") + suffix(family)), nftables_table);
    const auto rules = nftables_rules(dump, family);
    CHECK(rules.unread.empty());
    CHECK(lines_of(served_by(rules)) == expected(family));
  }
}

TEST_CASE(
    "REL-84, REL-165: what a real kube-proxy serves is read from each version of iptables-nft's rules") {
  for (const std::string version : {"1.8.7", "1.8.9", "1.8.11", "1.8.13"}) {
    for (const int family : {AF_INET, AF_INET6}) {
      INFO(version);
      const auto rules = rules_of_iptables_nft(recorded("iptables-" + version + suffix(family)), family);
      CHECK(rules.unread.empty());
      CHECK(lines_of(served_by(rules)) == expected(family));
    }
  }
}

TEST_CASE("REL-84: what a real kube-proxy serves is read from iptables-legacy's rules") {
  for (const int family : {AF_INET, AF_INET6}) {
    const auto name = std::string("iptables-legacy") + suffix(family);
    const auto rules = rules_of_legacy(recorded(name + "-nat"), recorded(name + "-filter"), family);
    CHECK(rules.unread.empty());
    CHECK(lines_of(served_by(rules)) == expected(family));
  }
}

// IPVS: as ipvsadm configured it on Linux 6.1, on a node whose kube-ipvs0 has 10.96.0.80, 10.96.0.81,
// 203.0.113.80 and fd00:10:96::80.

namespace {

ServedFrontends from_ipvs(netlink::Bytes bytes) {
  std::vector<lb::k8s::Address> addresses;
  for (const auto* each : {"10.96.0.80", "10.96.0.81", "203.0.113.80", "fd00:10:96::80"}) {
    addresses.push_back(lb::k8s::Address::parse(each).value());
  }
  return lb::test::from_ipvs(bytes, std::move(addresses));
}

}  // namespace

TEST_CASE("REL-84: virtual services of IPVS, node ports once, and no server without weight") {
  CHECK(lines_of(from_ipvs(recorded("ipvs"))) ==
        Lines{" tcp 0.0.0.0:30080 10.244.1.10:8080", " tcp 10.96.0.80:80 10.244.1.10:8080,10.244.2.10:8080",
              " tcp 203.0.113.80:80 10.244.1.10:8080 affinity 600",
              " tcp [fd00:10:96::80]:80 [fd00:10:244:1::10]:8080", " udp 10.96.0.81:53 reject"});
}

TEST_CASE("REL-84: a virtual service by firewall mark is not kube-proxy's") {
  auto bytes = recorded("ipvs");
  // The attribute with the address of 10.96.0.80 becomes a firewall mark.
  const auto number = static_cast<std::byte>(IPVS_SVC_ATTR_ADDR);
  const std::array attribute = {std::byte{20}, std::byte{},   number,      std::byte{},
                                std::byte{10}, std::byte{96}, std::byte{}, std::byte{80}};
  const auto at = std::ranges::search(bytes, attribute);
  REQUIRE_FALSE(at.empty());
  at.begin()[2] = static_cast<std::byte>(IPVS_SVC_ATTR_FWMARK);
  CHECK(lines_of(from_ipvs(bytes)) ==
        Lines{" tcp 0.0.0.0:30080 10.244.1.10:8080", " tcp 203.0.113.80:80 10.244.1.10:8080 affinity 600",
              " tcp [fd00:10:96::80]:80 [fd00:10:244:1::10]:8080", " udp 10.96.0.81:53 reject"});
}

TEST_CASE("REL-84: IPVS's list that ends anywhere, and bytes that are none of its") {
  const auto bytes = recorded("ipvs");
  for (std::size_t size = 0; size < bytes.size(); size += 37) {
    CHECK(from_ipvs(netlink::Bytes(bytes).first(size)).size() <= 5);
  }
  static_cast<void>(from_ipvs(recorded("nftables-ip")));
}

// Malformed input, and other programs' rules.

namespace {

/// Checks that `part` has no frontends that `whole` lacks, and no endpoints that `whole` lacks.
void check_within(const ServedFrontends& part, const ServedFrontends& whole) {
  for (const auto& [id, frontend] : part) {
    const auto known = whole.find(id);
    REQUIRE(known != whole.end());
    CHECK(std::ranges::includes(known->second.outside.endpoints, frontend.outside.endpoints));
  }
}

/// A rule as iptables shows it, in a chain of the table nat.
IptablesRule rule(std::string chain, std::string target) {
  IptablesRule rule;
  rule.chain = std::move(chain);
  rule.target = std::move(target);
  return rule;
}

IptablesRule service_rule(std::string target) {
  auto made = rule("KUBE-SERVICES", std::move(target));
  made.match = IptablesRule::Destination::address;
  made.destination = lb::k8s::Address::parse("10.96.0.80").value();
  made.protocol = LB_TCP;
  made.ports = {80};
  made.comment = "default/web:http cluster IP";
  return made;
}

IptablesRule endpoint_rule(std::string chain, std::uint16_t port) {
  auto made = rule(std::move(chain), "DNAT");
  made.endpoint = ServedEndpoint{lb::k8s::Address::parse("10.244.1.10").value(), port};
  return made;
}

ServedFrontends served(const std::vector<IptablesRule>& nat, const std::vector<IptablesRule>& filter = {}) {
  return served_by(iptables_rules(nat, filter, AF_INET));
}

}  // namespace

TEST_CASE("REL-84: rules that end anywhere give what stood before, and no more") {
  const auto nft = recorded("nftables-ip");
  const auto whole = from_nftables(nft, AF_INET);
  for (std::size_t size = 0; size < nft.size(); size += 211) {
    check_within(from_nftables(netlink::Bytes(nft).first(size), AF_INET), whole);
  }
  const auto nat = recorded("iptables-legacy-ip-nat");
  const auto all = from_legacy(nat, {}, AF_INET);
  for (std::size_t size = 0; size < nat.size(); size += 499) {
    check_within(from_legacy(netlink::Bytes(nat).first(size), {}, AF_INET), all);
  }
}

TEST_CASE("REL-84: bytes that are not as the kernel writes them are passed over") {
  std::mt19937 random(20261125);
  for (const auto* name : {"nftables-ip6", "iptables-1.8.9-ip", "iptables-legacy-ip6-nat"}) {
    const auto good = recorded(name);
    for (int round = 0; round < 30; ++round) {
      auto bytes = good;
      for (int change = 0; change < 40; ++change) {
        bytes[random() % bytes.size()] = std::byte(random());
      }
      static_cast<void>(from_nftables(bytes, AF_INET6));
      static_cast<void>(from_iptables_nft(bytes, AF_INET));
      static_cast<void>(from_legacy(bytes, bytes, AF_INET6));
    }
  }
  SUCCEED("nothing ended the process");
}

TEST_CASE("REL-84: messages about other tables are passed over") {
  CHECK(served_by(nftables_rules(dump_of(recorded("nftables-ip"), "kube-proxy-of-others"), AF_INET)).empty());
}

TEST_CASE("REL-84: chains with similar names are ignored unless kube-proxy's jump to them") {
  CHECK(served({rule("KUBE-SERVICES-CUSTOM", "KUBE-SVC-A"), endpoint_rule("KUBE-SVC-A", 1)}).empty());
  auto elsewhere = service_rule("KUBE-SVC-A");
  elsewhere.chain = "CNI-SERVICES";
  CHECK(served({elsewhere, endpoint_rule("KUBE-SVC-A", 1)}).empty());
  CHECK(served({service_rule("CNI-HOSTPORT-DNAT"), endpoint_rule("CNI-HOSTPORT-DNAT", 1)}).empty());
  auto range = service_rule("KUBE-SVC-A");
  range.match = IptablesRule::Destination::range;
  CHECK(served({range, endpoint_rule("KUBE-SVC-A", 1)}).empty());
}

TEST_CASE("REL-165: rules that may select a backend and are not understood are named") {
  const auto unread = [](const std::vector<IptablesRule>& nat, const std::vector<IptablesRule>& filter) {
    return iptables_rules(nat, filter, AF_INET).unread;
  };
  auto strange = service_rule("KUBE-SVC-A");
  strange.not_understood("match quota");
  CHECK(unread({strange}, {}) == Lines{"nat KUBE-SERVICES, default/web:http cluster IP: match quota"});
  CHECK(served({strange, endpoint_rule("KUBE-SVC-A", 1)}).empty());
  auto no_protocol = service_rule("KUBE-SVC-A");
  no_protocol.protocol = LB_ANY_PROTOCOL;
  CHECK(unread({no_protocol}, {}) == Lines{"nat KUBE-SERVICES, default/web:http cluster IP: no protocol"});
  auto no_port = service_rule("REJECT");
  no_port.ports.clear();
  CHECK(unread({}, {no_port}) == Lines{"filter KUBE-SERVICES, default/web:http cluster IP: no port"});
  CHECK(unread({service_rule("CNI-HOSTPORT-DNAT")}, {}) ==
        Lines{"nat KUBE-SERVICES, default/web:http cluster IP: target CNI-HOSTPORT-DNAT"});
  CHECK(unread({rule("KUBE-SVC-A", "RETURN")}, {}) == Lines{"nat KUBE-SVC-A: target RETURN"});
  CHECK(unread({rule("KUBE-SEP-A", "DNAT")}, {}) == Lines{"nat KUBE-SEP-A: target DNAT"});
  auto marks = rule("KUBE-SVC-A", "KUBE-MARK-MASQ");
  marks.not_understood("clients that are excluded");
  auto localhost = service_rule("KUBE-EXT-A");
  localhost.chain = "KUBE-NODEPORTS";
  localhost.match = IptablesRule::Destination::range;
  auto others = strange;
  others.chain = "CNI-SERVICES";
  CHECK(unread({marks, localhost, others, rule("KUBE-SERVICES", "KUBE-NODEPORTS")}, {}).empty());
}

TEST_CASE("REL-165: a rule for several ports is one for each") {
  auto several = service_rule("KUBE-SVC-A");
  several.ports = {80, 443};
  CHECK(lines_of(served({several, endpoint_rule("KUBE-SVC-A", 1)})) ==
        Lines{"default/web:http tcp 10.96.0.80:443 10.244.1.10:1",
              "default/web:http tcp 10.96.0.80:80 10.244.1.10:1"});
}

TEST_CASE("REL-165: a legacy table that ends within an entry is not understood") {
  const auto nat = recorded("iptables-legacy-ip-nat");
  const auto rules = rules_of_legacy(netlink::Bytes(nat).first(nat.size() / 2), {}, AF_INET);
  CHECK(rules.unread == Lines{"nat KUBE-SERVICES: an entry that is not as the kernel writes it"});
}

TEST_CASE("REL-84: of two rules for one frontend the first counts, as for packets") {
  const auto frontends = served({service_rule("KUBE-SVC-A"), service_rule("KUBE-SVC-B"),
                                 endpoint_rule("KUBE-SVC-A", 1), endpoint_rule("KUBE-SVC-B", 2)});
  REQUIRE(frontends.size() == 1);
  CHECK(text(frontends.begin()->second.outside) == "10.244.1.10:1");
}

TEST_CASE("REL-84: chains that jump in circles, or to no chain, serve no frontend") {
  CHECK(text(served({service_rule("KUBE-SVC-A"), rule("KUBE-SVC-A", "KUBE-SVC-B"),
                     rule("KUBE-SVC-B", "KUBE-SVC-A")})
                 .begin()
                 ->second.outside) == "reject");
  CHECK(text(served({service_rule("KUBE-SVC-GONE")}).begin()->second.outside) == "reject");
}

TEST_CASE("REL-84: a refusal without a chain, and one that some clients do not meet") {
  auto refusal = service_rule("DROP");
  CHECK(text(served({}, {refusal}).begin()->second.outside) == "drop");
  auto inside = rule("KUBE-EXT-A", "KUBE-SVC-A");
  inside.clients = RuleClients::inside;
  const auto frontends =
      served({service_rule("KUBE-EXT-A"), inside, endpoint_rule("KUBE-SVC-A", 1)}, {refusal});
  CHECK(text(frontends.begin()->second.outside) == "drop");
  CHECK(text(frontends.begin()->second.inside) == "10.244.1.10:1");
}

TEST_CASE("REL-84: a hundred thousand endpoints of one service") {
  std::vector<IptablesRule> nat = {service_rule("KUBE-SVC-A")};
  for (int number = 0; number < 100'000; ++number) {
    const auto chain = "KUBE-SEP-" + std::to_string(number);
    nat.push_back(rule("KUBE-SVC-A", chain));
    nat.push_back(endpoint_rule(chain, static_cast<std::uint16_t>(number)));
  }
  CHECK(served(nat).begin()->second.outside.endpoints.size() == 65'536);
}

TEST_CASE("REL-84: the service's name in a chain's") {
  CHECK(service_of_chain("service-7C6PEMDO-default/web/tcp/http") == "default/web:http");
  CHECK(service_of_chain("external-7C6PEMDO-default/web/udp/") == "default/web");
  CHECK(service_of_chain("external-7C6PEMDO-my-ns/my-web/udp/a-b") == "my-ns/my-web:a-b");
  for (const auto* other : {"", "-", "service-", "service-X-", "service-X-/", "service-X-a/b",
                            "service-7C6PEMDO-default/a-long-na..."}) {
    INFO(other);
    CHECK(service_of_chain(other).empty());
  }
}
