// SPDX-License-Identifier: Apache-2.0
// Which devices are served, and on which of them XDP runs by default (REL-94).
#include "agent/attach/device_kind.hpp"

#include <net/if_arp.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

namespace lb::agent {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("devices with Ethernet headers are served, virtual ones too") {
  for (const auto* driver :
       {"ixgbe", "virtio_net", "bonding", "802.1Q VLAN Support", "vxlan", "geneve", "veth", ""}) {
    INFO(driver);
    CHECK(unsupported_reason({ARPHRD_ETHER, driver}).empty());
  }
}

TEST_CASE("devices without Ethernet headers are refused by their kind") {
  struct Case {
    std::uint16_t hardware;
    const char* driver;
    const char* words;
  };
  constexpr Case cases[] = {
      {ARPHRD_NONE, "wireguard", "no Ethernet headers (wireguard)"},
      {ARPHRD_NONE, "tun", "no Ethernet headers (tun)"},
      {ARPHRD_TUNNEL, "ipip", "no Ethernet headers (ipip)"},
      {ARPHRD_TUNNEL6, "ip6tnl", "no Ethernet headers (ip6tnl)"},
      {ARPHRD_SIT, "sit", "no Ethernet headers (sit)"},
      {ARPHRD_IPGRE, "gre", "no Ethernet headers (gre)"},
      {ARPHRD_PPP, "", "no Ethernet headers (hardware type 512)"},
      {ARPHRD_INFINIBAND, "ib_ipoib", "no Ethernet headers (ib_ipoib)"},
  };
  for (const auto& [hardware, driver, words] : cases) {
    INFO(words);
    CHECK_THAT(unsupported_reason({hardware, driver}), ContainsSubstring(words));
    CHECK_THAT(unsupported_reason({hardware, driver}), ContainsSubstring("node ports do not answer there"));
  }
  CHECK_THAT(unsupported_reason({ARPHRD_LOOPBACK, ""}), ContainsSubstring("loopback"));
}

TEST_CASE("XDP is automatic only where frames come with finished checksums") {
  for (const auto* driver : {"ixgbe", "mlx5_core", "virtio_net", "bonding", ""}) {
    INFO(driver);
    CHECK(automatic_xdp_refusal({ARPHRD_ETHER, driver}).empty());
  }
  for (const auto* driver : {"veth", "tun", "vif"}) {
    CHECK_THAT(automatic_xdp_refusal({ARPHRD_ETHER, driver}),
               ContainsSubstring("unfinished checksums (" + std::string(driver) + ")"));
  }
}

TEST_CASE("a driver that refuses native XDP comes with what to do, where we know it") {
  CHECK_THAT(native_xdp_advice({ARPHRD_ETHER, "virtio_net"}), ContainsSubstring("ctrl_guest_offloads"));
  CHECK_THAT(native_xdp_advice({ARPHRD_ETHER, "mlx5_core"}), ContainsSubstring("LRO"));
  CHECK(native_xdp_advice({ARPHRD_ETHER, "nobody's"}).empty());
}

TEST_CASE("the kernel says what kind of device one is") {
  const auto loopback = device_kind("lo");
  REQUIRE(loopback);
  CHECK(loopback->hardware == ARPHRD_LOOPBACK);
  CHECK_FALSE(device_kind("there-is-none"));
}

}  // namespace lb::agent
