// SPDX-License-Identifier: Apache-2.0
// The options of `sluice check`.
#pragma once

#include <cstdint>

namespace lb::agent {

/// machine: check the machine for an agent's start; kube_proxy: compare the running kube-proxy's rules with
/// what an agent would serve.
enum class CheckAgainst : std::uint8_t { machine, kube_proxy };

struct CheckOptions {
  CheckAgainst against = CheckAgainst::machine;
};

}  // namespace lb::agent
