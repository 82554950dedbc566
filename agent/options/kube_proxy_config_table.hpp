// Every field of kube-proxy's configuration (KubeProxyConfiguration, kubeproxy.config.k8s.io/v1alpha1), once:
// its type, kube-proxy's default, and what Sluice does with it. tests/unit compares the table with what
// tests/e2e/partners/fields prints of the upstream type, and docs/kube-proxy-config.md with the table.
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
  duration,      ///< as Go writes it, "1h30m"; held in nanoseconds
  log_duration,  ///< the same, or a number of nanoseconds
  quantity,      ///< "4Ki", or a number
  texts,
  booleans,  ///< by name
};

enum class FieldUse : std::uint8_t {
  read,      ///< decides about others, or about what the agent does itself
  mapped,    ///< becomes an option of the agent
  no_effect  ///< accepted; a value that would change kube-proxy is named in the log with the reason
};

struct ConfigField {
  std::string_view path;  ///< "conntrack.maxPerCore", "logging.vmodule[].verbosity"
  FieldType type;
  FieldUse use;
  std::string_view standard;  ///< what kube-proxy takes where the field is absent, null or zero; empty: zero
  std::string_view option;    ///< of the agent, with its dashes; of no_effect none
  std::string_view note;      ///< how it is used, or why it is not: the rest of a sentence
};

/// By path. Whole numbers and durations (in nanoseconds) are std::int64_t.
using ConfigValue = std::variant<std::string, bool, std::int64_t, double, std::vector<std::string>,
                                 std::map<std::string, bool>>;

[[nodiscard]] std::span<const ConfigField> kube_proxy_fields();

/// Null: kube-proxy has no such field.
[[nodiscard]] const ConfigField* find_field(std::string_view path);

/// Does some field lie below `path`, as below "conntrack" and "logging.vmodule[]"?
[[nodiscard]] bool is_section(std::string_view path);

/// As people write it in a sentence: "a text", "a duration such as 30s".
[[nodiscard]] std::string_view type_text(FieldType type);

}  // namespace lb::agent
