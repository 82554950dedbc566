// All tc filters of a device, ours and others', as the kernel lists them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lb::agent {

enum class TcSide : std::uint8_t { ingress, egress };

/// Filters of ours have one of these handles: the first, or, where others have taken those before, a later
/// one.
inline constexpr std::uint32_t first_handle = 0x6c62;  // "lb"
inline constexpr std::uint32_t last_handle = 0x6c69;

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
