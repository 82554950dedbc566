// What a start, or a check of the hooks, requires and may lack.
#pragma once

#include <string>
#include <vector>

namespace lb::agent {

/// Throws StartError if one is absent, or if they are more than can be served.
void require_devices(const std::vector<std::string>& names);

/// What all nodes of the cluster share; empty where no file was named. Throws StartError.
[[nodiscard]] std::string read_secret(const std::string& path);

/// Why there are no descriptors to look after hooks with; empty: there are. Without them devices and pins
/// that are there seem to be gone, and what is attached must not be given up for that (REL-42).
[[nodiscard]] std::string descriptor_shortage();

}  // namespace lb::agent
