// SPDX-License-Identifier: Apache-2.0
// Logs what a start waits for if it takes long, because nothing else shows it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "k8s/watch/api_source.hpp"

namespace lb::agent {

/// The progress of a start.
enum class StartStep : std::uint8_t {
  network,  ///< waits for the kernel to report this node's devices and addresses
  objects,  ///< waits for the source to report all objects
  plan,     ///< the first plan is being made and written
  labels,   ///< a Service waits for the labels of other Nodes
  turns,    ///< a plan waits for its next turn
  tables,   ///< a part of the first plan is not in the maps
  serving,
};

/// The text after "waiting for ". `api`: statistics of each watched resource; empty without the API.
[[nodiscard]] std::string awaited(StartStep step, const std::vector<k8s::ApiStats>& api);

/// "not ready after 12 s: waiting for …", and a hint that its own work or the machine is slow if it was
/// blocked for long: `held` is the delay of the timer.
[[nodiscard]] std::string progress_message(std::chrono::milliseconds waited, std::chrono::milliseconds held,
                                           const std::string& what);

class StartProgress {
 public:
  using Clock = std::chrono::steady_clock;
  using Ask = std::function<std::string()>;

  /// Logs the result of `ask` periodically, until it is empty. Times count from the construction.
  StartProgress(boost::asio::io_context& context, Ask ask);
  void watch();

 private:
  boost::asio::steady_timer timer_;
  Ask ask_;
  Clock::time_point began_ = Clock::now();
};

}  // namespace lb::agent
