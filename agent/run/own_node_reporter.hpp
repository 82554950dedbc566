// SPDX-License-Identifier: Apache-2.0
// Reports if the cluster has no Node of this node's name: without it the agent does not know its zone, its
// addresses and its pods' ranges.
#pragma once

#include <functional>

#include "agent/datapath/coexistence.hpp"
#include "agent/options/config.hpp"
#include "agent/run/intake.hpp"
#include "k8s/objects/source.hpp"

namespace lb::agent {

class OwnNodeReporter {
 public:
  using Complain = std::function<void(const k8s::Complaint&)>;

  /// All referenced objects must outlive this.
  OwnNodeReporter(const AgentOptions& options, const Intake& intake, Coexistence& coexistence,
                  Complain complain);

  /// Updates `status`, and complains when the Node goes missing. Manifests need not contain Nodes: there a
  /// missing Node is reported only if there are others.
  void report();

 private:
  const AgentOptions& options_;
  const Intake& intake_;
  Coexistence& coexistence_;
  Complain complain_;
};

}  // namespace lb::agent
