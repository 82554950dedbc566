// SPDX-License-Identifier: Apache-2.0
// Parses a configuration file, YAML or JSON, into a tree with line numbers and duplicate fields. Pure.
#pragma once

#include <boost/json/value.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace lb::agent {

struct ConfigNode {
  enum class Kind : std::uint8_t { scalar, mapping, list };
  Kind kind = Kind::scalar;
  std::string name;                  ///< name of a mapping's member
  std::size_t line = 0;              ///< counted from 1
  boost::json::value scalar;         ///< null unless a scalar
  std::vector<ConfigNode> children;  ///< a mapping's members or a list's elements, in the text's order

  [[nodiscard]] bool is_null() const { return kind == Kind::scalar && scalar.is_null(); }
};

struct ConfigSyntaxError {
  std::size_t line = 0;  ///< counted from 1
  std::string reason;    ///< the rest of a message that begins with the file's name
};

/// A text whose first character is '{' is parsed as JSON, any other as YAML (one document; see
/// k8s/encoding/yaml.hpp).
[[nodiscard]] std::variant<ConfigNode, ConfigSyntaxError> parse_config_text(std::string_view text);

}  // namespace lb::agent
