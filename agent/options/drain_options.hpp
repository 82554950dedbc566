// The options of `sluice drain`.
#pragma once

#include <cstdint>
#include <string>

namespace lb::agent {

/// `cancel`: the node takes new flows again.
enum class DrainMode : std::uint8_t { drain, cancel };
/// Whether new flows may go unserved: where kube-proxy serves nothing, or not all that is served here.
enum class Successor : std::uint8_t { required, any };

struct DrainOptions {
  std::string pins;
  DrainMode mode = DrainMode::drain;
  Successor successor = Successor::required;
  std::uint32_t deadline = 300;  ///< seconds for flows that cannot be handed over
};

}  // namespace lb::agent
