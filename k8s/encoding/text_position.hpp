// SPDX-License-Identifier: Apache-2.0
// Finds the position of a value in a text: a slow second pass, run only after a problem.
#pragma once

#include <cstddef>
#include <string_view>

namespace lb::k8s {

/// The offset of the value at a JSON pointer (RFC 6901); if it does not exist, the offset of the innermost
/// existing container.
[[nodiscard]] std::size_t locate(std::string_view json, std::string_view pointer);

/// The offset of the first syntax error; the text's end if it is truncated.
[[nodiscard]] std::size_t syntax_error_at(std::string_view json);

/// Whether a text is one JSON value with white space, as far as these functions check.
[[nodiscard]] bool is_json(std::string_view text);

/// The line number of an offset, counted from 0.
[[nodiscard]] std::size_t line_at(std::string_view text, std::size_t at);

}  // namespace lb::k8s
