// SPDX-License-Identifier: Apache-2.0
// Handles a change of the configuration file while the agent runs: applies a valid one; after an invalid one,
// the last valid one stays in force, and log, metric and `status` report the error.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>

#include "agent/datapath/kube_proxy_config_watch.hpp"
#include "agent/observe/metrics.hpp"
#include "agent/options/config.hpp"

namespace lb::agent {

/// How changed options take effect.
enum class ChangeKind : std::uint8_t {
  none,        ///< no option that the agent uses has changed
  live,        ///< only the log, the kernel's conntrack, or the process's OOM score
  begin_again  ///< any other option: the next agent in this process takes over the pinned maps
};

[[nodiscard]] ChangeKind change_between(const AgentOptions& now, const AgentOptions& next);

/// Applies the options that can change live, and the ones about the options' source. All others stay
/// unchanged: the agent's components refer to them.
void take_live(AgentOptions& options, AgentOptions next);

/// The options from the same command line and a new text of the file, or an error message. Pure.
[[nodiscard]] std::variant<AgentOptions, std::string> options_with(const AgentOptions& now,
                                                                   const std::string& text);

class ConfigReconciler {
 public:
  struct Actions {
    std::function<void(AgentOptions)> apply_live;
    std::function<void(AgentOptions)> begin_again;
    std::function<void(std::string)> report;  ///< for `status`: the error in the file; empty: none
  };

  /// Does nothing if the options come from no file. All references must outlive this.
  ConfigReconciler(boost::asio::io_context& context, const AgentOptions& options, Metrics& metrics,
                   Actions actions);

 private:
  void take(const std::variant<std::string, ConfigRefusal>& found);
  void follow(AgentOptions next);
  void refuse(const std::string& why);
  void accept();

  const AgentOptions& options_;
  Metrics& metrics_;
  Actions actions_;
  std::string problem_;
  std::optional<ConfigWatch> watch_;
};

}  // namespace lb::agent
