// `sluice check --against kube-proxy`: would an agent serve the same as this node's kube-proxy?
#pragma once

#include <string>
#include <vector>

#include "agent/commands/compare_services.hpp"
#include "agent/netlink/kube_proxy_services.hpp"
#include "agent/options/config.hpp"

namespace lb::agent {

struct ComparedServices {
  ProxyMode mode = ProxyMode::none;
  std::string source;        ///< of ours: "the API at ..."
  std::size_t compared = 0;  ///< frontends of either side
  std::vector<Difference> differences;
  std::vector<std::string> information;  ///< what is not compared, and what of the objects Sluice skips
};

/// A line, or an object, for each difference. Pure.
[[nodiscard]] std::string show_comparison(const ComparedServices& compared, Output output);

/// Prints what differs; the exit code: 0 nothing, 1 something, 2 it could not be compared.
[[nodiscard]] int run_check_against(const Options& options);

}  // namespace lb::agent
