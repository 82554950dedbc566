// Conversations between two hosts through whatever is between them: data in both directions, of any size.
#pragma once

#include <cstddef>
#include <optional>

#include "tests/net/lib/pod_scene.hpp"

namespace lb::test {

/// A socket of `host` at that place that takes connections (SOCK_STREAM) or messages.
[[nodiscard]] Socket serve_at(const Host& host, int type, const End& where);

/// From a socket of `client` to `where`, which leads to `server`: `bytes` there and back over TCP, with both
/// ends closed properly, or three messages there and back over UDP. Whom the server saw; nothing if any of it
/// failed or took more than three seconds without progress.
[[nodiscard]] std::optional<End> talk(const Host& client, const Socket& server, int type, const End& where,
                                      std::size_t bytes = 100'000);

/// Passes that many bytes from one connected socket to another, within 20 seconds and a second without
/// progress.
[[nodiscard]] bool pass(int from, int to, std::size_t bytes);

/// The next connection of a listener, waiting at most three seconds; invalid otherwise.
[[nodiscard]] maps::Fd take(const Socket& server);

}  // namespace lb::test
