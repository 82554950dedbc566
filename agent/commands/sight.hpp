// SPDX-License-Identifier: Apache-2.0
// Whether a command may look at what it is to report: without the rights, nothing seems to be there.
#pragma once

#include "maps/mapset.hpp"

namespace lb::agent {

/// Throws StartError if the pins cannot be read. Pins that do not exist are no error.
void require_sight(const maps::Pins& pins);

/// Likewise, and if this process may not look at netfilter's tables and at filters.
void require_whole_sight(const maps::Pins& pins);

}  // namespace lb::agent
