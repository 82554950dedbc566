// The devices of default routes, from what the kernel's files say.
#include "agent/netlink/default_devices.hpp"

#include <catch2/catch_test_macros.hpp>

namespace {

using lb::agent::default_route_devices;

constexpr const char* ipv4 =
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
    "eth1\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
    "*\t00000000\t00000000\t0200\t0\t0\t4278198272\t00000000\t0\t0\t0\n"
    "eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
    "eth1\t00000000\t0200000A\t0003\t0\t0\t200\t00000000\t0\t0\t0\n";
constexpr const char* ipv6 =
    "fd000010000000000000000000000000 40 00000000000000000000000000000000 00 "
    "00000000000000000000000000000000 00000100 "
    "00000001 00000000 00000001     eth0\n"
    "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
    "fd000010000000000000000000000001 00000400 "
    "00000001 00000000 00000003     eth2\n"
    "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
    "00000000000000000000000000000000 ffffffff "
    "00000001 00000000 00200200       lo\n";

TEST_CASE("the devices of default routes, each once") {
  CHECK(default_route_devices(ipv4, ipv6) == "eth1,eth2");
  CHECK(default_route_devices(ipv4, "") == "eth1");
  CHECK(default_route_devices("", "").empty());
}

}  // namespace
