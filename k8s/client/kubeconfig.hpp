// How to reach the API: from a kubeconfig file, or from the files that the kubelet mounts into a pod.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "k8s/client/access.hpp"

namespace lb::k8s {

struct Kubeconfig {
  ApiAccess access;
  std::vector<std::string> warnings;  ///< a sentence each
};

/// The current context of a kubeconfig. File names in it are relative to it. Throws StartError that names the
/// field which is wrong, missing, or asks for what is not supported (exec and auth-provider plugins,
/// passwords, impersonation, proxies).
[[nodiscard]] Kubeconfig read_kubeconfig(const std::string& path);

/// Where the current context of a kubeconfig finds its cluster; its user does not matter. Throws StartError
/// likewise.
[[nodiscard]] ApiServer read_kubeconfig_server(const std::string& path);

/// What a pod is given: its environment's KUBERNETES_SERVICE_HOST and _PORT, and its service account's files.
struct PodEnvironment {
  std::string host;
  std::string port;
  std::string directory = "/var/run/secrets/kubernetes.io/serviceaccount";

  [[nodiscard]] static PodEnvironment from_environment();
};

/// Of the environment; nothing where it names none.
[[nodiscard]] std::optional<ApiServer> server_of(const PodEnvironment& pod);

/// Throws StartError where there are none. `servers` that are given count in place of the environment's.
[[nodiscard]] ApiAccess in_cluster_access(const PodEnvironment& pod, std::vector<ApiServer> servers);

/// Standard base64, white space allowed; throws StartError that names `field` for anything else.
[[nodiscard]] std::string decode_base64(std::string_view text, std::string_view field);

}  // namespace lb::k8s
