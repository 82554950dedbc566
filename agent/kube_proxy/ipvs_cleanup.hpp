// Removes what kube-proxy's IPVS mode left outside of iptables, and hands the connections that go through it
// over to conntrack (REL-84).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "agent/kube_proxy/ipvs_leftovers.hpp"

namespace lb::agent {

class IpvsCleanup {
 public:
  /// Looks at this node, and makes the kernel load nothing.
  IpvsCleanup();

  /// One line each: "virtual service tcp 10.96.0.1:443", "device kube-ipvs0", "IP set KUBE-CLUSTER-IP".
  [[nodiscard]] std::vector<std::string> leftovers() const;

  /// TCP and SCTP connections that would end, as "tcp 10.244.1.7:40312 to 10.96.0.80:80 (why)".
  [[nodiscard]] std::vector<std::string> would_end() const;

  /// Adds what fails to `problems`; how many connections are conntrack's now.
  [[nodiscard]] std::size_t remove_services(std::vector<std::string>& problems) const;
  /// After the rules that name them.
  void remove_sets(std::vector<std::string>& problems) const;

 private:
  IpvsState state_;
  IpvsRemoval removal_;
  std::vector<IpvsConnection> connections_;
};

}  // namespace lb::agent
