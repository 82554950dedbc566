// SPDX-License-Identifier: Apache-2.0
// Two ioctls for each device, which need no privileges.
#include "agent/attach/device_kind.hpp"

#include <fmt/format.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "maps/map.hpp"

namespace lb::agent {
namespace {

/// Drivers that pass frames with unfinished transport checksums (CHECKSUM_PARTIAL) to XDP, because the sender
/// is on the same machine: the peer of a veth, the process behind a tap (vhost, a VPN), another domain of the
/// same Xen host (xen-netfront calls itself vif). virtio_net is not one of them: while it has a program, its
/// host finishes checksums.
constexpr std::array<std::string_view, 3> unfinished_checksums = {"veth", "tun", "vif"};

struct DriverAdvice {
  std::string_view driver;
  std::string_view advice;
};

/// The most frequent reasons why a driver refuses native XDP. The error has only a number; the driver's
/// message is in the kernel's log.
constexpr std::array<DriverAdvice, 8> refusals = {{
    {"bnxt_en", "combine its channels by 'ethtool -L'"},
    {"ena", "use at most half of its channels ('ethtool -L') and an MTU of at most 3498"},
    {"gve", "use at most half of its queues ('ethtool -L') and switch LRO off ('ethtool -K')"},
    {"ixgbe", "switch LRO off ('ethtool -K'), SR-IOV and DCB too, or choose a smaller MTU"},
    {"i40e", "choose a smaller MTU"},
    {"mlx5_core", "switch LRO and hardware GRO off ('ethtool -K')"},
    {"veth", "create both of its ends with as many queues"},
    {"virtio_net",
     "let its host leave offloads to the guest (QEMU: ctrl_guest_offloads=on); before Linux 6.3 its MTU may "
     "be 4064 at most"},
}};

ifreq request_for(const std::string& name) {
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  return request;
}

std::string kind_text(const DeviceKind& kind) {
  return kind.driver.empty() ? fmt::format("hardware type {}", kind.hardware) : kind.driver;
}

}  // namespace

/// A virtual device's driver is its kind, as `ip -details link` shows it.
DriverInfo driver_info(const std::string& device) {
  const maps::Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ethtool_drvinfo info{};
  info.cmd = ETHTOOL_GDRVINFO;
  auto request = request_for(device);
  request.ifr_data = reinterpret_cast<char*>(&info);
  if (::ioctl(socket.get(), SIOCETHTOOL, &request) != 0) {
    return {};
  }
  return {info.driver, info.bus_info};
}

std::optional<DeviceKind> device_kind(const std::string& name) {
  const maps::Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  auto request = request_for(name);
  if (::ioctl(socket.get(), SIOCGIFHWADDR, &request) != 0) {
    return std::nullopt;
  }
  DeviceKind kind{request.ifr_hwaddr.sa_family, driver_info(name).name};
  if (kind.hardware == ARPHRD_ETHER) {
    std::memcpy(kind.mac.data(), request.ifr_hwaddr.sa_data, kind.mac.size());
  }
  return kind;
}

std::string unsupported_reason(const DeviceKind& kind) {
  if (kind.hardware == ARPHRD_ETHER) {
    return {};
  }
  if (kind.hardware == ARPHRD_LOOPBACK) {
    return "packet hooks do not serve loopback: socket hooks serve this node's processes";
  }
  return fmt::format(
      "no Ethernet headers ({}), not served: node ports do not answer there; backends behind it are reached "
      "through the stack, client's address kept",
      kind_text(kind));
}

std::string native_xdp_advice(const DeviceKind& kind) {
  const auto* const known = std::ranges::find(refusals, kind.driver, &DriverAdvice::driver);
  return known == refusals.end() ? std::string() : std::string(known->advice);
}

std::string automatic_xdp_refusal(const DeviceKind& kind) {
  return std::ranges::find(unfinished_checksums, kind.driver) == unfinished_checksums.end()
             ? std::string()
             : fmt::format(
                   "frames may carry unfinished checksums ({}): tc serves alone, --xdp native forces XDP",
                   kind.driver);
}

}  // namespace lb::agent
