// SPDX-License-Identifier: Apache-2.0
// An HTTP server for tests that sends exactly what a test specifies, including invalid responses; with or
// without TLS.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lb::k8s::testing {

/// A certificate and its private key as PEM.
struct Identity {
  std::string certificate;
  std::string key;
};

/// A certificate authority, created anew in each test run.
class Authority {
 public:
  explicit Authority(const std::string& name);
  ~Authority();
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;

  [[nodiscard]] std::string certificate() const;
  /// Issues a certificate. `names` are in OpenSSL's syntax: "DNS:localhost,IP:127.0.0.1"; `common_name` names
  /// a client. It is valid for `seconds` from an hour ago on; with fewer than 3,600 it has expired.
  [[nodiscard]] Identity issue(const std::string& common_name, const std::string& names,
                               long seconds = 86400) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct Asked {
  std::string target;
  std::string head;            ///< the whole request head
  std::size_t connection = 0;  ///< number of the connection, from 1
  std::string client;          ///< common name of the client's certificate
};

/// What happens to the connection after the reply.
enum class After { next_request, close, reset, silence };

struct Reply {
  std::vector<std::string> pieces;  ///< each is sent by a separate write
  After after = After::next_request;
};

struct ServerOptions {
  std::string address = "127.0.0.1";
  std::optional<Identity> tls;
  std::string client_authority;  ///< PEM; empty: the server requests no client certificate
};

class Server {
 public:
  using Handler = std::function<Reply(const Asked&)>;

  Server(boost::asio::io_context& context, ServerOptions options, Handler handler);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] unsigned short port() const;
  [[nodiscard]] const std::vector<Asked>& asked() const;
  /// The number of connections accepted so far, TLS or not.
  [[nodiscard]] std::size_t connections() const;
  /// Stops listening and closes all connections.
  void stop();
  /// Closes all connections, but keeps listening.
  void cut();
  /// Writes the bytes to every silent connection.
  void push(std::string bytes);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// A response with a Content-Length.
[[nodiscard]] std::string answer(int status, const std::string& body, const std::string& fields = "");
/// The head of a chunked response, and one chunk.
[[nodiscard]] std::string stream_head(const std::string& type = "application/json");
[[nodiscard]] std::string chunk(const std::string& bytes);
inline const std::string last_chunk = "0\r\n\r\n";

/// Runs the context until `done` returns true, at most for `most`; returns whether it did.
[[nodiscard]] bool run_until(boost::asio::io_context& context, const std::function<bool()>& done,
                             std::chrono::milliseconds most = std::chrono::minutes(1));

}  // namespace lb::k8s::testing
