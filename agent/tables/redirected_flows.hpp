// Ends redirected flows from and to addresses that IPsec policies cover, because their packets bypass all
// policies. The next packet of such a flow is decided anew.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "k8s/objects/model.hpp"
#include "maps/mapset.hpp"

namespace lb::agent {

class RedirectedFlows {
 public:
  /// The tables must outlive this. `ended` is called with the number of entries that a walk erased.
  RedirectedFlows(boost::asio::io_context& context, maps::MapSet& maps,
                  std::function<void(std::size_t entries)> ended);

  /// Walks all flow tables from the start, in steps. Programs must refuse new such flows before.
  void end(std::vector<k8s::Prefix> towards);

 private:
  void step();
  void pause();
  template <class Key, class Flow>
  [[nodiscard]] maps::error_code step_table(maps::HashMap<Key, Flow>& table);
  [[nodiscard]] maps::error_code step_tables();
  [[nodiscard]] bool is_there(const k8s::Address& address) const;

  boost::asio::steady_timer timer_;
  maps::MapSet& maps_;
  std::function<void(std::size_t)> ended_;
  std::vector<k8s::Prefix> towards_;
  std::size_t table_ = 0;
  std::size_t erased_ = 0;
  maps::raw::Cursor cursor_;
};

}  // namespace lb::agent
