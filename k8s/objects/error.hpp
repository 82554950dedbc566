// SPDX-License-Identifier: Apache-2.0
// The exception of this library: only for "cannot start". Later errors are values.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace lb::k8s {

/// A source cannot start. what() is a message for the user, with advice.
class StartError : public std::runtime_error {
 public:
  explicit StartError(const std::string& message) : std::runtime_error(message), found_(message) {}
  /// In two parts: "FOUND: ADVICE".
  StartError(std::string found, std::string advice)
      : std::runtime_error(found + ": " + advice), found_(std::move(found)), advice_(std::move(advice)) {}

  /// The problem; the whole message if it was not given in two parts.
  [[nodiscard]] const std::string& found() const noexcept { return found_; }
  /// The advice; empty if it is part of found().
  [[nodiscard]] const std::string& advice() const noexcept { return advice_; }

 private:
  std::string found_;
  std::string advice_;
};

}  // namespace lb::k8s
