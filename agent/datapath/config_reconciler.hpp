// Handles a change of the configuration file while the agent runs: a valid one is applied, an invalid one
// leaves the last valid one in force and is reported by log, metric and `status`.
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

/// How options that have changed come into force.
enum class ChangeKind : std::uint8_t {
  none,        ///< nothing has changed that the agent looks at
  live,        ///< the log, the kernel's conntrack, the process's OOM score
  begin_again  ///< all else: the next agent of this process takes over what is pinned
};

[[nodiscard]] ChangeKind change_between(const AgentOptions& now, const AgentOptions& next);

/// Brings what can change live into force, and what says where the options come from. All else stays where it
/// is: the agent's parts refer to it.
void take_live(AgentOptions& options, AgentOptions next);

/// The options of the same command line and another text of the file, or why there are none. Pure.
[[nodiscard]] std::variant<AgentOptions, std::string> options_with(const AgentOptions& now,
                                                                   const std::string& text);

class ConfigReconciler {
 public:
  struct Actions {
    std::function<void(AgentOptions)> apply_live;
    std::function<void(AgentOptions)> begin_again;
    std::function<void(std::string)> report;  ///< what is wrong with the file, to `status`; empty: nothing
  };

  /// Does nothing where the options come from no file. All references must outlive this.
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
