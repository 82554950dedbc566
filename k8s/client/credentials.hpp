// The current certificates, keys and tokens: files are read again, because they rotate (REL-34). No TLS here.
#pragma once

#include <cstdint>
#include <string>

#include "k8s/client/access.hpp"

namespace lb::k8s {

/// One Material's text. A file that cannot be read keeps the text it had.
class Credential {
 public:
  enum class Change : std::uint8_t { none, changed };

  explicit Credential(Material material) : material_(std::move(material)) {}

  /// Reads the file; they are small, and connections are few.
  Change refresh();
  [[nodiscard]] const std::string& text() const { return text_; }
  /// Why the file could not be read the last time; empty if it could, or there is none.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  Material material_;
  std::string text_;
  std::string problem_;
};

/// Fit for a header: white space around it taken off; empty if there is anything else but visible ASCII in
/// it.
[[nodiscard]] std::string bearer_token(const std::string& text);

}  // namespace lb::k8s
