// SPDX-License-Identifier: Apache-2.0
// Parses one HTTP/1.1 response as its bytes arrive: decodes the head, chunks and gzip. No I/O; only
// http_response.cpp includes Beast and zlib.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "k8s/client/transport.hpp"

namespace lb::k8s {

/// Memory is bounded: a head of 64 KiB, one piece of the body, zlib's window.
class HttpResponse {
 public:
  enum class State : std::uint8_t {
    open,     ///< more bytes are expected
    whole,    ///< complete; further bytes make it `broken`, because none were requested
    broken,   ///< not HTTP, or truncated; see problem()
    stopped,  ///< the handler returned ReadControl::stop
  };

  /// Passes head and body to `handler`; never calls end().
  explicit HttpResponse(ResponseHandler& handler);
  ~HttpResponse();
  HttpResponse(const HttpResponse&) = delete;
  HttpResponse& operator=(const HttpResponse&) = delete;

  /// Do not call again after a result other than `open`.
  State feed(std::string_view bytes);
  /// Call when the server has closed the connection in an orderly way.
  State close();

  /// Whether the connection may be reused for another request; valid once `whole`.
  [[nodiscard]] bool keep_alive() const;
  /// Whether any byte of the response has arrived.
  [[nodiscard]] bool begun() const;
  [[nodiscard]] const std::string& problem() const;

 private:
  struct Work;
  std::unique_ptr<Work> work_;
};

}  // namespace lb::k8s
