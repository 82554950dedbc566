// SPDX-License-Identifier: Apache-2.0
// All fields of kube-proxy's configuration (KubeProxyConfiguration, kubeproxy.config.k8s.io/v1alpha1): type,
// kube-proxy's default, and use in Sluice. tests/unit compares the table with the upstream type as printed by
// tests/e2e/partners/fields, and docs/kube-proxy-config.md with the table.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace lb::agent {

enum class FieldType : std::uint8_t {
  text,
  boolean,
  int32,
  uint32,
  float32,
  duration,      ///< in Go's format, "1h30m"; stored in nanoseconds
  log_duration,  ///< the same, or a number of nanoseconds
  quantity,      ///< "4Ki", or a number
  texts,
  booleans,  ///< map from names to booleans
};

enum class FieldUse : std::uint8_t {
  read,      ///< determines other fields, or the agent's own behaviour
  mapped,    ///< becomes an option of the agent
  no_effect  ///< accepted; a value that would change kube-proxy is logged with the reason
};

struct ConfigField {
  std::string_view path;  ///< "conntrack.maxPerCore", "logging.vmodule[].verbosity"
  FieldType type;
  FieldUse use;
  std::string_view default_value;  ///< kube-proxy's default if the field is absent, null or zero; empty: zero
  std::string_view option;         ///< the agent's option, with its dashes; empty with no_effect
  std::string_view note;           ///< how it is used, or why not: the rest of a message
};

/// The type of a field's value. Whole numbers and durations (in nanoseconds) are std::int64_t.
using ConfigValue = std::variant<std::string, bool, std::int64_t, double, std::vector<std::string>,
                                 std::map<std::string, bool>>;

[[nodiscard]] std::span<const ConfigField> kube_proxy_fields();

/// Returns nullptr if kube-proxy has no such field.
[[nodiscard]] const ConfigField* find_field(std::string_view path);

/// Whether some field is below `path`, for example below "conntrack" or "logging.vmodule[]".
[[nodiscard]] bool is_section(std::string_view path);

/// The type's name for messages: "a text", "a duration such as 30s".
[[nodiscard]] std::string_view type_text(FieldType type);

}  // namespace lb::agent
