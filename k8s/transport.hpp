// Requests to the API server and the heads of its answers, as values: what the pure side (reflector) and the
// side with sockets (client) say to each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace lb::k8s {

/// Time since any fixed instant; never goes back.
using Time = std::chrono::milliseconds;

/// `fresh`: on a new connection, its server's address resolved again (REL-77).
enum class Connection : std::uint8_t { any, fresh };

/// Always a GET.
struct ApiRequest {
  std::string target;  ///< path and query, percent-encoded
  std::string accept;
  Connection connection = Connection::any;
};

struct ApiHead {
  unsigned status = 0;
  std::string content_type;
  std::optional<std::chrono::seconds> retry_after;
};

enum class End : std::uint8_t {
  whole,        ///< the body came to its end
  cut,          ///< the connection ended before the body did, or its framing was broken
  unreachable,  ///< no head came: no address, no connection, no TLS
  silent,       ///< the deadline passed
  stopped,      ///< the reader of the body wanted no more
};

}  // namespace lb::k8s
