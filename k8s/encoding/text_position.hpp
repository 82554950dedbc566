// Finds the position of a value in a text: a slow second pass, made only where there was a problem.
#pragma once

#include <cstddef>
#include <string_view>

namespace lb::k8s {

/// The byte at which the value that a JSON pointer (RFC 6901) names begins; where there is none, its
/// innermost container that there is.
[[nodiscard]] std::size_t locate(std::string_view json, std::string_view pointer);

/// The byte at which a text stops to be JSON: the first that cannot stand there, the end if it is cut off.
[[nodiscard]] std::size_t syntax_error_at(std::string_view json);

/// Whether a text is one JSON value and white space, as far as these functions look.
[[nodiscard]] bool is_json(std::string_view text);

/// The line of a byte, counted from 0.
[[nodiscard]] std::size_t line_at(std::string_view text, std::size_t at);

}  // namespace lb::k8s
