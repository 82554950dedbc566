// SPDX-License-Identifier: Apache-2.0
// Prerequisites of a start, or of a check of the hooks.
#pragma once

#include <string>
#include <vector>

namespace lb::agent {

/// Throws StartError if a device does not exist, or if there are more than can be served.
void require_devices(const std::vector<std::string>& names);

/// The secret shared by all nodes of the cluster; empty if `path` is empty. Throws StartError.
[[nodiscard]] std::string read_secret(const std::string& path);

/// Why there are no free descriptors for checking hooks; empty: there are. Without descriptors, existing
/// devices and pins seem to be missing, and attached programs must not be given up for that (REL-42).
[[nodiscard]] std::string descriptor_shortage();

}  // namespace lb::agent
