// Reads kube-proxy's configuration file, and turns it into the agent's options and remarks for the log.
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

/// Why a file cannot be used: a sentence each, with its name and, where there is one, the line.
using ConfigRefusal = std::vector<std::string>;

/// A ConfigMap holds no more.
inline constexpr std::size_t most_config_bytes = std::size_t{1} << 20U;

/// The whole file, or one sentence.
[[nodiscard]] std::variant<std::string, ConfigRefusal> read_config_file(const std::string& path);

/// Pure.
[[nodiscard]] std::variant<LoadedConfig, ConfigRefusal> load_config_text(std::string_view path,
                                                                         std::string text);

[[nodiscard]] std::variant<LoadedConfig, ConfigRefusal> load_config_file(const std::string& path);

/// The sentences as one text; `between` separates them.
[[nodiscard]] std::string refusal_text(const ConfigRefusal& refusal, std::string_view between);

}  // namespace lb::agent
