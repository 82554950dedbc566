// SPDX-License-Identifier: Apache-2.0
// REL-180: HTTP proxies of the environment, which the agent does not use, are named.
#include "agent/run/unused_proxies.hpp"

#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <string>
#include <vector>

namespace lb::agent {
namespace {

using Variables = std::map<std::string, std::string>;

std::string warning_of(const AgentOptions& options, const Variables& set) {
  return unused_proxies(options, [&set](const char* name) {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  });
}

}  // namespace

TEST_CASE("REL-180: HTTPS_PROXY and HTTP_PROXY are named, because kube-proxy would use them") {
  struct Row {
    Variables set;
    std::string named;  ///< empty: no warning
  };
  const std::vector<Row> rows = {
      {{}, ""},
      {{{"HTTPS_PROXY", "http://proxy:3128"}}, "(HTTPS_PROXY)"},
      {{{"HTTPS_PROXY", ""}}, ""},
      {{{"https_proxy", "http://proxy:3128"}, {"HTTP_PROXY", "http://proxy:3128"}},
       "(https_proxy, HTTP_PROXY)"},
      {{{"NO_PROXY", "*"}}, ""},
  };
  for (const auto& [set, named] : rows) {
    INFO(named);
    const auto warning = warning_of({}, set);
    CHECK(warning.empty() == named.empty());
    CHECK(warning.find(named) != std::string::npos);
  }
  AgentOptions options;
  options.manifests = "/etc/sluice";
  CHECK(warning_of(options, rows[1].set).empty());
}

}  // namespace lb::agent
