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

/// The namespaces whose sockets are given backends.
enum class Namespaces : std::uint8_t { own, all };

class UdpSockets {
 public:
  /// How many were closed in one round, and why some namespaces could not be looked at; empty: all were.
  using Report = std::function<void(std::uint64_t count, const std::string& problem)>;

  /// Without a way nothing happens, ever.
  UdpSockets(boost::asio::io_context& context, const UdpCleanup& cleanup, Namespaces namespaces,
             Report reported);

  /// Some backend ended. A round begins soon; one that runs is followed by another.
  void backend_ended();

 private:
  void begin();
  void step();
  void finish();
  /// How many it closed of a namespace's.
  [[nodiscard]] boost::system::result<std::uint64_t> clean_up_in(const std::string& netns) const;

  boost::asio::steady_timer timer_;
  maps::Fd link_;  ///< of the iterator
  bool finds_;     ///< it is the one that finds
  Namespaces which_;
  Report report_;
  enum class Phase : std::uint8_t { idle, waiting, running };
  Phase phase_ = Phase::idle;
  bool again_ = false;
  std::vector<std::string> namespaces_;  ///< still to be looked at
  std::uint64_t count_ = 0;
  std::string problem_;
};

}  // namespace lb::agent
