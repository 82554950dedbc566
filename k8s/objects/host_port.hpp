// SPDX-License-Identifier: Apache-2.0
// Formats an address, or a name, together with a port.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lb::k8s {

/// "10.0.0.1:80", "node:80", "[fd00::1]:80": brackets if the host contains colons.
[[nodiscard]] std::string host_port(std::string_view host, std::string_view port);
[[nodiscard]] std::string host_port(std::string_view host, std::uint32_t port);

}  // namespace lb::k8s
