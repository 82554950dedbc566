// SPDX-License-Identifier: Apache-2.0
// Connections that the kernel tracks: lists, deletes and creates them by ctnetlink. Only zone 0, which
// service proxies use.
#pragma once

#include <boost/system/error_code.hpp>
#include <boost/system/result.hpp>
#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "agent/netlink/netlink.hpp"
#include "k8s/objects/model.hpp"
#include "maps/abi/abi.h"
#include "maps/map.hpp"

namespace lb::agent {

/// The tuple of one direction, as its packets arrive; ports in host byte order.
struct TrackedTuple {
  k8s::Address source;
  k8s::Address destination;
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  lb_protocol protocol = LB_ANY_PROTOCOL;
  auto operator<=>(const TrackedTuple&) const = default;
};

/// AF_INET or AF_INET6.
[[nodiscard]] int family_of(const TrackedTuple& tuple);
/// The tuple of the reply direction of an untranslated connection.
[[nodiscard]] TrackedTuple reversed(const TrackedTuple& tuple);

struct Tracked {
  TrackedTuple original;
  TrackedTuple reply;  ///< source: the backend; destination: the client, or the address of its source NAT
  std::uint32_t status = 0;  ///< IPS_… of linux/netfilter/nf_conntrack_common.h
  std::uint32_t mark = 0;
  bool operator==(const Tracked&) const = default;

  [[nodiscard]] bool has_other_destination() const {
    return reply.source != original.destination || reply.source_port != original.destination_port;
  }
};

/// Parses one ctnetlink message. nullopt for a protocol other than TCP and UDP, another zone, and truncated
/// messages.
[[nodiscard]] std::optional<Tracked> read_tracked(netlink::Bytes body);

/// The message that makes the kernel track `flow` as an assured connection, translated as its two tuples say,
/// with a timeout of `seconds`. A TCP connection is created established, without window checks.
[[nodiscard]] netlink::Request track_request(const Tracked& flow, std::uint32_t seconds);

/// The operations for handing connections over to conntrack; tests have a double. Errors are errno values;
/// ENOENT for a connection that is not tracked, EEXIST if one of its tuples belongs to another connection.
class ConntrackTable {
 public:
  virtual ~ConntrackTable() = default;
  [[nodiscard]] virtual boost::system::result<Tracked> find(const TrackedTuple& original) = 0;
  [[nodiscard]] virtual boost::system::error_code erase(const TrackedTuple& original) = 0;
  [[nodiscard]] virtual boost::system::error_code track(const Tracked& flow, std::uint32_t seconds) = 0;
};

/// Has conntrack track the connection as `flow` says, in place of entries for the same client's tuple.
/// Another packet may make such an entry again between the deletion and this; then it is deleted again, three
/// times at most. Its timeout is long enough for the next packet, which sets conntrack's own.
[[nodiscard]] boost::system::error_code hand_to_conntrack(ConntrackTable& conntrack, const Tracked& flow);

/// The kernel's own table.
class Conntrack final : public ConntrackTable {
 public:
  /// An error without ctnetlink or CAP_NET_ADMIN.
  [[nodiscard]] static boost::system::result<Conntrack> open();

  /// Visits all connections of the family (AF_INET, AF_INET6) with a translated destination. EINTR: the table
  /// changed meanwhile, and some may be missing.
  [[nodiscard]] boost::system::error_code for_each_translated(
      int family, const std::function<void(const Tracked&)>& visit) const;
  /// Also finds a connection that conntrack first saw in the reply direction; both of its tuples are then
  /// swapped.
  [[nodiscard]] boost::system::result<Tracked> find(const TrackedTuple& original) override;
  [[nodiscard]] boost::system::error_code erase(const TrackedTuple& original) override;
  [[nodiscard]] boost::system::error_code track(const Tracked& flow, std::uint32_t seconds) override;

 private:
  explicit Conntrack(maps::Fd socket) : socket_(std::move(socket)) {}

  maps::Fd socket_;
};

}  // namespace lb::agent
