// Makes tables larger for what does not fit, and frees the memory of unused slots. Tables of another size
// need programs that are loaded again, at a start. So the agent ends, and one with tables of other sizes
// begins and takes over what is pinned, as after any restart (SEM-81).
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

/// What may be asked for.
struct RoomLimits {
  const AgentOptions& options;
  std::uint32_t least_slots;
};

class MapResizer {
 public:
  /// What is referred to must outlive this. `begin_again`: called once, when tables of these sizes can be
  /// had.
  MapResizer(boost::asio::io_context& context, const RoomLimits& limits, Tables& tables,
             const Datapath& datapath, const Health& health, std::function<void(const Sizes&)> begin_again);

  /// If tables are too small, and may grow: sees to larger ones, in a while where a whole cluster's nodes
  /// would do so at once.
  void make();
  /// Looks from now on whether the slots are mostly free, and for how long.
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
  std::uint32_t least_slots_;
  Tables& tables_;
  const Datapath& datapath_;
  const Health& health_;
  std::function<void(const Sizes&)> begin_again_;
  bool waits_ = false;
  bool found_ = false;
  std::optional<std::chrono::steady_clock::time_point> free_since_;  ///< most slots are
  std::string lack_;  ///< why tables cannot be made larger, as it was said last
};

}  // namespace lb::agent
