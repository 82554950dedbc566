// Converts one YAML document to JSON with the same lines, so that a line of the JSON is the line of the
// document.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lb::k8s {

/// Scalars are read by YAML 1.2's core schema: null, true and false, numbers; quoted text stays text, and so
/// do YAML 1.1's yes, no, on and off (which the decoder then refuses where true or false is due), dates and
/// 1:30. A number with a leading zero is decimal; 0o and 0x are octal and hexadecimal. Refused: more than one
/// document, merge keys ("<<"), keys that are no scalars, unknown tags, more than 100 levels, aliases that
/// would blow the text up (REL-86).
struct YamlResult {
  std::string json;      ///< whole if `error` is empty; null for a document of comments only
  std::string error;     ///< why it is none; empty if it is one
  std::size_t line = 0;  ///< of the error, counted from 0
};

[[nodiscard]] YamlResult yaml_to_json(std::string_view yaml);

}  // namespace lb::k8s
