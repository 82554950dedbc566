// Room for what does not fit: tables of another size mean other programs, which are loaded at a start. So an
// agent ends, and one that begins with larger tables takes over what is pinned, as after any restart
// (SEM-81).
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>

#include "agent/datapath/datapath.hpp"
#include "agent/observe/health.hpp"
#include "agent/options/config.hpp"
#include "agent/tables/tables.hpp"

namespace lb::agent {

class RoomCare {
 public:
  /// What is referred to must outlive this. `begin_again`: called once, when tables of these sizes can be
  /// had.
  RoomCare(boost::asio::io_context& context, const AgentOptions& options, const Tables& tables,
           const Datapath& datapath, const Health& health, std::function<void(const Sizes&)> begin_again);

  /// If tables are too small, and may grow: sees to larger ones, in a while where a whole cluster's nodes
  /// would do so at once.
  void make();

 private:
  void grow();

  boost::asio::steady_timer timer_;
  const AgentOptions& options_;
  const Tables& tables_;
  const Datapath& datapath_;
  const Health& health_;
  std::function<void(const Sizes&)> begin_again_;
  bool waits_ = false;
  bool found_ = false;
  std::string lack_;  ///< why tables cannot be made larger, as it was said last
};

}  // namespace lb::agent
