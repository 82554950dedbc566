// SPDX-License-Identifier: Apache-2.0
// `sluice cleanup`: removes leftovers of Sluice or kube-proxy from this node.
#pragma once

#include "agent/options/config.hpp"

namespace lb::agent {

/// Prints what was or would be removed, and failures; returns the exit code. Throws StartError while an agent
/// runs.
[[nodiscard]] int run_cleanup(const CleanupOptions& options);

}  // namespace lb::agent
