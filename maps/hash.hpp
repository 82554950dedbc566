// SPDX-License-Identifier: Apache-2.0
// Hashes of the agent's containers. Nothing that the agent does may depend on the order of a hash container:
// tests shuffle that order with the seed.
#pragma once

#include <boost/functional/hash.hpp>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace lb::maps {

/// Part of every hash below. Only tests set it, while no container exists.
inline std::size_t& hash_seed() noexcept {
  static std::size_t seed = 0;
  return seed;
}

/// For std::unordered_map.
struct HashText {
  std::size_t operator()(std::string_view text) const noexcept {
    std::size_t hash = hash_seed();
    boost::hash_combine(hash, text);
    return hash;
  }
};

/// Keys have no padding holes, so they are compared by their bytes.
struct HashBytes {
  template <class Key>
  std::size_t operator()(const Key& key) const noexcept {
    return HashText()({reinterpret_cast<const char*>(&key), sizeof(key)});
  }
};
struct EqualBytes {
  template <class Key>
  bool operator()(const Key& left, const Key& right) const noexcept {
    return std::memcmp(&left, &right, sizeof(left)) == 0;
  }
};

}  // namespace lb::maps
