// A configuration file's text, YAML or JSON, as a tree that knows its lines and what was given twice. Pure.
#pragma once

#include <boost/json/value.hpp>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lb::agent {

struct ConfigNode {
  std::size_t line = 0;                                     ///< counted from 1
  boost::json::value scalar;                                ///< of what is neither of the following
  std::vector<std::pair<std::string, ConfigNode>> members;  ///< of a mapping, in the text's order
  std::vector<ConfigNode> elements;                         ///< of a list
  enum class Kind : std::uint8_t { scalar, mapping, list } kind = Kind::scalar;

  [[nodiscard]] bool is_null() const { return kind == Kind::scalar && scalar.is_null(); }
};

struct ConfigSyntaxError {
  std::size_t line = 0;  ///< counted from 1
  std::string reason;    ///< the rest of a sentence that begins with the file's name
};

/// A text whose first character is '{' is JSON, all else YAML (of one document; see k8s/yaml.hpp).
[[nodiscard]] std::variant<ConfigNode, ConfigSyntaxError> parse_config_text(std::string_view text);

}  // namespace lb::agent
