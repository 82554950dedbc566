// SPDX-License-Identifier: Apache-2.0
// Compares kube-proxy's frontends with ours, one by one. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/kube_proxy/served_frontends.hpp"

namespace lb::agent {

enum class DifferenceKind : std::uint8_t {
  only_kube_proxy,  ///< it serves the frontend, Sluice does not
  only_sluice,
  endpoints,  ///< for clients outside of the node; for a ClusterIP, for all
  endpoints_inside,
  no_endpoints,  ///< verdict for a client if there are no endpoints
  affinity,
  source_ranges,
};

/// The name in JSON: "only-kube-proxy".
[[nodiscard]] const char* kind_name(DifferenceKind kind);

struct Difference {
  DifferenceKind kind{};
  std::string service;  ///< "namespace/name[:port]"; "-" if unknown
  FrontendId frontend;
  std::string reason;  ///< a clause that names both sides
};

/// What can be compared: IPVS has one set for all clients, and neither verdicts nor source ranges.
enum class Detail : std::uint8_t { all, one_set };

/// Sorted by frontend: address, port, protocol.
[[nodiscard]] std::vector<Difference> compare_services(const ServedFrontends& kube_proxy,
                                                       const ServedFrontends& sluice, Detail detail);

/// Frontends that `sluice` serves with endpoints and for which `kube_proxy` has none.
[[nodiscard]] std::vector<Difference> unserved_by(const ServedFrontends& kube_proxy,
                                                  const ServedFrontends& sluice);

/// "*:30080" (of IPv6 "[::]:30080") or "10.96.0.80:80".
[[nodiscard]] std::string frontend_text(const FrontendId& frontend);

}  // namespace lb::agent
