// SPDX-License-Identifier: Apache-2.0
// Sends requests to the API servers over TLS and HTTP/1.1: the side with sockets.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "k8s/client/access.hpp"
#include "k8s/client/request_outcome.hpp"
#include "k8s/client/resolver.hpp"
#include "k8s/client/transport.hpp"
#include "k8s/objects/model.hpp"

namespace boost::asio {
class io_context;
}

namespace lb::k8s {

/// The address and port on which a server listens.
struct ServerAddress {
  Address address;
  std::uint16_t port = 0;
  auto operator<=>(const ServerAddress&) const = default;
};

/// Timeouts of one step with one server, before the next address or server is tried. The caller limits the
/// time for responses.
struct ConnectTimeouts {
  std::chrono::milliseconds resolve{5'000};
  std::chrono::milliseconds connect{3'000};  ///< to one address
  std::chrono::milliseconds handshake{5'000};
};

/// All connections to the same servers, with the same credentials. Files with certificates, keys and tokens
/// are read again for each request; changes are used at once, on a new connection. The server's certificate
/// is verified for its host's name or address. Redirects are not followed, and a token is sent only to the
/// configured servers and over TLS (REL-34, REL-87).
class ApiClient {
 public:
  using Warn = std::function<void(std::string message)>;
  using Report = std::function<void(const RequestOutcome& outcome)>;

  /// Throws StartError if the credentials cannot be used. `warn` is called for later problems with them.
  ApiClient(boost::asio::io_context& context, ApiAccess access, Warn warn, ConnectTimeouts timeouts = {},
            Lookup lookup = look_up_by_system);
  ~ApiClient();
  ApiClient(const ApiClient&) = delete;
  ApiClient& operator=(const ApiClient&) = delete;

  /// Known addresses of the servers: the configured ones, those that led to one, and a few of those that a
  /// name resolved to beside them when it last led to its server. `notify` is called whenever they are
  /// others.
  [[nodiscard]] std::vector<ServerAddress> addresses() const;
  void on_addresses(std::function<void()> notify);

  /// Calls `report` for each request from now on, except requests cancelled before the response's head
  /// arrives.
  void on_outcome(Report report);

  /// Makes a connection, which is opened by the first request and kept for the next one. May outlive the
  /// client.
  [[nodiscard]] std::unique_ptr<ApiConnection> connection();

 private:
  struct Shared;
  class OpenConnection;
  std::shared_ptr<Shared> shared_;
};

}  // namespace lb::k8s
