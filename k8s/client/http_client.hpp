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

/// Where a server listens.
struct ServerAddress {
  Address address;
  std::uint16_t port = 0;
  auto operator<=>(const ServerAddress&) const = default;
};

/// How long one step to one server may take, before the next address or server is tried. Waiting for answers
/// is the asker's matter.
struct ConnectTimeouts {
  std::chrono::milliseconds resolve{5'000};
  std::chrono::milliseconds connect{3'000};  ///< to one address
  std::chrono::milliseconds handshake{5'000};
};

/// All connections to the same servers, with the same credentials. Certificates, keys and tokens in files are
/// read again for each request; what has changed is used at once, on a new connection. The server's
/// certificate is verified for its host's name or address. Redirects are answers like others, and a token
/// goes nowhere but to the named servers over TLS (REL-34, REL-87).
class ApiClient {
 public:
  using Warn = std::function<void(std::string sentence)>;
  using Report = std::function<void(const RequestOutcome& outcome)>;

  /// Throws StartError if the credentials cannot be used. `warn` is called with what goes wrong with them
  /// later.
  ApiClient(boost::asio::io_context& context, ApiAccess access, Warn warn, ConnectTimeouts timeouts = {},
            Lookup lookup = look_up_by_system);
  ~ApiClient();
  ApiClient(const ApiClient&) = delete;
  ApiClient& operator=(const ApiClient&) = delete;

  /// Where the servers are, as far as is known: addresses that are given, and those that names had when they
  /// were asked for. `notify` is called whenever there are more.
  [[nodiscard]] std::vector<ServerAddress> addresses() const;
  void on_addresses(std::function<void()> notify);

  /// Calls `report` for each request from now on, but for one that is cancelled before its head comes.
  void on_outcome(Report report);

  /// A connection that it opens when asked and keeps for its next request. May outlive the client.
  [[nodiscard]] std::unique_ptr<ApiConnection> connection();

 private:
  struct Shared;
  class OpenConnection;
  std::shared_ptr<Shared> shared_;
};

}  // namespace lb::k8s
