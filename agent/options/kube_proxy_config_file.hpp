// SPDX-License-Identifier: Apache-2.0
// Reads kube-proxy's configuration file, and converts it to the agent's options and remarks for the log.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/options/config.hpp"
#include "agent/options/kube_proxy_config_options.hpp"

namespace lb::agent {

struct LoadedConfig {
  std::string text;
  std::vector<OptionSetting> settings;
  std::vector<ConfigRemark> remarks;
};

/// Messages about why a file cannot be used, each with the file's name and, if known, the line.
using ConfigRefusal = std::vector<std::string>;

/// Maximum size of a ConfigMap.
inline constexpr std::size_t max_config_bytes = std::size_t{1} << 20U;

/// The whole file, or one message.
[[nodiscard]] std::variant<std::string, ConfigRefusal> read_config_file(const std::string& path);

/// Like load_config_file(), for a text that was read already. Pure.
[[nodiscard]] std::variant<LoadedConfig, ConfigRefusal> load_config_text(std::string_view path,
                                                                         std::string text);

[[nodiscard]] std::variant<LoadedConfig, ConfigRefusal> load_config_file(const std::string& path);

/// All messages as one text, separated by `between`.
[[nodiscard]] std::string refusal_text(const ConfigRefusal& refusal, std::string_view between);

}  // namespace lb::agent
