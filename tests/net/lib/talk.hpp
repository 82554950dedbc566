// SPDX-License-Identifier: Apache-2.0
// Conversations between two hosts through the datapath: data of any size in both directions.
#pragma once

#include <cstddef>
#include <optional>

#include "tests/net/lib/pod_scene.hpp"

namespace lb::test {

/// A socket of `host` bound to `where` that accepts connections (SOCK_STREAM) or receives messages.
[[nodiscard]] Socket serve_at(const Host& host, int type, const End& where);

/// A conversation from a socket of `client` with `where`, which leads to `server`: over TCP `bytes` there and
/// back and both ends closed properly, over UDP three messages there and back. Returns the client's address
/// that the server saw; nullopt if any step failed or made no progress for three seconds.
[[nodiscard]] std::optional<End> talk(const Host& client, const Socket& server, int type, const End& where,
                                      std::size_t bytes = 100'000);

/// Sends that many bytes from one connected socket to another; fails after 20 seconds, or after a second
/// without progress.
[[nodiscard]] bool pass(int from, int to, std::size_t bytes);

/// Accepts the next connection of a listener; waits at most three seconds, and returns an invalid Fd after
/// that.
[[nodiscard]] maps::Fd take(const Socket& server);

}  // namespace lb::test
