// SPDX-License-Identifier: Apache-2.0
// The current certificates, keys and tokens: their files are read again, because they rotate (REL-34). No
// TLS.
#pragma once

#include <cstdint>
#include <string>

#include "k8s/client/access.hpp"

namespace lb::k8s {

/// One Material's text. If its file cannot be read, the last text is kept.
class Credential {
 public:
  enum class Change : std::uint8_t { none, changed };

  explicit Credential(Material material) : material_(std::move(material)) {}

  /// Reads the file; files are small, and connections are few.
  Change refresh();
  [[nodiscard]] const std::string& text() const { return text_; }
  /// Why the last read of the file failed; empty if it succeeded, or there is no file.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  Material material_;
  std::string text_;
  std::string problem_;
};

/// The token for an HTTP header, without surrounding white space; empty if it contains anything but visible
/// ASCII.
[[nodiscard]] std::string bearer_token(const std::string& text);

}  // namespace lb::k8s
