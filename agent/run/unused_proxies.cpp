// SPDX-License-Identifier: Apache-2.0
// Go's HTTP client, and so kube-proxy, reads both spellings.
#include "agent/run/unused_proxies.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <vector>

namespace lb::agent {

std::string unused_proxies(const AgentOptions& options, const Environment& environment) {
  if (!options.manifests.empty()) {
    return {};
  }
  std::vector<const char*> set;
  for (const char* name : {"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"}) {
    const auto* value = environment(name);
    if (value != nullptr && *value != '\0') {
      set.push_back(name);
    }
  }
  if (set.empty()) {
    return {};
  }
  return fmt::format("the agent uses no HTTP proxy ({}): it connects to the API servers directly",
                     fmt::join(set, ", "));
}

// Read before any other thread exists.
const char* own_environment(const char* name) {
  return std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace lb::agent
