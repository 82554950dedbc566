// SPDX-License-Identifier: Apache-2.0
// Enlarges tables that are full, and frees the memory of unused slots. Tables of another size need reloaded
// programs. So the agent ends, and one with other table sizes starts and takes over the pinned maps, as after
// any restart (SEM-81).
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "agent/datapath/datapath.hpp"
#include "agent/observe/health.hpp"
#include "agent/options/config.hpp"
#include "agent/tables/tables.hpp"

namespace lb::agent {

/// Limits of the sizes.
struct ResizeLimits {
  const AgentOptions& options;
  std::uint32_t min_slots;
};

class MapResizer {
 public:
  /// All referenced objects must outlive this. `begin_again`: called once, when tables of these sizes can be
  /// created.
  MapResizer(boost::asio::io_context& context, const ResizeLimits& limits, Tables& tables,
             const Datapath& datapath, const Health& health, std::function<void(const Sizes&)> begin_again);

  /// Enlarges tables that are too small and may grow; with a random delay if all nodes of a cluster would do
  /// so at once.
  void make();
  /// Starts checking how long most slots have been free.
  void watch_slots();

 private:
  void grow();
  void check_slots(std::chrono::steady_clock::time_point now);
  void shrink();
  [[nodiscard]] std::chrono::seconds shrink_after() const {
    return std::chrono::seconds(options_.shrink_after);
  }

  boost::asio::steady_timer timer_;
  boost::asio::steady_timer slots_timer_;
  const AgentOptions& options_;
  std::uint32_t min_slots_;
  Tables& tables_;
  const Datapath& datapath_;
  const Health& health_;
  std::function<void(const Sizes&)> begin_again_;
  bool waits_ = false;
  bool found_ = false;
  std::optional<std::chrono::steady_clock::time_point> free_since_;  ///< since when most slots are free
  std::string lack_;  ///< last logged reason why tables cannot be enlarged
};

}  // namespace lb::agent
