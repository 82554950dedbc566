// SPDX-License-Identifier: Apache-2.0
// The HTTP server over real sockets on loopback: replies, errors, limits and deadlines (REL-57).
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <functional>
#include <string>
#include <thread>

#include "agent/base/error.hpp"
#include "agent/observe/http.hpp"
#include "agent/observe/listener.hpp"

namespace {

using namespace lb::agent;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

/// A server on a free port, in its own thread.
class Served {
 public:
  explicit Served(HttpLimits limits = {})
      : server_(HttpServer::open_or_throw(
            context_, Listen{"127.0.0.1", 0},
            [](const HttpRequest& request) {
              return request.path == "/hello" ? HttpResponse{200, "text/plain", "hello\n"}
                                              : HttpResponse{404, "text/plain", "no " + request.path};
            },
            limits)),
        port_(server_->port()),
        thread_([this] { context_.run(); }) {}
  ~Served() {
    boost::asio::post(context_, [this] {
      server_.reset();
      context_.stop();
    });
    thread_.join();
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  boost::asio::io_context context_;
  std::unique_ptr<HttpServer> server_;
  std::uint16_t port_;
  std::thread thread_;
};

/// A simple blocking client.
class Client {
 public:
  explicit Client(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval generous{20, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &generous, sizeof(generous));
    REQUIRE(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  }
  ~Client() { ::close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(const std::string& text) const { (void)::send(fd_, text.data(), text.size(), MSG_NOSIGNAL); }

  /// Reads until `end` was received or the server closed.
  [[nodiscard]] std::string receive(const std::string& end) const {
    std::string text;
    char byte = 0;
    while (!text.ends_with(end) && ::recv(fd_, &byte, 1, 0) == 1) {
      text += byte;
    }
    return text;
  }
  /// Reads until the server closes; fails after a timeout.
  [[nodiscard]] std::string rest() const {
    std::string text;
    char byte = 0;
    ssize_t got = 0;
    while ((got = ::recv(fd_, &byte, 1, 0)) == 1) {
      text += byte;
    }
    CHECK((got == 0 || errno == ECONNRESET));
    return text;
  }

 private:
  int fd_;
};

std::string get(const std::string& path) { return "GET " + path + " HTTP/1.1\r\nHost: node\r\n\r\n"; }

TEST_CASE("one connection serves many requests") {
  const Served served;
  const Client client(served.port());
  for (int round = 0; round < 3; ++round) {
    client.send(get("/hello?verbose=1"));
    const auto answer = client.receive("hello\n");
    CHECK_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
    CHECK_THAT(answer, ContainsSubstring("X-Content-Type-Options: nosniff\r\n"));
    CHECK_THAT(answer, ContainsSubstring("Content-Type: text/plain\r\n"));
  }
  client.send(get("/other"));
  CHECK_THAT(client.receive("no /other"), StartsWith("HTTP/1.1 404 Not Found\r\n"));
}

TEST_CASE("a client that asks for the end gets it") {
  const Served served;
  const Client client(served.port());
  client.send("GET /hello HTTP/1.0\r\n\r\n");
  CHECK_THAT(client.rest(), ContainsSubstring("\r\n\r\nhello\n"));
}

TEST_CASE("HEAD has the length and no body") {
  const Served served;
  const Client client(served.port());
  client.send("HEAD /hello HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n");
  const auto answer = client.rest();
  CHECK_THAT(answer, ContainsSubstring("Content-Length: 6\r\n"));
  CHECK(answer.ends_with("\r\n\r\n"));
}

TEST_CASE("what is no acceptable request is refused and ends the connection") {
  struct Row {
    const char* what;
    std::string request;
    const char* says;
  };
  const std::vector<Row> rows = {
      {"another method", "DELETE /hello HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n", "405 Method"},
      {"not HTTP", "hello\r\n\r\n", "400 Bad Request"},
      {"a body", "POST /hello HTTP/1.1\r\nHost: node\r\nContent-Length: 3\r\n\r\nabc", "413 "},
      {"a huge header", "GET / HTTP/1.1\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n", "431 "},
  };
  const Served served;
  for (const auto& row : rows) {
    CAPTURE(row.what);
    const Client client(served.port());
    client.send(row.request);
    CHECK_THAT(client.receive("\r\n"), StartsWith(std::string("HTTP/1.1 ") + row.says));
    (void)client.rest();
  }
}

TEST_CASE("a silent client is cut off at the deadline") {
  HttpLimits limits;
  limits.read = 50ms;
  const Served served(limits);
  const Client silent(served.port());
  const Client slow(served.port());
  slow.send("GET /hel");
  CHECK(silent.rest().empty());
  CHECK(slow.rest().empty());
}

TEST_CASE("connections held open do not keep a probe out") {
  HttpLimits limits;
  limits.connections = 2;
  const Served served(limits);
  const Client oldest(served.port());
  const Client older(served.port());
  const Client probe(served.port());
  probe.send(get("/hello"));
  CHECK_THAT(probe.receive("hello\n"), StartsWith("HTTP/1.1 200 OK\r\n"));
  CHECK(oldest.rest().empty());
}

/// Waits until the condition is true, by default as long as a slow machine may need.
bool comes_true(const std::function<bool()>& condition, std::chrono::milliseconds within = 20s) {
  const auto until = std::chrono::steady_clock::now() + within;
  while (!condition() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(5ms);
  }
  return condition();
}

TEST_CASE("a port that another process holds is waited for") {
  auto holder = std::make_unique<Served>();
  const Listen listen{"127.0.0.1", holder->port()};
  boost::asio::io_context context;
  int opened = 0;
  const auto answer = [](const HttpRequest&) { return HttpResponse{200, "text/plain", "hello\n"}; };
  const Listener listener(context, listen, answer, BindFailure::retry, [&opened] { ++opened; });
  CHECK(listener.waits());
  CHECK_THAT(listener.problem(),
             StartsWith("cannot listen on 127.0.0.1:" + std::to_string(listen.port) + ": "));
  holder.reset();
  CHECK(comes_true([&] {
    context.poll();
    return !listener.waits();
  }));
  CHECK(opened == 1);
  CHECK(listener.problem().empty());
  const Client client(listen.port);
  client.send(get("/"));
  std::thread serving([&context] { context.run(); });
  CHECK_THAT(client.receive("hello\n"), StartsWith("HTTP/1.1 200 OK\r\n"));
  context.stop();
  serving.join();
}

TEST_CASE("REL-166: a port that is left to another process is free, and taken again if nobody wants it") {
  std::uint16_t port = 0;
  {
    const Served served;
    port = served.port();
  }
  boost::asio::io_context context;
  int opened = 0;
  const auto answer = [](const HttpRequest&) { return HttpResponse{200, "text/plain", "hello\n"}; };
  Listener listener(context, {"127.0.0.1", port}, answer, BindFailure::retry, [&opened] { ++opened; });
  REQUIRE_FALSE(listener.waits());
  listener.release(std::chrono::seconds(1));
  CHECK(listener.waits());
  CHECK(listener.problem() == "127.0.0.1:" + std::to_string(port) + " is left to kube-proxy");
  {
    const auto other = HttpServer::open(context, Listen{"127.0.0.1", port}, answer);
    REQUIRE(other);
    CHECK_FALSE(comes_true(
        [&] {
          context.poll();
          return !listener.waits();
        },
        std::chrono::milliseconds(1500)));
    CHECK(listener.problem() == "127.0.0.1:" + std::to_string(port) + " is left to kube-proxy");
    listener.resume();
    CHECK_THAT(listener.problem(), StartsWith("cannot listen on 127.0.0.1:"));
  }
  CHECK(comes_true([&] {
    context.poll();
    return !listener.waits();
  }));
  CHECK(opened == 1);
}

TEST_CASE("a port that another process holds ends a start that demands it") {
  const Served served;
  boost::asio::io_context context;
  const auto start = [&] {
    const Listener listener(
        context, {"127.0.0.1", served.port()}, [](const HttpRequest&) { return HttpResponse{}; },
        BindFailure::fatal, [] {});
  };
  CHECK_THROWS_AS(start(), StartError);
}

TEST_CASE("an address in use is reported with what to do") {
  const Served served;
  boost::asio::io_context context;
  const auto listen_again = [&] {
    const auto second = HttpServer::open_or_throw(context, Listen{"127.0.0.1", served.port()},
                                                  [](const HttpRequest&) { return HttpResponse{}; });
  };
  CHECK_THROWS_AS(listen_again(), StartError);
}

}  // namespace
