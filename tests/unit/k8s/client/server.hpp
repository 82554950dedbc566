// An HTTP server for tests that does exactly what a test says, also what no server should; with or without
// TLS.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lb::k8s::testing {

/// PEM.
struct Identity {
  std::string certificate;
  std::string key;
};

/// Signs certificates, made again by each test run.
class Authority {
 public:
  explicit Authority(const std::string& name);
  ~Authority();
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;

  [[nodiscard]] std::string certificate() const;
  /// `names` as OpenSSL writes them: "DNS:localhost,IP:127.0.0.1"; `common_name` names a client.
  /// Valid for `seconds` from an hour ago on; with fewer than 3,600 it has expired.
  [[nodiscard]] Identity issue(const std::string& common_name, const std::string& names,
                               long seconds = 86400) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct Asked {
  std::string target;
  std::string head;            ///< all of it
  std::size_t connection = 0;  ///< counted from 1
  std::string client;          ///< common name of its certificate
};

/// What is left of the connection when all is written.
enum class After { next_request, close, reset, silence };

struct Reply {
  std::vector<std::string> pieces;  ///< each is written by itself
  After after = After::next_request;
};

struct ServerOptions {
  std::string address = "127.0.0.1";
  std::optional<Identity> tls;
  std::string client_authority;  ///< PEM; empty: no client certificate is asked for
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
  /// Connections that came, TLS or not.
  [[nodiscard]] std::size_t connections() const;
  /// Listens no more and closes what is open.
  void stop();
  /// Closes what is open, but goes on to listen.
  void cut();
  /// Writes to every connection that is silent.
  void push(std::string bytes);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// With a length.
[[nodiscard]] std::string answer(int status, const std::string& body, const std::string& fields = "");
/// The head of a chunked answer, and a chunk.
[[nodiscard]] std::string stream_head(const std::string& type = "application/json");
[[nodiscard]] std::string chunk(const std::string& bytes);
inline const std::string last_chunk = "0\r\n\r\n";

/// Runs the context until `done`, at most for ten seconds; whether it came.
[[nodiscard]] bool run_until(boost::asio::io_context& context, const std::function<bool()>& done,
                             std::chrono::milliseconds most = std::chrono::seconds(10));

}  // namespace lb::k8s::testing
