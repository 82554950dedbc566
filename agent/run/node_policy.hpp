// SPDX-License-Identifier: Apache-2.0
// How the programs distinguish pods from other clients, and the resulting policies: computed from options and
// the own Node. Pure.
#pragma once

#include <vector>

#include "agent/kube_proxy/presence.hpp"
#include "agent/options/config.hpp"
#include "k8s/objects/model.hpp"
#include "maps/abi/abi.h"

namespace lb::agent {

struct NodePolicy {
  lb_node_policy word{};
  std::vector<k8s::Prefix> pods;  ///< at most one of a family: the wanted LB_POD_RANGES
};

/// `node_ranges` are the own Node's pod CIDRs. A detector without a range of a family is disabled for that
/// family (SEM-32, SEM-68). Packets that kube-proxy's rules serve must not be dropped.
[[nodiscard]] NodePolicy node_policy_of(const AgentOptions& options,
                                        const std::vector<k8s::Prefix>& node_ranges, KubeProxy kube_proxy);

}  // namespace lb::agent
