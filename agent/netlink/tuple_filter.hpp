// SPDX-License-Identifier: Apache-2.0
// Drops packets before connection tracking sees them, while their connection goes from Sluice or IPVS to
// conntrack.
#pragma once

#include <boost/system/error_code.hpp>
#include <boost/system/result.hpp>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "agent/netlink/tracked.hpp"
#include "maps/map.hpp"

namespace lb::agent {

/// Tests have a double.
class TupleFilter {
 public:
  virtual ~TupleFilter() = default;
  /// Drops packets with these tuples of one family, those of the previous call no more; none: no packets.
  [[nodiscard]] virtual boost::system::error_code drop(std::span<const TrackedTuple> tuples) = 0;
};

/// Connections to hand over while their packets are dropped: so many take about a millisecond.
inline constexpr std::size_t max_dropped_connections = 32;

/// Drops packets with these tuples as long as it lives. Best effort: without a filter, or if the kernel
/// refuses, they pass, and one that arrives at the wrong moment may reset its connection.
class DroppedPackets {
 public:
  DroppedPackets(TupleFilter* filter, std::span<const TrackedTuple> tuples);
  DroppedPackets(const DroppedPackets&) = delete;
  DroppedPackets& operator=(const DroppedPackets&) = delete;
  ~DroppedPackets();

 private:
  TupleFilter* filter_;
};

/// A table of nf_tables in each family, with a set of tuples. It is owned by this object's socket: the kernel
/// removes it together with the process, however that ends.
class NfTupleFilter final : public TupleFilter {
 public:
  /// An error without nf_tables or CAP_NET_ADMIN. A kernel without IPv6 needs no IPv6 table.
  [[nodiscard]] static boost::system::result<NfTupleFilter> open();

  /// After an error nothing is dropped any more, in this call and in later ones.
  [[nodiscard]] boost::system::error_code drop(std::span<const TrackedTuple> tuples) override;

 private:
  NfTupleFilter(maps::Fd socket, std::string table) : socket_(std::move(socket)), table_(std::move(table)) {}

  [[nodiscard]] boost::system::error_code create(int family) const;
  [[nodiscard]] boost::system::error_code replace(int family, std::span<const TrackedTuple> tuples) const;

  maps::Fd socket_;
  std::string table_;
  int filled_ = 0;  ///< family whose set has elements; 0: none
};

}  // namespace lb::agent
