// SPDX-License-Identifier: Apache-2.0
// Chooses the detector, and the first range of each family.
#include "agent/run/node_policy.hpp"

#include <algorithm>

namespace lb::agent {
namespace {

PodDetector detector_of(const AgentOptions& options) {
  if (options.detect_local != PodDetector::automatic) {
    return options.detect_local;
  }
  if (!options.cluster_cidrs.empty()) {
    return PodDetector::cluster_cidr;
  }
  if (!options.pod_bridge.empty()) {
    return PodDetector::bridge;
  }
  return options.serves_pods() ? PodDetector::prefix : PodDetector::node_cidr;
}

lb_local_detection by_range(const std::vector<k8s::Prefix>& ranges, k8s::Family family,
                            std::vector<k8s::Prefix>& pods) {
  const auto found =
      std::ranges::find_if(ranges, [family](const auto& range) { return range.address.family() == family; });
  if (found == ranges.end()) {
    return LB_DETECT_NONE;
  }
  pods.push_back(*found);
  return LB_DETECT_BY_RANGE;
}

/// Whether no other service proxy may own a ClusterIP.
bool owns_all(const AgentOptions& options, KubeProxy kube_proxy) {
  return options.service_proxy_name.empty() && kube_proxy == KubeProxy::absent;
}

}  // namespace

NodePolicy node_policy_of(const AgentOptions& options, const std::vector<k8s::Prefix>& node_ranges,
                          KubeProxy kube_proxy) {
  NodePolicy policy;
  policy.word.masquerade_all = options.masquerade == Masquerade::all ? LB_YES : LB_NO;
  policy.word.drop_unallocated =
      options.unallocated == Unallocated::drop && owns_all(options, kube_proxy) ? LB_YES : LB_NO;
  const auto detector = detector_of(options);
  if (detector == PodDetector::bridge || detector == PodDetector::prefix) {
    policy.word.local_detection4 = policy.word.local_detection6 = LB_DETECT_BY_DEVICE;
    return policy;
  }
  const auto& ranges = detector == PodDetector::cluster_cidr ? options.cluster_cidrs : node_ranges;
  policy.word.local_detection4 = by_range(ranges, k8s::Family::ipv4, policy.pods);
  policy.word.local_detection6 = by_range(ranges, k8s::Family::ipv6, policy.pods);
  return policy;
}

}  // namespace lb::agent
