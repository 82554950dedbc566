// SPDX-License-Identifier: Apache-2.0
// This node's devices and addresses, as rtnetlink reports them. Pure: takes received bytes; gives requests to
// send and the known state. node_watch.hpp has the socket.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "agent/netlink/node_address.hpp"
#include "agent/options/config.hpp"
#include "k8s/objects/model.hpp"

struct nlmsghdr;

namespace lb::agent {

enum class DevicePower : std::uint8_t { down, up };

/// What a device is to a bond. The kernel drops what comes by a port that waits for another to fail.
enum class BondPort : std::uint8_t { none, waiting, active };

struct NetDevice {
  std::string name;
  DevicePower power = DevicePower::down;
  std::uint32_t mtu = 0;              ///< bytes
  std::array<std::uint8_t, 6> mac{};  ///< zero where the device has no Ethernet address
  std::uint32_t master = 0;           ///< interface index of the bridge (or the like) it belongs to; 0: none
  /// The nsid of the network namespace of the device's peer; nullopt if the peer is in this namespace or
  /// there is no peer.
  std::optional<std::int32_t> peer_netns = std::nullopt;
  std::uint16_t hardware = 1;  ///< ARPHRD_…: the link-layer header of its frames; 1: Ethernet
  BondPort bond_port = BondPort::none;
  std::string kind = {};  ///< kind of a virtual device, as in `ip -details link`: "veth", "bridge", "vxlan"
  bool operator==(const NetDevice&) const = default;
};

enum class AddressUse : std::uint8_t { preferred, other };

/// What the kernel says of a device's address.
struct AddressFacts {
  AddressUse use = AddressUse::other;
  k8s::Address broadcast;  ///< IFA_BROADCAST; all zero: none
  bool operator==(const AddressFacts&) const = default;
};

/// An address and the device that has it. A device may have an IPv4 address several times, with different
/// prefix lengths or peers, and keeps it until the last of these is deleted.
struct DeviceAddress {
  std::uint32_t device = 0;  ///< interface index
  k8s::Address address;
  std::uint8_t length = 0;  ///< of the prefix; 0 for IPv6
  k8s::Address peer;        ///< IFA_ADDRESS; all zero for IPv6
  auto operator<=>(const DeviceAddress&) const = default;
};

/// Source addresses for packets to other nodes; all zero if the node has none of that family.
struct Sources {
  k8s::Address ipv4;
  k8s::Address ipv6;
  bool operator==(const Sources&) const = default;
};

/// One next hop of a relevant route: a default route of the main table, or a host route without a gateway, as
/// CNIs add them for pods.
struct DeviceRoute {
  std::uint8_t family = 0;  ///< AF_INET or AF_INET6
  std::uint8_t length = 0;  ///< of the destination prefix
  std::uint32_t table = 0;
  std::uint32_t metric = 0;
  k8s::Address destination;
  std::uint32_t device = 0;  ///< interface index
  auto operator<=>(const DeviceRoute&) const = default;
};

/// A device with its addresses and routes, from which its role is derived.
struct LinkFacts {
  NetDevice device;
  std::vector<k8s::Address> addresses;
  std::vector<k8s::Address> hosts;  ///< destinations of host routes by this device, without a gateway
  bool default_route4 = false;
  bool default_route6 = false;
  bool operator==(const LinkFacts&) const = default;
};

class NodeNetwork {
 public:
  /// Every device, with its addresses and, if routes are followed, its routes.
  [[nodiscard]] std::map<std::uint32_t, LinkFacts> links() const;
  /// Whether the kernel has reported everything; false during a new dump.
  [[nodiscard]] bool whole() const noexcept { return whole_; }
  [[nodiscard]] const std::map<std::uint32_t, NetDevice>& devices() const noexcept { return devices_; }

  /// Every address of the node, once, and whether node ports are served on it (SEM-34, choice B). `primary`
  /// are the Node's own addresses, at most one of a family; they matter for NodePortScope::primary only.
  [[nodiscard]] std::vector<NodeAddress> addresses(const NodePortAddresses& asked,
                                                   const std::vector<k8s::Address>& primary) const;
  /// The broadcast addresses of the devices' IPv4 subnets, for which the kernel has routes of the type
  /// broadcast: the last address of each, and what IFA_BROADCAST names. Sorted; without 255.255.255.255.
  [[nodiscard]] std::vector<k8s::Address> broadcasts() const;
  /// For each family, the preferred address of the first of these devices that has one. Devices without
  /// Ethernet headers are not used.
  [[nodiscard]] Sources sources(const std::vector<std::string>& uplink) const;
  /// Counter that increases when a tc filter or qdisc is removed from any device, or a filter is added at one
  /// of our handles.
  [[nodiscard]] std::uint64_t filter_changes() const noexcept { return filter_changes_; }

 private:
  friend class RtnetlinkDump;

  std::map<std::uint32_t, NetDevice> devices_;
  std::map<DeviceAddress, AddressFacts> addresses_;
  std::set<DeviceRoute> routes_;
  std::uint64_t filter_changes_ = 0;
  bool whole_ = false;
};

/// Whether routes are dumped and followed; some nodes have thousands.
enum class Routes : std::uint8_t { ignored, followed };

/// The exchange with the kernel: two or three dumps, then notifications. Starts over after lost messages.
class RtnetlinkDump {
 public:
  explicit RtnetlinkDump(Routes routes = Routes::ignored) : follows_(routes) {}

  /// The caller's next step.
  enum class Next : std::uint8_t { wait, send, notify, notify_and_send };

  /// Starts over, at first and whenever the socket reports ENOBUFS; then send request().
  void begin();
  /// Takes one datagram from the kernel. Next::send: send request(). Next::notify: network() has changed and
  /// is whole. Next::notify_and_send: both, in any order; routes are listed again, and those known stay
  /// valid.
  [[nodiscard]] Next receive(std::span<const std::byte> datagram);

  [[nodiscard]] std::vector<std::byte> request() const;
  [[nodiscard]] const NodeNetwork& network() const noexcept { return network_; }

 private:
  enum class DumpPhase : std::uint8_t { devices, addresses, routes, following };
  /// stale: the kernel may have deleted or revived routes without a notification.
  enum class Effect : std::uint8_t { none, changed, stale, finished, broken };

  [[nodiscard]] Effect take(const nlmsghdr& head, std::span<const std::byte> body);
  [[nodiscard]] Effect take_device(std::uint16_t type, std::span<const std::byte> body);
  [[nodiscard]] Effect take_address(std::uint16_t type, std::span<const std::byte> body);
  [[nodiscard]] Effect take_route(std::uint16_t type, std::uint16_t flags, std::span<const std::byte> body);
  [[nodiscard]] Next finish_list();
  [[nodiscard]] Next list_routes();
  [[nodiscard]] Effect drop_routes(std::uint32_t device);
  [[nodiscard]] Effect revive_routes(std::uint32_t device);

  NodeNetwork network_;
  std::set<DeviceRoute> listed_;         ///< routes listed so far by the dump under way
  std::set<std::uint32_t> lost_routes_;  ///< devices whose routes were dropped when they went down
  Routes follows_ = Routes::ignored;
  DumpPhase phase_ = DumpPhase::devices;
  bool list_again_ = false;  ///< routes must be listed again after the dump under way
  std::uint32_t sequence_ = 0;
};

}  // namespace lb::agent
