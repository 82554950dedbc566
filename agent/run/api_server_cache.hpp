// SPDX-License-Identifier: Apache-2.0
// Stores the API servers' addresses on disk: at the next start nothing may serve the API's ClusterIP yet,
// because this agent is to serve it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "k8s/client/access.hpp"
#include "k8s/objects/model.hpp"

namespace lb::agent {

/// Reads the servers from the file in a directory; empty if there is no such file, or `directory` is empty.
/// Lines that are not URLs are ignored. The servers' certificates are verified for `certificate_name`, which
/// is the API's in-cluster address; empty: for kubernetes.default.svc.
[[nodiscard]] std::vector<k8s::ApiServer> remembered_servers(const std::string& directory,
                                                             std::string_view certificate_name);

class ApiServerCache {
 public:
  /// `directory` is created at the first write; empty: nothing is stored.
  explicit ApiServerCache(std::string directory) : directory_(std::move(directory)) {}

  /// Takes the ready endpoints of a slice of Service default/kubernetes; ignores other slices.
  void see(const k8s::EndpointSlice& slice);
  void forget(const k8s::ObjectKey& slice);
  /// Replaces the file if its content differs, but not by an empty one. A repeated failure is logged once.
  void write();

 private:
  std::string directory_;
  std::map<k8s::ObjectKey, std::vector<std::string>> urls_;  ///< by slice
  std::string written_;
  std::string failure_;  ///< last logged failure
};

}  // namespace lb::agent
