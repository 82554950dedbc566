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
  std::string_view name;   ///< without dashes
  std::string_view field;  ///< of the configuration; empty: `note` says what it does
  std::string_view twin;   ///< a second field that it sets, or empty
  std::string_view note;
};

/// Of Kubernetes 1.36 and 1.37, also those that its help does not show.
[[nodiscard]] std::span<const KubeProxyFlag> kube_proxy_flags();

/// Has kube-proxy a flag of this name? With its dashes.
[[nodiscard]] bool is_kube_proxy_flag(std::string_view option);

/// Is a program that is called so kube-proxy? By the last part of the path.
[[nodiscard]] bool is_kube_proxy_name(std::string_view called);

/// The command line in the agent's words.
struct TranslatedCall {
  std::vector<std::string> arguments;
  std::vector<ConfigRemark> remarks;  ///< of flags that are ignored or without effect
};

/// Flags go by pflag's rules. With --config only those count that kube-proxy takes beside it:
/// --hostname-override,
/// --master, --cleanup, --init-only and those of logging. Options of the agent that kube-proxy does not have
/// are taken too. `devices` are the agent's where none are named, separated by commas; empty: they have to
/// be.
[[nodiscard]] std::variant<TranslatedCall, Finished> translate_kube_proxy_call(
    const std::vector<std::string>& arguments, std::string_view devices);

/// That, and parse_command_line of it.
[[nodiscard]] std::variant<Options, Finished> parse_kube_proxy_command_line(
    const std::vector<std::string>& arguments, std::string_view host_name, std::string_view devices);

}  // namespace lb::agent
