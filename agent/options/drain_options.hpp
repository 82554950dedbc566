// SPDX-License-Identifier: Apache-2.0
// The options of `sluice drain`.
#pragma once

#include <cstdint>
#include <string>

namespace lb::agent {

/// `cancel`: the node accepts new flows again.
enum class DrainMode : std::uint8_t { drain, cancel };
/// Whether to drain even if kube-proxy does not serve everything that is served here.
enum class Successor : std::uint8_t { required, any };

struct DrainOptions {
  std::string pins;
  DrainMode mode = DrainMode::drain;
  Successor successor = Successor::required;
  std::uint32_t timeout_seconds = 300;  ///< for flows that cannot be handed over
};

}  // namespace lb::agent
