// Closes connected UDP sockets whose backend no longer serves, in every network namespace of this machine, a
// few namespaces at a time (SEM-46, REL-71).
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "agent/attach/udp_cleanup.hpp"
#include "maps/map.hpp"

namespace lb::agent {

/// The namespaces whose sockets are translated.
enum class Namespaces : std::uint8_t { own, all };

class StaleUdpSocketCloser {
 public:
  /// Called with the number of sockets closed in one round, and why some namespaces could not be checked;
  /// empty: all were.
  using Report = std::function<void(std::uint64_t count, const std::string& problem)>;

  /// Without an iterator in `cleanup` it does nothing.
  StaleUdpSocketCloser(boost::asio::io_context& context, const UdpCleanup& cleanup, Namespaces namespaces,
                       Report reported);

  /// Checks all connected UDP sockets soon: their backend may have ended, or be another one now. If a round
  /// is under way, another one follows.
  void check_soon();

 private:
  void start_round();
  void check_next_namespaces();
  void finish_round();
  /// Number of sockets closed in a namespace.
  [[nodiscard]] boost::system::result<std::uint64_t> clean_up_in(const std::string& netns) const;

  boost::asio::steady_timer timer_;
  maps::Fd link_;     ///< link of the iterator
  bool lists_only_;   ///< the iterator only lists sockets
  Namespaces scope_;  ///< whose sockets are checked
  Report report_;
  enum class Phase : std::uint8_t { idle, waiting, running };
  Phase phase_ = Phase::idle;
  bool again_ = false;
  std::vector<std::string> namespaces_;  ///< namespaces still to be checked
  std::uint64_t count_ = 0;
  std::string problem_;
};

}  // namespace lb::agent
