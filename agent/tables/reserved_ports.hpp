// SPDX-License-Identifier: Apache-2.0
// lb_reserved: the ports that source NAT must not use.
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

  /// `reserved` must outlive this. Until set_kernel() its bits stay set.
  explicit ReservedPorts(maps::MappedArray<std::uint64_t>& reserved) : reserved_(reserved) {}

  /// Sets the ports that the kernel and its operator reserve, from reserved_bits().
  void set_kernel(const Bits& bits);
  /// Adds `change` (which may be negative) to the number of frontends at that node port. A node port of any
  /// protocol or family is reserved for all of them.
  void count_node_port(std::uint16_t port, int change);

 private:
  void write(std::uint32_t word);

  maps::MappedArray<std::uint64_t>& reserved_;
  Bits kernel_{};
  bool kernel_is_known_ = false;
  Bits node_ports_{};
  boost::unordered_flat_map<std::uint16_t, int> frontends_;  ///< number of frontends by node port
};

}  // namespace lb::agent
