// `sluice cleanup`: removes what Sluice or kube-proxy left on this node.
#pragma once

#include "agent/options/config.hpp"

namespace lb::agent {

/// Prints what went, or would go, and what could not; the exit code. Throws StartError while an agent runs.
[[nodiscard]] int run_cleanup(const CleanupOptions& options);

}  // namespace lb::agent
