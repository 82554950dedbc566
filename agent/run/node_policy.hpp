// How the programs distinguish pods from other clients, and what follows from that: options and the own Node
// to values. Pure.
#pragma once

#include <vector>

#include "agent/kube_proxy/presence.hpp"
#include "agent/options/config.hpp"
#include "k8s/objects/model.hpp"
#include "maps/abi/abi.h"

namespace lb::agent {

struct NodePolicy {
  lb_node_policy word{};
  std::vector<k8s::Prefix> pods;  ///< at most one of a family: what LB_POD_RANGES shall hold
};

/// `node_ranges` are the own Node's pod CIDRs. A detector without a range of a family is none for that family
/// (SEM-32, SEM-68).
/// What kube-proxy's rules serve is not to be dropped.
[[nodiscard]] NodePolicy node_policy_of(const AgentOptions& options,
                                        const std::vector<k8s::Prefix>& node_ranges, KubeProxy kube_proxy);

}  // namespace lb::agent
