// SPDX-License-Identifier: Apache-2.0
// Drivers that take an XDP program and run it for no frame (SEM-80).
#include "agent/attach/skipped_xdp.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>

namespace lb::agent {

TEST_CASE("SEM-80 a virtio-net device that receives into pages skips XDP") {
  std::string features(64, '0');
  CHECK_FALSE(virtio_skips_xdp(features));
  features.at(virtio::guest_tso4) = '1';
  CHECK(virtio_skips_xdp(features));
  features.at(virtio::mrg_rxbuf) = '1';
  CHECK_FALSE(virtio_skips_xdp(features));
  CHECK_FALSE(virtio_skips_xdp(""));
}

TEST_CASE("SEM-80 nothing is said of a device of another kind") {
  CHECK(skipped_xdp("lo").empty());
  CHECK(skipped_xdp("nothing-here").empty());
}

}  // namespace lb::agent
