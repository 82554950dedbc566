// SPDX-License-Identifier: Apache-2.0
// Which chains are kube-proxy's, and what is removed with them.
#include "agent/kube_proxy/chains.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

namespace lb::test {
namespace {

using namespace lb::agent;
using Names = std::vector<std::string>;

ChainTable nat(std::vector<ChainJump> jumps, Names others = {}) {
  ChainTable table;
  table.chains = {"PREROUTING",     "OUTPUT",           "POSTROUTING", "KUBE-SERVICES",
                  "KUBE-MARK-MASQ", "KUBE-POSTROUTING", "KUBE-SVC-A"};
  table.base = {"PREROUTING", "OUTPUT", "POSTROUTING"};
  table.chains.insert(table.chains.end(), others.begin(), others.end());
  table.jumps = {{"PREROUTING", 4, "KUBE-SERVICES"},
                 {"POSTROUTING", 5, "KUBE-POSTROUTING"},
                 {"KUBE-SERVICES", 6, "KUBE-SVC-A"},
                 {"KUBE-SVC-A", 7, "KUBE-MARK-MASQ"}};
  table.jumps.insert(table.jumps.end(), jumps.begin(), jumps.end());
  return table;
}

Names rules(const ChainRemoval& removal) {
  Names rules;
  for (const auto& jump : removal.jumps) {
    rules.push_back(jump.from + " " + std::to_string(jump.rule));
  }
  return rules;
}

TEST_CASE("SEM-75: kube-proxy's chains by their names, and no others") {
  for (const auto* name :
       {"KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-POSTROUTING", "KUBE-MARK-MASQ", "KUBE-FORWARD",
        "KUBE-EXTERNAL-SERVICES", "KUBE-PROXY-FIREWALL", "KUBE-PROXY-CANARY", "KUBE-SVC-NPX46M4PTMTKRN6Y",
        "KUBE-SVL-X", "KUBE-EXT-X", "KUBE-FW-X", "KUBE-SEP-X", "KUBE-XLB-X", "KUBE-NODE-PORT",
        "KUBE-LOAD-BALANCER", "KUBE-IPVS-FILTER"}) {
    INFO(name);
    CHECK(is_kube_proxy_chain(name));
  }
  for (const auto* name : {"KUBE-FIREWALL", "KUBE-KUBELET-CANARY", "KUBE-IPTABLES-HINT", "KUBE-MARK-DROP",
                           "KUBE-ROUTER-INPUT", "KUBE-POD-FW-X", "KUBE-NWPLCY-X", "KUBE-SERVICES-X",
                           "XKUBE-SVC-A", "KUBE-SVC", "PREROUTING", "cali-INPUT", "CNI-HOSTPORT-DNAT", ""}) {
    INFO(name);
    CHECK_FALSE(is_kube_proxy_chain(name));
  }
}

TEST_CASE("SEM-75: its chains go, with the rules of base chains that lead there") {
  const auto removal = plan_removal(nat({{"OUTPUT", 8, "CNI-OUT"}}, {"CNI-OUT"}));
  CHECK(removal.chains == Names{"KUBE-SERVICES", "KUBE-MARK-MASQ", "KUBE-POSTROUTING", "KUBE-SVC-A"});
  CHECK(rules(removal) == Names{"PREROUTING 4", "POSTROUTING 5"});
  CHECK(removal.kept.empty());
}

TEST_CASE("SEM-75: a chain that others lead to stays, with what it needs") {
  const auto marked =
      plan_removal(nat({{"CNI-HOSTPORT-SETMARK", 8, "KUBE-MARK-MASQ"}}, {"CNI-HOSTPORT-SETMARK"}));
  CHECK(marked.chains == Names{"KUBE-SERVICES", "KUBE-SVC-A"});
  CHECK(rules(marked) == Names{"PREROUTING 4"});
  CHECK(marked.kept == Names{"KUBE-MARK-MASQ", "KUBE-POSTROUTING"});
  const auto called = plan_removal(nat({{"MY-CHAIN", 8, "KUBE-SVC-A"}}, {"MY-CHAIN"}));
  CHECK(called.chains == Names{"KUBE-SERVICES"});
  CHECK(called.kept == Names{"KUBE-MARK-MASQ", "KUBE-POSTROUTING", "KUBE-SVC-A"});
}

TEST_CASE("SEM-75: an empty table has nothing to remove") {
  const auto removal = plan_removal({});
  CHECK(removal.chains.empty());
  CHECK(removal.jumps.empty());
  CHECK(removal.kept.empty());
}

}  // namespace
}  // namespace lb::test
