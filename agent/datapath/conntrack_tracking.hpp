// SPDX-License-Identifier: Apache-2.0
// Ensures that conntrack tracks the packets that programs look up in it (REL-89): it tracks only while some
// rule of the network namespace uses it. Nearly every node has such rules (kube-proxy's, a network plug-in's
// masquerading); otherwise a table of ours provides the rule.
#pragma once

#include <boost/asio/io_context.hpp>
#include <string>

#include "agent/datapath/coexistence.hpp"
#include "agent/datapath/kept_table.hpp"
#include "agent/programs/features.hpp"

namespace lb::agent {

class ConntrackTracking {
 public:
  /// `table` is the name of our table. All referenced objects must outlive this.
  ConntrackTracking(boost::asio::io_context& context, const Features& features, Coexistence& coexistence,
                    std::string table);

  /// Makes the table now, before programs are attached, and keeps it. If programs do not look up conntrack,
  /// removes an earlier agent's table.
  void start();

 private:
  void check();

  const Features& features_;
  Coexistence& coexistence_;
  KeptTable table_;
};

}  // namespace lb::agent
