// `sluice alive`: what a container's probe asks, where another process may hold the health port.
#pragma once

#include "agent/options/config.hpp"

namespace lb::agent {

/// 0 while an agent holds these pins and has lately looked after them; else prints why not, and 1.
[[nodiscard]] int run_alive(const ShowOptions& options);

}  // namespace lb::agent
