// The one exception of the agent: it cannot start. Thrown during start-up only and caught in main.
#pragma once

#include "k8s/objects/error.hpp"

namespace lb::agent {

/// what() is one sentence that says what is wrong and what to do; main prints it and exits with 1.
using k8s::StartError;

}  // namespace lb::agent
