// SPDX-License-Identifier: Apache-2.0
// Address blocks that contain endpoints: a fast filter for addresses that are no endpoint's, which are nearly
// all. Pure.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "k8s/objects/model.hpp"

namespace lb::agent {

/// Counts endpoints by block, a /24 or a /64: a few entries a node, where an index of all addresses would
/// cost more than the endpoints themselves.
class AddressBlocks {
 public:
  void add(const k8s::Address& address) { ++blocks_[block(address)]; }

  /// Removes an address that was added before.
  void remove(const k8s::Address& address) {
    const auto found = blocks_.find(block(address));
    if (--found->second == 0) {
      blocks_.erase(found);
    }
  }

  [[nodiscard]] bool may_have(const k8s::Address& address) const { return blocks_.contains(block(address)); }

 private:
  static std::uint64_t block(const k8s::Address& address) {
    const bool ipv4 = address.family() == k8s::Family::ipv4;
    std::uint64_t number = 0;
    for (std::size_t byte = ipv4 ? 12 : 0; byte < (ipv4 ? 15 : 8); ++byte) {
      number = number << 8U | address.bytes.at(byte);
    }
    return number;
  }

  std::unordered_map<std::uint64_t, std::uint32_t> blocks_;
};

}  // namespace lb::agent
