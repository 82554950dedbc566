// A KubeProxyConfiguration as written: which fields it sets, each with its type. Pure.
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

/// Something about a field; to be reported with the file's name.
struct ConfigProblem {
  std::size_t line = 0;  ///< counted from 1; 0: none, as of a flag
  std::string field;     ///< empty: the whole file
  std::string reason;    ///< with what to do
  bool operator==(const ConfigProblem&) const = default;
};

/// "config.conf:12: mode: ..."
[[nodiscard]] std::string problem_text(std::string_view file, const ConfigProblem& problem);

struct KubeProxyConfig {
  struct Said {
    ConfigValue value;
    std::size_t line = 0;
  };
  std::map<std::string, Said, std::less<>> fields;  ///< by path; null is as absent
  /// What kube-proxy decodes all the same and warns of: fields that it does not know, fields given twice (of
  /// which the last counts).
  std::vector<ConfigProblem> warnings;
};

/// As kube-proxy decodes v1alpha1: strictly, and what only strictness refuses (unknown fields, fields given
/// twice) leniently with a warning. A text that cannot be parsed, another apiVersion or kind, and a value of
/// another type are errors.
[[nodiscard]] std::variant<KubeProxyConfig, std::vector<ConfigProblem>> read_kube_proxy_config(
    std::string_view text);

/// As Go's time.ParseDuration: "1h30m", "-1.5s", "0"; in nanoseconds.
[[nodiscard]] std::optional<std::int64_t> parse_go_duration(std::string_view text);

/// A field's value as a flag of kube-proxy's says it; nothing where it cannot be of this type.
[[nodiscard]] std::optional<ConfigValue> parse_flag_value(FieldType type, std::string_view text);

}  // namespace lb::agent
