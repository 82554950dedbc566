// SPDX-License-Identifier: Apache-2.0
// A SYN flood out of a network namespace, at the full rate of its device.
#pragma once

#include <cstdint>
#include <memory>

#include "tests/net/lib/pod_scene.hpp"

namespace lb::test {

/// Sends SYNs from 10.128.0.0/9 or, to an IPv6 address, from 2001:db8:f::/96, out of eth0 of one host to eth0
/// of its next hop.
class Flood {
 public:
  Flood(const Host& from, const Host& next, const End& target);
  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;
  ~Flood();

  /// Sends `count` SYNs. May be called from any thread; the thread stays in its namespace.
  void send(std::uint32_t count) const;
  /// The number of frames of any flood that have arrived at the next hop. A veth drops frames that its peer
  /// does not receive in time.
  [[nodiscard]] std::uint64_t arrived() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lb::test
