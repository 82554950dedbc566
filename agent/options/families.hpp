// SPDX-License-Identifier: Apache-2.0
// The IP families that this host supports (SEM-85).
#pragma once

#include <string>
#include <vector>

#include "maps/abi/abi.h"

namespace lb::agent {

/// IPv4 always; IPv6 unless the kernel lacks it or it is disabled for all devices. `root` is "" except in
/// tests.
[[nodiscard]] std::vector<lb_family> host_families(const std::string& root);

}  // namespace lb::agent
