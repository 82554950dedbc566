// The options of `sluice check`.
#pragma once

#include <cstdint>

namespace lb::agent {

/// The machine, for an agent's start; or the rules of the kube-proxy that runs, for what an agent would
/// serve.
enum class CheckAgainst : std::uint8_t { machine, kube_proxy };

struct CheckOptions {
  CheckAgainst against = CheckAgainst::machine;
};

}  // namespace lb::agent
