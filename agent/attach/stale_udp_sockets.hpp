// SPDX-License-Identifier: Apache-2.0
// Connects UDP sockets again whose backend no longer serves, in every network namespace of this machine, and
// ends those with which that does not work (SEM-46, REL-71, REL-161).
#pragma once

#include <boost/system/result.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/attach/udp_cleanup.hpp"
#include "agent/netlink/netns.hpp"
#include "maps/abi/lost_socket.h"
#include "maps/map.hpp"

namespace lb::agent {

/// The namespaces whose sockets are translated.
enum class Namespaces : std::uint8_t { own, all };

class NetnsFiles;

/// What a round did.
struct UdpRound {
  std::uint64_t reconnected = 0;
  std::uint64_t ended = 0;
  std::uint64_t left = 0;     ///< sockets that were found, and could be neither connected nor ended
  std::uint64_t passes = 0;   ///< over all sockets that have storage
  std::uint64_t entered = 0;  ///< network namespaces, in each pass once to connect and once to end sockets
  std::uint64_t walked = 0;   ///< namespaces all of whose UDP sockets were read
  std::string problem;        ///< why some are left; empty: none are
};

/// One pass over sockets' storage spans all namespaces; where the kernel allows none, each namespace's
/// sockets are read. What it finds is connected again, or ended in its own namespace, and passes are repeated
/// until one finds nothing, or nothing more for which that works.
class StaleUdpSockets {
 public:
  StaleUdpSockets(const UdpCleanup& cleanup, Namespaces namespaces);
  /// Whether this kernel can do either.
  explicit operator bool() const noexcept { return finder_ || lister_; }

  /// Blocks until the round is over, or `stop` is requested; on any thread, which is in the agent's network
  /// namespace afterwards.
  [[nodiscard]] UdpRound run(const std::stop_token& stop) const;

 private:
  using Lost = std::vector<lb_lost_socket>;
  /// By the inode of their namespace.
  using LostIn = std::map<std::uint32_t, Lost>;

  /// How often each was connected in this round, by cookie.
  using Tries = std::unordered_map<std::uint64_t, unsigned>;

  [[nodiscard]] boost::system::result<LostIn> find(NetnsFiles& files) const;
  /// Adds what that namespace has.
  [[nodiscard]] boost::system::error_code find_in(const Netns& netns, LostIn& lost) const;
  [[nodiscard]] boost::system::error_code take_all(int iterator, std::uint64_t own, LostIn& lost) const;
  std::uint64_t reconnect_all(LostIn& lost, NetnsFiles& files, Tries& tries, const std::stop_token& stop,
                              UdpRound& round) const;
  std::uint64_t end_all(const LostIn& lost, NetnsFiles& files, UdpRound& round) const;
  [[nodiscard]] boost::system::result<std::uint64_t> end_in(const std::string& netns, const Lost& lost,
                                                            UdpRound& round) const;
  [[nodiscard]] boost::system::result<std::uint64_t> end_by_diag(const std::string& netns,
                                                                 const Lost& lost) const;
  [[nodiscard]] boost::system::result<std::uint64_t> end_by_walk(const std::string& netns) const;

  Namespaces scope_;
  bool reconnects_;
  bool ends_by_diag_;
  maps::Fd finder_;  ///< link of the iterator over storage
  maps::Fd lister_;  ///< without it: link of the iterator over a namespace's sockets
  maps::Fd walker_;  ///< link of the iterator over a namespace's sockets
};

}  // namespace lb::agent
