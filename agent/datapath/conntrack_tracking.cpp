// SPDX-License-Identifier: Apache-2.0
#include "agent/datapath/conntrack_tracking.hpp"

#include <utility>

#include "agent/netlink/conntrack_keepalive.hpp"

namespace lb::agent {

ConntrackTracking::ConntrackTracking(boost::asio::io_context& context, const Features& features,
                                     Coexistence& coexistence, std::string table)
    : features_(features),
      coexistence_(coexistence),
      table_(
          context, std::move(table), keep_tracking,
          "conntrack tracks connections only if other rules ask for it, and where none does, forged packets "
          "may take over connections that clients have straight to a backend",
          [this] { check(); }) {}

void ConntrackTracking::start() {
  if (features_.usable(Feature::ct_lookup)) {
    table_.start();
  } else {
    table_.remove();
  }
}

void ConntrackTracking::check() {
  coexistence_.set_tracking(table_.make() ? "" : "conntrack: tracks only if rules of others ask for it");
}

}  // namespace lb::agent
