// SPDX-License-Identifier: Apache-2.0
// `sluice drain`: returns this node's services to kube-proxy without ending any connection (REL-84).
#pragma once

#include "agent/options/drain_options.hpp"

namespace lb::agent {

/// Prints its progress, and waits until no flow needs Sluice or the deadline passes; returns the exit code.
/// Throws StartError if nothing can be drained.
[[nodiscard]] int run_drain(const DrainOptions& options);

}  // namespace lb::agent
