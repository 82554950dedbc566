// SPDX-License-Identifier: Apache-2.0
// Requests to the API server and its responses: the interface between the pure side (reflector, source) and
// the side with sockets (client).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lb::k8s {

/// Time since a fixed instant; monotonic.
using Time = std::chrono::milliseconds;

/// `fresh`: use a new connection, and resolve its server's name again (REL-77).
enum class Connection : std::uint8_t { any, fresh };

/// The method of a request with a body.
enum class BodyMethod : std::uint8_t { post, json_patch };

/// A GET, or a request with a body. The server may receive a request twice, if the connection ends before the
/// response.
struct ApiRequest {
  std::string target;  ///< path and query, percent-encoded
  std::string accept;
  Connection connection = Connection::any;
  std::string body = {};  ///< JSON; empty: a GET
  BodyMethod method = BodyMethod::post;
};

struct ApiHead {
  unsigned status = 0;
  std::string content_type;
  std::optional<std::chrono::seconds> retry_after;
};

enum class End : std::uint8_t {
  complete,     ///< the body is complete
  truncated,    ///< the connection ended before the body did, or its framing was invalid
  unreachable,  ///< no head arrived: no address, no connection, no TLS
  timed_out,    ///< the deadline passed
  stopped,      ///< the handler returned ReadControl::stop
};

/// Whether to read the rest of a response.
enum class ReadControl : std::uint8_t { proceed, stop };

/// Receives one response: head(), body()… and in any case end(). After ReadControl::stop only
/// end(End::stopped).
class ResponseHandler {
 public:
  virtual ~ResponseHandler() = default;
  virtual ReadControl head(const ApiHead& head) = 0;
  /// A piece of the body, decompressed; valid until the call returns.
  virtual ReadControl body(std::string_view bytes) = 0;
  /// `detail` is for messages: the server and what failed; may be empty if nothing failed.
  virtual void end(End how, std::string detail) = 0;
};

/// A connection to the API servers for one request at a time.
class ApiConnection {
 public:
  virtual ~ApiConnection() = default;
  /// Sends a request and passes the response to `handler`, after this call has returned. The previous request
  /// must have ended.
  virtual void ask(const ApiRequest& request, ResponseHandler& handler) = 0;
  /// Cancels the request under way: its handler is not called any more.
  virtual void cancel() = 0;
  /// The current or last used server: "https://10.0.0.1:6443"; empty: none yet.
  [[nodiscard]] virtual std::string server() const = 0;
};

}  // namespace lb::k8s
