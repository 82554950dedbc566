// SPDX-License-Identifier: Apache-2.0
// The connections, timers and clock that ApiSource uses in production: connections of an ApiClient, Asio
// timers, and the steady clock.
#pragma once

#include <cstdint>

#include "k8s/client/http_client.hpp"
#include "k8s/watch/api_source.hpp"

namespace lb::k8s {

/// `context` and `client` must outlive every source that uses the runtime.
[[nodiscard]] ApiRuntime asio_runtime(boost::asio::io_context& context, ApiClient& client,
                                      std::uint32_t seed);

}  // namespace lb::k8s
