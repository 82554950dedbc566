// SPDX-License-Identifier: Apache-2.0
// kube-proxy's rules are detected in every mode in which it writes them, and no longer reported after they
// are removed (choice A).

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "agent/kube_proxy/presence.hpp"
#include "tests/net/lib/lab.hpp"

namespace lb::test {

TEST_CASE("kube-proxy's rules are seen") {
  const Lab lab;
  agent::KubeProxyRules rules;
  const auto seen = [&](const std::string& begin, const std::string& end) {
    CHECK(rules.detect().empty());
    shell(begin);
    const auto found = rules.detect();
    CHECK(rules.detect() == found);
    shell(end);
    CHECK(rules.detect().empty());
    return found;
  };
  for (const std::string family : {"ip", "ip6"}) {
    INFO(family);
    CHECK(seen("nft add table " + family + " kube-proxy", "nft delete table " + family + " kube-proxy") ==
          "nftables");
    for (const std::string kind : {"-nft", "-legacy"}) {
      INFO(kind);
      const auto tool = family + "tables" + kind + " -t nat ";
      shell(tool + "-N OTHERS");
      CHECK(seen(tool + "-N KUBE-SERVICES && " + tool + "-A KUBE-SERVICES -j RETURN",
                 tool + "-F KUBE-SERVICES && " + tool + "-X KUBE-SERVICES") ==
            (kind == "-nft" ? "iptables" : "iptables-legacy"));
    }
  }
}

}  // namespace lb::test
