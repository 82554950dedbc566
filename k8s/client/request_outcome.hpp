// SPDX-License-Identifier: Apache-2.0
// The result of a request to the API, for metrics.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace lb::k8s {

/// Made when a response's head has arrived, or the request has failed before.
struct RequestOutcome {
  std::string host;                            ///< the last server tried: "10.0.0.1:6443"
  std::string_view method;                     ///< "GET", "POST" or "PATCH"
  bool is_watch = false;                       ///< the response continues for as long as the watch
  unsigned status = 0;                         ///< 0: no head arrived
  std::chrono::steady_clock::duration took{};  ///< from before connecting until then
};

}  // namespace lb::k8s
