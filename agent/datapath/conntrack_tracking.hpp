// Ensures that conntrack tracks the packets that programs look up in it (REL-89): it tracks only while some
// rule of the network namespace uses it. Nearly every node has such rules (kube-proxy's, a network plug-in's
// masquerading); otherwise a table of ours provides the rule.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <string>

#include "agent/datapath/coexistence.hpp"
#include "agent/netlink/nf_table_watch.hpp"
#include "agent/programs/features.hpp"

namespace lb::agent {

class ConntrackTracking {
 public:
  /// `table` is the name of our table. All referenced objects must outlive this.
  ConntrackTracking(boost::asio::io_context& context, const Features& features, Coexistence& coexistence,
                    std::string table);

  /// Creates the table now, before programs are attached, and again as soon as it is deleted. Also checks
  /// every half minute, in case the kernel sends no notifications. If programs do not look up conntrack,
  /// removes an earlier agent's table.
  void start();

 private:
  void ensure();

  boost::asio::steady_timer timer_;
  NfTableWatch watch_;
  const Features& features_;
  Coexistence& coexistence_;
  std::string table_;
  std::string problem_;  ///< last logged problem
};

}  // namespace lb::agent
