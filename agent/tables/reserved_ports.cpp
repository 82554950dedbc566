// SPDX-License-Identifier: Apache-2.0
// Computes the union of all reservations; stores a word only if it differs.
#include "agent/tables/reserved_ports.hpp"

namespace lb::agent {

void ReservedPorts::set_kernel(const Bits& bits) {
  kernel_ = bits;
  kernel_is_known_ = true;
  for (std::uint32_t word = 0; word < LB_RESERVED_WORDS; ++word) {
    write(word);
  }
}

void ReservedPorts::count_node_port(std::uint16_t port, int change) {
  const std::uint32_t word = port / 64;
  const auto bit = std::uint64_t{1} << port % 64;
  int& frontends = frontends_[port];
  frontends += change;
  if (frontends > 0) {
    node_ports_.at(word) |= bit;
  } else {
    node_ports_.at(word) &= ~bit;
    frontends_.erase(port);
  }
  write(word);
}

void ReservedPorts::write(std::uint32_t word) {
  const auto there = reserved_.load(word);
  const auto wanted = (kernel_is_known_ ? kernel_.at(word) : there) | node_ports_.at(word);
  if (wanted != there) {
    reserved_.publish_change<0>(word, wanted);
  }
}

}  // namespace lb::agent
