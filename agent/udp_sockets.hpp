// Tells connected UDP sockets whose backend serves no more, in every network namespace of this machine, a few
// namespaces at a time (SEM-46, REL-71).
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "maps/map.hpp"

namespace lb::agent {

class UdpSockets {
 public:
  /// How many were told in one round, and why some namespaces could not be looked at; empty: all were.
  using Told = std::function<void(std::uint64_t count, const std::string& problem)>;

  /// `program` is the iterator over UDP sockets, -1 where the kernel has none such: then nothing happens,
  /// ever.
  UdpSockets(boost::asio::io_context& context, int program, Told told);

  /// Some backend ended. A round begins soon; one that runs is followed by another.
  void backend_ended();

 private:
  void begin();
  void step();
  void finish();

  boost::asio::steady_timer timer_;
  maps::Fd link_;
  Told told_;
  enum class Phase : std::uint8_t { idle, waiting, running };
  Phase phase_ = Phase::idle;
  bool again_ = false;
  std::vector<std::string> spaces_;  ///< still to be looked at
  std::uint64_t count_ = 0;
  std::string problem_;
};

/// Files of this machine's network namespaces, each namespace once: those of processes, and those with a name
/// in /run/netns.
[[nodiscard]] std::vector<std::string> network_namespaces();

/// Runs the iterator behind `link` in a network namespace; how many sockets it told. The calling thread is
/// back in its own namespace afterwards. Errors are errno values.
[[nodiscard]] boost::system::result<std::uint64_t> tell_in(int link, const std::string& space);

}  // namespace lb::agent
