// SPDX-License-Identifier: Apache-2.0
// The services that this node's kube-proxy serves, read from the kernel.
#pragma once

#include <boost/system/result.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "agent/kube_proxy/served_frontends.hpp"

namespace lb::agent {

/// How kube-proxy's rules are installed.
enum class ProxyMode : std::uint8_t { none, nftables, iptables, iptables_legacy, ipvs };

/// "nftables", "iptables", "iptables-legacy", "ipvs"; empty for none.
[[nodiscard]] const char* proxy_mode_name(ProxyMode mode);

struct KubeProxyServices {
  ProxyMode mode = ProxyMode::none;
  ServedFrontends frontends;
  std::vector<std::string> unread;  ///< rules that are not understood, and so serve nothing above
};

/// ProxyMode::none if kube-proxy has no rules here. Fails with EPERM without CAP_NET_ADMIN, else with the
/// kernel's error.
[[nodiscard]] boost::system::result<KubeProxyServices> read_kube_proxy_services();

}  // namespace lb::agent
