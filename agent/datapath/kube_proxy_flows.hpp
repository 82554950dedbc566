// SPDX-License-Identifier: Apache-2.0
// Keeps connections that kube-proxy opened alive until they end (REL-84). Conntrack keeps translating them,
// on whatever path: while kube-proxy's rules exist because of those rules, and after that because of a table
// of ours, until no such connection is left. UDP flows to a backend that no longer serves lose their entry,
// as with kube-proxy, and move to another one.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/system/result.hpp>
#include <cstddef>
#include <string>

#include "agent/datapath/kept_table.hpp"
#include "agent/kube_proxy/presence.hpp"
#include "maps/mapset.hpp"

namespace lb::agent {

class KubeProxyFlows {
 public:
  /// `table` is the name of our table. The maps must outlive this.
  KubeProxyFlows(boost::asio::io_context& context, maps::MapSet& maps, std::string table);

  /// Checks now, before programs are attached, then every half minute, and as soon as another program deletes
  /// our table.
  void start();

 private:
  void check();
  /// Number of its remaining connections; deletes UDP entries for backends that no longer serve.
  [[nodiscard]] boost::system::result<std::size_t> find_flows() const;
  [[nodiscard]] bool any_left() const;
  [[nodiscard]] bool keep_table();
  void remove_table();

  maps::MapSet& maps_;
  KeptTable table_;
  KubeProxyRules rules_;
  bool checked_ = false;
  bool held_ = false;  ///< the table exists
};

}  // namespace lb::agent
