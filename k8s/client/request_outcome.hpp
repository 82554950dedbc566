// How a request to the API ended, for metrics.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace lb::k8s {

/// Its head came, or it is known that none will.
struct RequestOutcome {
  std::string host;                            ///< of the server that was asked last: "10.0.0.1:6443"
  std::string_view method;                     ///< "GET", "POST" or "PATCH"
  bool is_watch = false;                       ///< whose answer goes on for as long as it is heard
  unsigned status = 0;                         ///< 0: no head came
  std::chrono::steady_clock::duration took{};  ///< from before a connection is made until then
};

}  // namespace lb::k8s
