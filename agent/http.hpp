// A small HTTP server for probes and scrapes: read-only, bounded, every wait with a deadline (REL-57). Beast
// stays in http.cpp.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "agent/config.hpp"

namespace boost::asio {
class io_context;
}

namespace lb::agent {

struct HttpRequest {
  std::string path;  ///< without the query
};

struct HttpResponse {
  unsigned status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

/// Answers one GET or HEAD; runs in the agent's thread, so it must be quick.
using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

struct HttpLimits {
  std::chrono::milliseconds read{10'000};   ///< for a whole request, idle time before it included
  std::chrono::milliseconds write{10'000};  ///< for a whole response
  std::uint32_t header_bytes = 8192;        ///< a request has no body
  std::size_t connections = 64;             ///< one more closes the oldest
};

class HttpServer {
 public:
  /// Listens at once and throws StartError if that fails. `context` must outlive it.
  HttpServer(boost::asio::io_context& context, const Listen& listen, HttpHandler handler,
             HttpLimits limits = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// The port it listens on, which the kernel chose if 0 was asked for.
  [[nodiscard]] std::uint16_t port() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lb::agent
