// Requests to the API server and its responses: the interface between the pure side (reflector, source) and
// the side with sockets (client).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lb::k8s {

/// Time since any fixed instant; never goes back.
using Time = std::chrono::milliseconds;

/// `fresh`: on a new connection, its server's address resolved again (REL-77).
enum class Connection : std::uint8_t { any, fresh };

/// What is done with a request's body.
enum class BodyUse : std::uint8_t { post, json_patch };

/// A GET, or a request with a body, which may come twice where the connection ends before the answer.
struct ApiRequest {
  std::string target;  ///< path and query, percent-encoded
  std::string accept;
  Connection connection = Connection::any;
  std::string body = {};  ///< JSON; empty: a GET
  BodyUse use = BodyUse::post;
};

struct ApiHead {
  unsigned status = 0;
  std::string content_type;
  std::optional<std::chrono::seconds> retry_after;
};

enum class End : std::uint8_t {
  complete,     ///< the body came to its end
  truncated,    ///< the connection ended before the body did, or its framing was broken
  unreachable,  ///< no head came: no address, no connection, no TLS
  timed_out,    ///< the deadline passed
  stopped,      ///< the reader of the body wanted no more
};

enum class Flow : std::uint8_t { proceed, stop };

/// Receives one answer: head(), body()... and in any case end(). After Flow::stop only end(End::stopped).
class AnswerReader {
 public:
  virtual ~AnswerReader() = default;
  virtual Flow head(const ApiHead& head) = 0;
  /// A piece of the body, decompressed; lives until the call returns.
  virtual Flow body(std::string_view bytes) = 0;
  /// `detail` names the server and what failed, for people; empty where nothing did.
  virtual void end(End how, std::string detail) = 0;
};

/// A way to the API servers for one request at a time.
class ApiConnection {
 public:
  virtual ~ApiConnection() = default;
  /// Passes the answer to `reader`; nothing before this returns. The last request must have ended.
  virtual void ask(const ApiRequest& request, AnswerReader& reader) = 0;
  /// Gives the request under way up: its reader is called no more.
  virtual void cancel() = 0;
  /// The server that is, or was last, spoken to: "https://10.0.0.1:6443"; empty: none yet.
  [[nodiscard]] virtual std::string server() const = 0;
};

}  // namespace lb::k8s
