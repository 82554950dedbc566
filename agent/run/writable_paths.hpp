// SPDX-License-Identifier: Apache-2.0
// Files that decide what this node serves, and that every user of the node may write.
#pragma once

#include <string>
#include <vector>

#include "agent/options/config.hpp"

namespace lb::agent {

/// One message for each option whose file or directory, or a file or the directory around it, is
/// world-writable: the manifests, the state, the cluster's secret, the configuration and the kubeconfig.
[[nodiscard]] std::vector<std::string> writable_by_all(const AgentOptions& options);

}  // namespace lb::agent
