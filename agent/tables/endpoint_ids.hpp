// Backend ids found by what they mean: the endpoint and the service are read from lb_backends itself, where
// they do not change while an id is known here. So an entry costs a few bytes, however many there are.
#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "k8s/objects/model.hpp"
#include "maps/abi/abi.h"
#include "maps/mapped.hpp"

namespace lb::agent {

/// What an id means.
struct Endpoint {
  std::array<std::uint8_t, 16> address;
  std::uint32_t service;  ///< number
  std::uint16_t port;
  bool operator==(const Endpoint&) const = default;
};

[[nodiscard]] inline Endpoint endpoint_of(const lb_backend& backend) {
  Endpoint endpoint{.address = {}, .service = backend.service, .port = backend.port};
  std::memcpy(endpoint.address.data(), static_cast<const void*>(backend.address), sizeof(backend.address));
  return endpoint;
}

class EndpointHash {
 public:
  using is_transparent = void;
  using is_avalanching = void;
  explicit EndpointHash(const maps::MappedArray<lb_backend>& backends) : backends_(&backends) {}
  std::size_t operator()(const Endpoint& endpoint) const noexcept {
    const auto* bytes = endpoint.address.data();
    const std::uint64_t mixed = lb_mix(lb_mix(0, lb_word(bytes)), lb_word(bytes + 8));
    return lb_mix(mixed, std::uint64_t{endpoint.service} << 16U | endpoint.port);
  }
  std::size_t operator()(std::uint32_t id) const noexcept {
    return (*this)(endpoint_of(backends_->load(id)));
  }

 private:
  const maps::MappedArray<lb_backend>* backends_;
};

class EndpointEqual {
 public:
  using is_transparent = void;
  explicit EndpointEqual(const maps::MappedArray<lb_backend>& backends) : backends_(&backends) {}
  bool operator()(std::uint32_t left, std::uint32_t right) const noexcept {
    return left == right || (*this)(endpoint_of(backends_->load(left)), right);
  }
  bool operator()(const Endpoint& endpoint, std::uint32_t id) const noexcept {
    return endpoint_of(backends_->load(id)) == endpoint;
  }
  bool operator()(std::uint32_t id, const Endpoint& endpoint) const noexcept { return (*this)(endpoint, id); }

 private:
  const maps::MappedArray<lb_backend>* backends_;
};

/// From an id, or what it means, to something about it. One id for each meaning.
template <class Value>
class EndpointIds : public boost::unordered_flat_map<std::uint32_t, Value, EndpointHash, EndpointEqual> {
 public:
  explicit EndpointIds(const maps::MappedArray<lb_backend>& backends)
      : boost::unordered_flat_map<std::uint32_t, Value, EndpointHash, EndpointEqual>(
            0, EndpointHash(backends), EndpointEqual(backends)) {}
};

}  // namespace lb::agent
