// SPDX-License-Identifier: Apache-2.0
// Reads how to access the API: from a kubeconfig file, or from the files that the kubelet mounts into a pod.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "k8s/client/access.hpp"

namespace lb::k8s {

struct Kubeconfig {
  ApiAccess access;
  std::vector<std::string> warnings;  ///< messages for the log
};

/// Reads the current context of a kubeconfig. File names in it are relative to it. Throws StartError with the
/// name of the field that is wrong, missing, or requests an unsupported feature (exec and auth-provider
/// plugins, passwords, impersonation, proxies).
[[nodiscard]] Kubeconfig read_kubeconfig(const std::string& path);

/// The server of the current context's cluster; the context's user is ignored. Throws StartError like
/// read_kubeconfig().
[[nodiscard]] ApiServer read_kubeconfig_server(const std::string& path);

/// A pod's API access: KUBERNETES_SERVICE_HOST and _PORT of the environment, and its service account's
/// directory.
struct PodEnvironment {
  std::string host;
  std::string port;
  std::string directory = "/var/run/secrets/kubernetes.io/serviceaccount";

  [[nodiscard]] static PodEnvironment from_environment();
};

/// The server that the environment names; nullopt if it names none.
[[nodiscard]] std::optional<ApiServer> server_of(const PodEnvironment& pod);

/// Throws StartError if the pod has no such access. `servers`, if not empty, replace the environment's
/// server.
[[nodiscard]] ApiAccess in_cluster_access(const PodEnvironment& pod, std::vector<ApiServer> servers);

/// Decodes standard base64, white space allowed; throws StartError that names `field` for anything else.
[[nodiscard]] std::string decode_base64(std::string_view text, std::string_view field);

}  // namespace lb::k8s
