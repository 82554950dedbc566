// SPDX-License-Identifier: Apache-2.0
// `sluice check --against kube-proxy`: whether an agent would serve the same as this node's kube-proxy.
#pragma once

#include <string>
#include <vector>

#include "agent/commands/compare_services.hpp"
#include "agent/kube_proxy/services.hpp"
#include "agent/options/config.hpp"

namespace lb::agent {

struct ComparedServices {
  ProxyMode mode = ProxyMode::none;
  std::string source;        ///< source of our side: "the API at ..."
  std::size_t compared = 0;  ///< number of frontends of either side
  std::vector<Difference> differences;
  std::vector<std::string> information;  ///< what is not compared, and skipped parts of objects
  std::vector<std::string> unread;       ///< kube-proxy's rules that are not understood
};

/// One line, or one JSON object, for each difference. Pure.
[[nodiscard]] std::string show_comparison(const ComparedServices& compared, Output output);

/// Prints the differences. Exit code: 0 none, 1 some, 2 the two cannot be compared, or not in whole because a
/// rule of kube-proxy is not understood.
[[nodiscard]] int run_check_against(const Options& options);

}  // namespace lb::agent
