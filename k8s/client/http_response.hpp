// Parses one HTTP/1.1 response as its bytes arrive: removes the head, chunks and gzip. No I/O; Beast and zlib
// stay in http_response.cpp.
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
    open,     ///< more is to come
    whole,    ///< came to its end; bytes after it break it, because none were asked for
    broken,   ///< is no HTTP, or ends too early; problem() says why
    stopped,  ///< the reader wants no more
  };

  /// Passes to `reader` head and body, never end().
  explicit HttpResponse(AnswerReader& reader);
  ~HttpResponse();
  HttpResponse(const HttpResponse&) = delete;
  HttpResponse& operator=(const HttpResponse&) = delete;

  /// Not to be called again once it has answered anything but `open`.
  State feed(std::string_view bytes);
  /// The server has ended the connection in an orderly way.
  State close();

  /// Whether another request may follow on the connection; once it is `whole`.
  [[nodiscard]] bool keep_alive() const;
  /// Whether anything of it has come.
  [[nodiscard]] bool begun() const;
  [[nodiscard]] const std::string& problem() const;

 private:
  struct Work;
  std::unique_ptr<Work> work_;
};

}  // namespace lb::k8s
