// SPDX-License-Identifier: Apache-2.0
// Converts kube-proxy's configuration to the agent's options. Pure.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "agent/options/kube_proxy_config.hpp"

namespace lb::agent {

/// One option of the agent's command line.
struct OptionSetting {
  std::string option;  ///< name with its dashes
  std::string value;   ///< "true" or "false" for a flag; empty: no value, instead of the default
  bool operator==(const OptionSetting&) const = default;
};

struct FieldRemark {
  enum class Level : std::uint8_t { info, warning } level = Level::info;
  ConfigProblem about;
  bool operator==(const FieldRemark&) const = default;
};

struct MappedConfig {
  /// Contains every option that some field always determines, even if the file does not set the field:
  /// kube-proxy then uses the field's default and ignores flags.
  std::vector<OptionSetting> settings;
  std::vector<FieldRemark> remarks;
};

/// Values that kube-proxy rejects are errors.
[[nodiscard]] std::variant<MappedConfig, std::vector<ConfigProblem>> map_kube_proxy_config(
    const KubeProxyConfig& config);

}  // namespace lb::agent
