// Which ports source NAT must not use, by address and protocol: lb_reserved.
#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>

#include "maps/abi/abi.h"
#include "maps/mapset.hpp"

namespace lb::agent {

class ReservedPorts {
 public:
  using Bits = std::array<std::uint64_t, LB_RESERVED_WORDS>;

  /// `reserved` must outlive this. Until set_kernel() what it holds already stays.
  explicit ReservedPorts(maps::MappedArray<std::uint64_t>& reserved) : reserved_(reserved) {}

  /// All that the kernel and its operator keep, as reserved_bits() has them.
  void set_kernel(const Bits& bits);
  /// `change` more frontends, or less, are at that node port. A port is kept for TCP, UDP and SCTP of both
  /// families if it is a node port of one.
  void count_node_port(std::uint16_t port, int change);

 private:
  void write(std::uint32_t word);

  maps::MappedArray<std::uint64_t>& reserved_;
  Bits kernel_{};
  bool kernel_is_known_ = false;
  Bits node_ports_{};
  boost::unordered_flat_map<std::uint16_t, int> frontends_;  ///< by node port
};

}  // namespace lb::agent
