// Which IP families this host supports (SEM-85).
#pragma once

#include <string>
#include <vector>

#include "maps/abi/abi.h"

namespace lb::agent {

/// IPv4 always; IPv6 unless the kernel has none or it is switched off for all devices. `root` is "" but in
/// tests.
[[nodiscard]] std::vector<lb_family> host_families(const std::string& root);

}  // namespace lb::agent
