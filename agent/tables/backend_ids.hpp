// SPDX-License-Identifier: Apache-2.0
// Finds backend ids by address, port and service. The keys are read from lb_backends itself, where they do
// not change while an id is in this map, so an entry costs only a few bytes.
#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "k8s/objects/model.hpp"
#include "maps/abi/abi.h"
#include "maps/abi/checks.h"
#include "maps/mapped.hpp"

namespace lb::agent {

/// The identity of a backend id, constant while the id is in use.
struct BackendKey {
  std::array<std::uint8_t, 16> address;
  std::uint32_t service;  ///< service number
  std::uint16_t port;
  bool operator==(const BackendKey&) const = default;
};

[[nodiscard]] inline BackendKey backend_key_of(const lb_backend& backend) {
  BackendKey key{.address = {}, .service = backend.service, .port = backend.port};
  std::memcpy(key.address.data(), static_cast<const void*>(backend.address), sizeof(backend.address));
  return key;
}

class BackendKeyHash {
 public:
  using is_transparent = void;
  using is_avalanching = void;
  explicit BackendKeyHash(const maps::MappedArray<lb_backend>& backends) : backends_(&backends) {}
  std::size_t operator()(const BackendKey& key) const noexcept {
    const auto* bytes = key.address.data();
    const std::uint64_t mixed = lb_mix(lb_mix(0, lb_word(bytes)), lb_word(bytes + 8));
    return lb_mix(mixed, std::uint64_t{key.service} << 16U | key.port);
  }
  std::size_t operator()(std::uint32_t id) const noexcept {
    return (*this)(backend_key_of(backends_->load(id)));
  }

 private:
  const maps::MappedArray<lb_backend>* backends_;
};

class BackendKeyEqual {
 public:
  using is_transparent = void;
  explicit BackendKeyEqual(const maps::MappedArray<lb_backend>& backends) : backends_(&backends) {}
  bool operator()(std::uint32_t left, std::uint32_t right) const noexcept {
    return left == right || (*this)(backend_key_of(backends_->load(left)), right);
  }
  bool operator()(const BackendKey& key, std::uint32_t id) const noexcept {
    return backend_key_of(backends_->load(id)) == key;
  }
  bool operator()(std::uint32_t id, const BackendKey& key) const noexcept { return (*this)(key, id); }

 private:
  const maps::MappedArray<lb_backend>* backends_;
};

/// A map from a backend id, or its key, to a value. Each key has one id.
template <class Value>
class BackendIdMap : public boost::unordered_flat_map<std::uint32_t, Value, BackendKeyHash, BackendKeyEqual> {
 public:
  explicit BackendIdMap(const maps::MappedArray<lb_backend>& backends)
      : boost::unordered_flat_map<std::uint32_t, Value, BackendKeyHash, BackendKeyEqual>(
            0, BackendKeyHash(backends), BackendKeyEqual(backends)) {}
};

}  // namespace lb::agent
