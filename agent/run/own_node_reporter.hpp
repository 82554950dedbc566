// Reports when the cluster has no Node of this node's name: without it the agent does not know its zone, its
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

  /// What is referred to must outlive this.
  OwnNodeReporter(const AgentOptions& options, const Intake& intake, Coexistence& coexistence,
                  Complain complain);

  /// To `status`, and as a complaint each time that it is news. Manifests need not have Nodes: with them it
  /// is missed only where others are.
  void report();

 private:
  const AgentOptions& options_;
  const Intake& intake_;
  Coexistence& coexistence_;
  Complain complain_;
};

}  // namespace lb::agent
