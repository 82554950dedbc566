// SPDX-License-Identifier: Apache-2.0
// The agent's rounds over connected UDP sockets whose backend is gone.
#pragma once

#include "agent/attach/stale_udp_sockets.hpp"
#include "tests/net/lib/pod_scene.hpp"
#include "tests/net/lib/scene.hpp"

namespace lb::test {

/// Runs one round as the agent does. Fails if none was reported within a minute.
[[nodiscard]] agent::UdpRound udp_round(const PodScene& scene);

/// SO_ERROR, which is cleared.
[[nodiscard]] int pending_error(const Socket& socket);

/// Starts a process in a network namespace, and waits until the namespace is found by it.
[[nodiscard]] Running occupy(const Host& host);

}  // namespace lb::test
