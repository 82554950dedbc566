// SPDX-License-Identifier: Apache-2.0
// Converts one YAML document to JSON with the same lines, so that line numbers of the JSON are those of the
// document.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lb::k8s {

/// Scalars are interpreted by YAML 1.2's core schema: null, true and false, numbers; quoted text stays text,
/// and so do YAML 1.1's yes, no, on and off (which the decoder then rejects where true or false is required),
/// dates and 1:30. A number with a leading zero is decimal; 0o and 0x are octal and hexadecimal. Rejected:
/// more than one document, merge keys ("<<"), keys that are not scalars, unknown tags, more than 100 levels,
/// aliases that would expand the text too much (REL-86).
struct YamlResult {
  std::string json;      ///< complete if `error` is empty; null for a document with only comments
  std::string error;     ///< the error message; empty if there is none
  std::size_t line = 0;  ///< line of the error, counted from 0
};

[[nodiscard]] YamlResult yaml_to_json(std::string_view yaml);

}  // namespace lb::k8s
