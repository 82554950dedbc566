// SPDX-License-Identifier: Apache-2.0
// Reads small credential files whole.
#include "k8s/client/credentials.hpp"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "k8s/client/bounded_file.hpp"
#include "k8s/encoding/rules.hpp"

namespace lb::k8s {
namespace {

constexpr std::size_t max_bytes = std::size_t{1} << 20U;

}  // namespace

Credential::Change Credential::refresh() {
  std::string now = material_.text;
  if (now.empty() && !material_.file.empty()) {
    const int error = read_bounded(material_.file, max_bytes, now);
    problem_ = error == 0 ? ""
                          : fmt::format("cannot read {}: {}", material_.file,
                                        std::generic_category().message(error));
    if (error != 0) {
      return Change::none;
    }
  }
  return std::exchange(text_, std::move(now)) == text_ ? Change::none : Change::changed;
}

std::string bearer_token(const std::string& text) {
  const auto token = rules::trimmed(text);
  for (const char c : token) {
    if (c <= ' ' || c >= 0x7f) {
      return {};
    }
  }
  return std::string(token);
}

}  // namespace lb::k8s
