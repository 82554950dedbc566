// SPDX-License-Identifier: Apache-2.0
#include "k8s/objects/host_port.hpp"

#include <fmt/format.h>

namespace lb::k8s {

std::string host_port(std::string_view host, std::string_view port) {
  const bool brackets = host.find(':') != std::string_view::npos;
  return fmt::format("{}{}{}:{}", brackets ? "[" : "", host, brackets ? "]" : "", port);
}

std::string host_port(std::string_view host, std::uint32_t port) {
  return host_port(host, fmt::format("{}", port));
}

}  // namespace lb::k8s
