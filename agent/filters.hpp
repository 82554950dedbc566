// The tc filters of a device, whoever put them there, as the kernel lists them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lb::agent {

enum class TcSide : std::uint8_t { ingress, egress };

struct TcFilter {
  std::uint32_t priority = 0;
  std::uint32_t handle = 0;
  std::uint32_t program = 0;  ///< id of a BPF filter's program; 0: of another kind
  std::string name;           ///< as its owner called it, else its kind
};

/// Of one side of a device's clsact qdisc, in the order in which they run. Empty where there is none, or
/// where the kernel does not say.
[[nodiscard]] std::vector<TcFilter> filters_of(int device, TcSide side);

}  // namespace lb::agent
