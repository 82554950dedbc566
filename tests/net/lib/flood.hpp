// A SYN flood out of a network namespace, as fast as its device takes frames.
#pragma once

#include <cstdint>
#include <memory>

#include "tests/net/lib/pod_scene.hpp"

namespace lb::test {

/// SYNs from 10.128.0.0/9 or, to an IPv6 address, 2001:db8:f::/96, from eth0 of one host to eth0 of its next
/// hop.
class Flood {
 public:
  Flood(const Host& from, const Host& next, const End& target);
  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;
  ~Flood();

  /// Sends that many. Any thread; it stays in its namespace.
  void send(std::uint32_t count) const;
  /// Frames of any flood that have arrived at the next hop. A veth throws away what its other end does not
  /// take in time.
  [[nodiscard]] std::uint64_t arrived() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lb::test
