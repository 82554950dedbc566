// SPDX-License-Identifier: Apache-2.0
// File descriptors: the process's limit, and who may use how many of them.
#pragma once

#include <cstddef>

namespace lb::agent {

/// Raises the soft limit of open files to the hard one, and returns the limit then in force. A limit that
/// cannot be read counts as the usual 1024.
std::size_t raise_descriptor_limit() noexcept;

/// Descriptors that others cause the agent to open.
struct DescriptorShares {
  std::size_t listeners = 0;  ///< of health-check node ports
  std::size_t clients = 0;    ///< of all of these
};

/// Divides the limit: at least half of it, or 512, stays for maps, programs, hooks, the API, and the agent's
/// own servers. Pure.
[[nodiscard]] DescriptorShares descriptor_shares(std::size_t limit) noexcept;

}  // namespace lb::agent
