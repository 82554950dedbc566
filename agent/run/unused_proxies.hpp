// SPDX-License-Identifier: Apache-2.0
// HTTP proxies that the environment names, as kube-proxy would use them for the API server.
#pragma once

#include <functional>
#include <string>

#include "agent/options/config.hpp"

namespace lb::agent {

/// Returns a variable's value; nullptr if it is not set.
using Environment = std::function<const char*(const char* name)>;

/// What the agent does where HTTPS_PROXY or HTTP_PROXY is set; empty if neither is, or if no API server is
/// asked.
[[nodiscard]] std::string unused_proxies(const AgentOptions& options, const Environment& environment);

/// The environment of this process.
[[nodiscard]] const char* own_environment(const char* name);

}  // namespace lb::agent
