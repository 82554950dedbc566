// The configuration in effect, as kube-proxy's /configz shows its own (SEM-61, SEM-91). Pure.
#pragma once

#include <string>

#include "agent/options/config.hpp"

namespace lb::agent {

/// {"kubeproxy.config.k8s.io": KubeProxyConfiguration of v1alpha1}: what is there with kube-proxy's meaning
/// under kube-proxy's names, and nothing else.
[[nodiscard]] std::string configz(const AgentOptions& options);

}  // namespace lb::agent
