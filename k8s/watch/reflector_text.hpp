// SPDX-License-Identifier: Apache-2.0
// Formats and parses the reflector's texts: queries and media types. Included by reflector*.cpp.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "k8s/watch/reflector.hpp"

namespace lb::k8s {

inline constexpr std::string_view json_type = "application/json";
inline constexpr std::string_view protobuf_type = "application/vnd.kubernetes.protobuf";
/// Limit for the body of an error response; a Status is shorter.
inline constexpr std::size_t max_error_bytes = 16384;

/// A path and its query, percent-encoded.
class Query {
 public:
  explicit Query(std::string_view path) : text_(path) {}

  /// Adds a parameter, unless its value is empty.
  void add(std::string_view name, std::string_view value);
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
  char separator_ = '?';
};

/// The encoding named by a Content-Type with or without parameters; nullopt for others.
[[nodiscard]] std::optional<ApiEncoding> encoding_of(std::string_view content_type);
/// The Content-Type for messages: truncated, without control characters.
[[nodiscard]] std::string printable_type(std::string_view content_type);

}  // namespace lb::k8s
