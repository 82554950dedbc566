// SPDX-License-Identifier: Apache-2.0
// kube-proxy's command line, for a process that is named kube-proxy: maps its flags to the agent's options,
// so that an image with /usr/local/bin/kube-proxy runs in kubeadm's DaemonSet unchanged. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/options/config.hpp"

namespace lb::agent {

struct KubeProxyFlag {
  std::string_view name;          ///< name without dashes
  std::string_view field;         ///< field of the configuration; empty: `note` describes its effect
  std::string_view second_field;  ///< a second field that it sets, or empty
  std::string_view note;
};

/// The flags of Kubernetes 1.36 and 1.37, including those hidden in its help.
[[nodiscard]] std::span<const KubeProxyFlag> kube_proxy_flags();

/// Whether kube-proxy has this flag, given with its dashes.
[[nodiscard]] bool is_kube_proxy_flag(std::string_view option);

/// Whether a program of this name is kube-proxy, by the last part of the path.
[[nodiscard]] bool is_kube_proxy_name(std::string_view called);

/// The command line with the agent's options.
struct TranslatedCall {
  std::vector<std::string> arguments;
  std::vector<ConfigRemark> remarks;  ///< about flags that are ignored or without effect
};

/// Parses flags by pflag's rules. With --config only those flags are used that kube-proxy uses beside it:
/// --hostname-override, --master, --cleanup, --init-only and those of logging. Options of the agent that
/// kube-proxy does not have are used too. `devices` is the default of --devices, separated by commas; empty:
/// they must be given. Pods' devices are found unless some are named.
[[nodiscard]] std::variant<TranslatedCall, Finished> translate_kube_proxy_call(
    const std::vector<std::string>& arguments, std::string_view devices);

/// Translates the command line, and parses the result by parse_command_line(). Every error has exit code 1,
/// as kube-proxy's errors have.
[[nodiscard]] std::variant<Options, Finished> parse_kube_proxy_command_line(
    const std::vector<std::string>& arguments, std::string_view host_name, std::string_view devices);

}  // namespace lb::agent
