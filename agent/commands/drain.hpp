// `sluice drain`: returns this node's services to kube-proxy without ending any connection (REL-84).
#pragma once

#include "agent/options/drain_options.hpp"

namespace lb::agent {

/// Says what it does, and waits until no flow needs us or the deadline passes; the exit code. Throws
/// StartError where nothing can be drained.
[[nodiscard]] int run_drain(const DrainOptions& options);

}  // namespace lb::agent
