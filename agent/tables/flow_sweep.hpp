// SPDX-License-Identifier: Apache-2.0
// A walk over all flow tables, in steps between the agent's other work, that ends the flows that it is asked
// to end: both entries of each. The next packet of such a flow is decided anew.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <functional>
#include <string>

#include "k8s/objects/model.hpp"
#include "maps/mapset.hpp"

namespace lb::agent {

/// One of a flow's two entries: the packets that it translates.
struct SweptEntry {
  k8s::Address arriving_destination;
  k8s::Address leaving_source;
  k8s::Address leaving_destination;
  const lb_track& track;
};

class FlowSweep {
 public:
  /// Whether the flow of this entry ends.
  using Ends = std::function<bool(const SweptEntry&)>;
  /// Called at the end of a walk with the number of entries that it erased.
  using Ended = std::function<void(std::size_t erased)>;

  /// The tables must outlive this. `risk`, for the log: what happens if a walk fails.
  FlowSweep(boost::asio::io_context& context, maps::MapSet& maps, Ended ended, std::string risk);

  /// Walks all tables from the start; a walk under way is given up.
  void start(Ends ends);
  void stop();

 private:
  void step();
  void pause();
  template <class Key, class Flow>
  [[nodiscard]] maps::error_code step_table(maps::HashMap<Key, Flow>& table);
  [[nodiscard]] maps::error_code step_tables();

  boost::asio::steady_timer timer_;
  maps::MapSet& maps_;
  Ended ended_;
  std::string risk_;
  Ends ends_;
  std::size_t table_ = 0;
  std::size_t erased_ = 0;
  maps::raw::Cursor cursor_;
};

}  // namespace lb::agent
