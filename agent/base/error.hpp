// SPDX-License-Identifier: Apache-2.0
// The agent's only exception: it cannot start. Thrown during start-up only and caught in main.
#pragma once

#include "k8s/objects/error.hpp"

namespace lb::agent {

/// what() is a message with the problem and advice; main prints it and exits with 1.
using k8s::StartError;

}  // namespace lb::agent
