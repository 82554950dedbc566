// SPDX-License-Identifier: Apache-2.0
// Counts the ready endpoints of one service on this node, as its slices are added and removed. Pure.
#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "agent/plan/address_hash.hpp"
#include "agent/plan/endpoints.hpp"

namespace lb::agent {

/// An address in two slices counts once (SEM-30). Adding a slice costs its number of endpoints.
class LocalReady {
 public:
  explicit LocalReady(std::string node) : node_(std::move(node)) {}

  void add(const CompactSlice& slice) {
    auto& slices = of(slice.family());
    slice.for_each_local_ready(node_, [&](const k8s::Address& address) { ++slices[address]; });
  }

  /// Removes a slice that was added before.
  void remove(const CompactSlice& slice) {
    auto& slices = of(slice.family());
    slice.for_each_local_ready(node_, [&](const k8s::Address& address) {
      const auto found = slices.find(address);
      if (--found->second == 0) {
        slices.erase(found);
      }
    });
  }

  [[nodiscard]] std::size_t count(k8s::Family family) const { return by_family_.at(index(family)).size(); }

 private:
  using Slices = boost::unordered_flat_map<k8s::Address, std::uint32_t, AddressHash>;  ///< number of slices
  static std::size_t index(k8s::Family family) { return family == k8s::Family::ipv4 ? 0 : 1; }
  Slices& of(k8s::Family family) { return by_family_.at(index(family)); }

  std::string node_;
  std::array<Slices, 2> by_family_;
};

}  // namespace lb::agent
