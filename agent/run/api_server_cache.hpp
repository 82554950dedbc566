// Remembers the API servers' addresses from the last contact: at a later start nothing may serve the API's
// ClusterIP, because this agent is to serve it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "k8s/client/access.hpp"
#include "k8s/objects/model.hpp"

namespace lb::agent {

/// As a directory's file says; none where there is no such file, or `directory` is empty. A line that is no
/// URL counts for nothing. Their certificates are looked at for `certificate_name`, which is the API's
/// in-cluster address; empty: for kubernetes.default.svc.
[[nodiscard]] std::vector<k8s::ApiServer> remembered_servers(const std::string& directory,
                                                             std::string_view certificate_name);

class ApiServerCache {
 public:
  /// `directory` is made when there is something to write; empty: nothing is kept.
  explicit ApiServerCache(std::string directory) : directory_(std::move(directory)) {}

  /// Takes the ready endpoints of the slices of Service default/kubernetes; any other slice is nothing to it.
  void see(const k8s::EndpointSlice& slice);
  void forget(const k8s::ObjectKey& slice);
  /// Replaces the file if it would say something else, and never by nothing. A failure is logged once.
  void write();

 private:
  std::string directory_;
  std::map<k8s::ObjectKey, std::vector<std::string>> urls_;  ///< by slice
  std::string written_;
  std::string failure_;  ///< as last logged
};

}  // namespace lb::agent
