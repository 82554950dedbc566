// SPDX-License-Identifier: Apache-2.0
// The configuration in effect, in the form of kube-proxy's /configz (SEM-61, SEM-91). Pure.
#pragma once

#include <string>

#include "agent/options/config.hpp"

namespace lb::agent {

/// {"kubeproxy.config.k8s.io": KubeProxyConfiguration of v1alpha1}: contains only fields that have
/// kube-proxy's meaning, under kube-proxy's names.
[[nodiscard]] std::string configz(const AgentOptions& options);

}  // namespace lb::agent
