// From kube-proxy's configuration to the agent's options. Pure.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "agent/options/kube_proxy_config.hpp"

namespace lb::agent {

/// One option of the agent's command line.
struct OptionSetting {
  std::string option;  ///< with its dashes
  std::string value;   ///< a flag's is "true" or "false"; empty: nothing, whatever the default is
  bool operator==(const OptionSetting&) const = default;
};

struct FieldRemark {
  enum class Level : std::uint8_t { info, warning } level = Level::info;
  ConfigProblem about;
  bool operator==(const FieldRemark&) const = default;
};

struct MappedConfig {
  /// Every option that some field always decides about is here, also where the file does not give the field:
  /// kube-proxy takes its default then, whatever its flags say.
  std::vector<OptionSetting> settings;
  std::vector<FieldRemark> remarks;
};

/// Values that kube-proxy refuses are errors.
[[nodiscard]] std::variant<MappedConfig, std::vector<ConfigProblem>> map_kube_proxy_config(
    const KubeProxyConfig& config);

}  // namespace lb::agent
