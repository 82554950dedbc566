// SPDX-License-Identifier: Apache-2.0
// A small HTTP server for probes and scrapes: read-only, bounded, every wait with a deadline (REL-57). Only
// http.cpp includes Beast.
#pragma once

#include <boost/system/result.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/options/config.hpp"

namespace boost::asio {
class io_context;
}

namespace lb::agent {

class ConnectionPool;

/// The permitted methods.
enum class HttpMethods : std::uint8_t { read_only, any };
/// Whether an IPv6 address without a zone, such as "[::]", also listens for IPv4.
enum class HttpFamilies : std::uint8_t { both, own };

struct HttpRequest {
  std::string path;  ///< without the query
};

struct HttpResponse {
  unsigned status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};  ///< besides the usual ones
};

/// "0.0.0.0:10256", "[::1]:10256".
[[nodiscard]] std::string listen_text(const Listen& listen);

/// Handles one request; runs in the agent's thread, so it must be quick.
using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

struct HttpLimits {
  std::chrono::milliseconds read{10'000};   ///< for a whole request, including idle time before it
  std::chrono::milliseconds write{10'000};  ///< for a whole response
  std::uint32_t header_bytes = 8192;
  std::uint32_t body_bytes = 0;  ///< limit of a request's body, which is read and discarded
  /// At one more, the client with most of them loses its oldest. This node's own clients have a quarter as
  /// many beside these.
  std::size_t connections = 64;
  /// Shared with other servers, instead of `connections`; nullptr: none.
  std::shared_ptr<ConnectionPool> pool = nullptr;
  HttpMethods methods = HttpMethods::read_only;
  HttpFamilies families = HttpFamilies::both;
};

class HttpServer {
 public:
  /// Listens at once, or returns an error. `context` must outlive it.
  [[nodiscard]] static boost::system::result<std::unique_ptr<HttpServer>> open(
      boost::asio::io_context& context, const Listen& listen, HttpHandler handler, HttpLimits limits = {});
  /// Likewise at start-up: throws StartError.
  [[nodiscard]] static std::unique_ptr<HttpServer> open_or_throw(boost::asio::io_context& context,
                                                                 const Listen& listen, HttpHandler handler,
                                                                 HttpLimits limits = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// The port on which it listens; chosen by the kernel if 0 was requested.
  [[nodiscard]] std::uint16_t port() const;

 private:
  struct State;
  explicit HttpServer(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace lb::agent
