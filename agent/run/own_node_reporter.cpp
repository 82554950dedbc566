// SPDX-License-Identifier: Apache-2.0
#include "agent/run/own_node_reporter.hpp"

#include <fmt/format.h>

#include <utility>

namespace lb::agent {

OwnNodeReporter::OwnNodeReporter(const AgentOptions& options, const Intake& intake, Coexistence& coexistence,
                                 Complain complain)
    : options_(options), intake_(intake), coexistence_(coexistence), complain_(std::move(complain)) {}

void OwnNodeReporter::report() {
  const bool expected = options_.manifests.empty() || intake_.any_node();
  const bool missing = expected && intake_.own_node_is_missing();
  const bool is_news =
      coexistence_.set_node(missing ? fmt::format("Node {}: there is none of that name", options_.node) : "");
  if (is_news && missing) {
    complain_({fmt::format("Node {}", options_.node), "",
               "there is none of that name, so this node has no zone, no addresses and no pods' range of its "
               "own: give the name that it has in the cluster with --node"});
  }
}

}  // namespace lb::agent
