// This node's devices and addresses, as rtnetlink tells them. Pure: bytes in, what to send and what is known
// out; the socket is node_watch.hpp's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
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

struct NetDevice {
  std::string name;
  DevicePower power = DevicePower::down;
  std::uint32_t mtu = 0;              ///< bytes
  std::array<std::uint8_t, 6> mac{};  ///< zero where the device has no Ethernet address
  std::uint32_t master = 0;           ///< interface index of the bridge (or the like) it belongs to; 0: none
  /// The kernel's number of the network namespace that its other end is in; nothing: this one, or no such
  /// end.
  std::optional<std::int32_t> peer_netns = std::nullopt;
  std::uint16_t hardware = 1;  ///< ARPHRD_…: the header that its frames begin with; 1: Ethernet's
  bool operator==(const NetDevice&) const = default;
};

enum class AddressUse : std::uint8_t { preferred, other };

/// Where an address is, beside the address.
struct DeviceAddress {
  std::uint32_t device = 0;  ///< interface index
  k8s::Address address;
  auto operator<=>(const DeviceAddress&) const = default;
};

/// Source addresses towards other nodes; all zero where there is none of that family.
struct Sources {
  k8s::Address ipv4;
  k8s::Address ipv6;
  bool operator==(const Sources&) const = default;
};

class NodeNetwork {
 public:
  [[nodiscard]] const std::map<std::uint32_t, NetDevice>& devices() const noexcept { return devices_; }

  /// Every address of the node, once, and whether node ports are served on it (SEM-34, choice B). `primary`
  /// are the Node's own, at most one of a family; it matters for NodePortScope::primary only.
  [[nodiscard]] std::vector<NodeAddress> addresses(const NodePortAddresses& asked,
                                                   const std::vector<k8s::Address>& primary) const;
  /// Of the first of these devices that has one, for each family. One without Ethernet headers is not served.
  [[nodiscard]] Sources sources(const std::vector<std::string>& uplink) const;
  /// Rises whenever somebody removes a tc filter or qdisc from some device, or puts a filter at a handle of
  /// ours.
  [[nodiscard]] std::uint64_t filter_changes() const noexcept { return filter_changes_; }

 private:
  friend class RtnetlinkDump;

  std::map<std::uint32_t, NetDevice> devices_;
  std::map<DeviceAddress, AddressUse> addresses_;
  std::uint64_t filter_changes_ = 0;
};

/// The conversation with the kernel: two lists, then changes. Knows what was lost and asks again.
class RtnetlinkDump {
 public:
  /// What the caller shall do now.
  enum class Next : std::uint8_t { wait, send, tell };

  /// Starts over, as at first and whenever the socket reports ENOBUFS; then send request().
  void begin();
  /// What the kernel sent in one datagram. Next::send: send request(). Next::tell: network() has changed and
  /// is whole.
  [[nodiscard]] Next receive(std::span<const std::byte> datagram);

  [[nodiscard]] std::vector<std::byte> request() const;
  [[nodiscard]] const NodeNetwork& network() const noexcept { return network_; }

 private:
  enum class Phase : std::uint8_t { devices, addresses, following };
  enum class Effect : std::uint8_t { none, changed, finished, broken };

  [[nodiscard]] Effect take(const nlmsghdr& head, std::span<const std::byte> body);
  [[nodiscard]] Effect take_device(std::uint16_t type, std::span<const std::byte> body);
  [[nodiscard]] Effect take_address(std::uint16_t type, std::span<const std::byte> body);
  [[nodiscard]] Next finish_list();

  NodeNetwork network_;
  Phase phase_ = Phase::devices;
  std::uint32_t sequence_ = 0;
};

}  // namespace lb::agent
