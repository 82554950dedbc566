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
  endpoints,  ///< of clients outside of the node; of a ClusterIP, of all
  endpoints_inside,
  no_endpoints,  ///< what a client gets where there are none
  affinity,
  source_ranges,
};

/// As JSON has it: "only-kube-proxy".
[[nodiscard]] const char* kind_name(DifferenceKind kind);

struct Difference {
  DifferenceKind kind{};
  std::string service;  ///< "namespace/name[:port]"; "-" where it is not known
  FrontendId frontend;
  std::string reason;  ///< a clause that names both sides
};

/// What can be compared: IPVS knows one set for all clients, and neither refusals nor who is let in.
enum class Detail : std::uint8_t { all, one_set };

/// By frontend: address, port, protocol.
[[nodiscard]] std::vector<Difference> compare_services(const ServedFrontends& kube_proxy,
                                                       const ServedFrontends& sluice, Detail detail);

/// Of what `sluice` serves with endpoints, what `kube_proxy` has no endpoint for.
[[nodiscard]] std::vector<Difference> unserved_by(const ServedFrontends& kube_proxy,
                                                  const ServedFrontends& sluice);

/// "*:30080" or "10.96.0.80:80".
[[nodiscard]] std::string frontend_text(const FrontendId& frontend);

}  // namespace lb::agent
