// Ensures that conntrack tracks the packets that programs look up in it (REL-89): it does so only while some
// rule of the network namespace asks for it. Nearly every node has such rules (kube-proxy's, a network
// plug-in's masquerading); where there is none, a table of ours is the rule.
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
  /// `table` is the name of the table of ours. What is referred to must outlive this.
  ConntrackTracking(boost::asio::io_context& context, const Features& features, Coexistence& coexistence,
                    std::string table);

  /// Makes the table now, before programs are attached, and again as soon as somebody deletes it. Looks every
  /// half a minute all the same, where the kernel does not tell.
  /// Where programs do not ask conntrack, a table that an earlier agent made goes.
  void start();

 private:
  void look();

  boost::asio::steady_timer timer_;
  NfTableWatch watch_;
  const Features& features_;
  Coexistence& coexistence_;
  std::string table_;
  std::string problem_;  ///< as last logged
};

}  // namespace lb::agent
