// SPDX-License-Identifier: Apache-2.0
// A KubeProxyConfiguration as written: the fields that it sets, each with its type. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/options/kube_proxy_config_table.hpp"

namespace lb::agent {

/// A message about a field; reported with the file's name.
struct ConfigProblem {
  std::size_t line = 0;  ///< counted from 1; 0: none, for example for a flag
  std::string field;     ///< empty: the whole file
  std::string reason;    ///< includes advice
  bool operator==(const ConfigProblem&) const = default;
};

/// "config.conf:12: mode: ..."
[[nodiscard]] std::string problem_text(std::string_view file, const ConfigProblem& problem);

struct KubeProxyConfig {
  struct Field {
    ConfigValue value;
    std::size_t line = 0;
  };
  std::map<std::string, Field, std::less<>> fields;  ///< by path; a null value counts as absent
  /// Fields that kube-proxy accepts with a warning: unknown fields, and duplicate fields (the last one
  /// counts).
  std::vector<ConfigProblem> warnings;
};

/// Decodes v1alpha1 like kube-proxy: strictly, and what only strict decoding rejects (unknown and duplicate
/// fields) leniently with a warning. A text that cannot be parsed, another apiVersion or kind, and a value of
/// another type are errors.
[[nodiscard]] std::variant<KubeProxyConfig, std::vector<ConfigProblem>> read_kube_proxy_config(
    std::string_view text);

/// Parses like Go's time.ParseDuration: "1h30m", "-1.5s", "0"; in nanoseconds.
[[nodiscard]] std::optional<std::int64_t> parse_go_duration(std::string_view text);

/// Parses a field's value from a kube-proxy flag; nullopt if it is not of this type.
[[nodiscard]] std::optional<ConfigValue> parse_flag_value(FieldType type, std::string_view text);

}  // namespace lb::agent
