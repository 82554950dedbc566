// SPDX-License-Identifier: Apache-2.0
// The HTTP server: accepts, reads a request, responds, repeats; the only file that includes Beast.
#include "agent/observe/http.hpp"

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "agent/base/error.hpp"
#include "agent/observe/connection_pool.hpp"
#include "k8s/objects/host_port.hpp"

namespace lb::agent {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using Stream = beast::tcp_stream;
using Reply = http::response<http::string_body>;
using Request = http::request<http::string_body>;
using Parser = http::request_parser<http::string_body>;

constexpr auto wait_for_result = asio::as_tuple(asio::use_awaitable);
constexpr std::chrono::milliseconds accept_pause{100};  // no free descriptors: retry later

std::string path_of(beast::string_view target) {
  return {target.data(), std::min(target.find('?'), target.size())};
}

Reply make_reply(HttpResponse response, unsigned version) {
  Reply reply{static_cast<http::status>(response.status), version};
  reply.set(http::field::content_type, response.content_type);
  reply.set("X-Content-Type-Options", "nosniff");
  reply.set(http::field::server, "sluice/" SLUICE_VERSION);
  for (const auto& [name, value] : response.headers) {
    reply.set(name, value);
  }
  reply.body() = std::move(response.body);
  return reply;
}

/// The response to an invalid request; nullopt if the client has closed the connection.
std::optional<HttpResponse> refuse(const beast::error_code& error) {
  if (error == http::error::header_limit) {
    return HttpResponse{431, "text/plain; charset=utf-8", "request header too large\n"};
  }
  if (error == http::error::unexpected_body || error == http::error::body_limit) {
    return HttpResponse{413, "text/plain; charset=utf-8", "the request's body is larger than is read here\n"};
  }
  if (error.category() == make_error_code(http::error::bad_method).category() &&
      error != http::error::end_of_stream && error != http::error::partial_message) {
    return HttpResponse{400, "text/plain; charset=utf-8", "not an HTTP request\n"};
  }
  return std::nullopt;
}

boost::system::result<tcp::acceptor> open_acceptor(asio::io_context& context, const Listen& listen,
                                                   HttpFamilies families) {
  beast::error_code error;
  tcp::acceptor acceptor(context);
  const auto address = asio::ip::make_address(listen.address, error);
  const tcp::endpoint endpoint(address, listen.port);
  const auto step = [&error](auto&& action) {
    if (!error) {
      action();
    }
  };
  step([&] { acceptor.open(endpoint.protocol(), error); });
  step([&] { acceptor.set_option(tcp::acceptor::reuse_address(true), error); });
  step([&] {
    if (endpoint.protocol() == tcp::v6() && families == HttpFamilies::own) {
      acceptor.set_option(asio::ip::v6_only(true), error);
    }
  });
  step([&] { acceptor.bind(endpoint, error); });
  step([&] { acceptor.listen(asio::socket_base::max_listen_connections, error); });
  if (error) {
    return error;
  }
  return acceptor;
}

}  // namespace

std::string listen_text(const Listen& listen) { return k8s::host_port(listen.address, listen.port); }

/// Shared with the coroutines, so that it lives as long as the last of them.
struct HttpServer::State {
  State(tcp::acceptor listening, HttpHandler answer, HttpLimits bounds)
      : acceptor(std::move(listening)), handler(std::move(answer)), limits(std::move(bounds)) {
    if (!limits.pool) {
      limits.pool = std::make_shared<ConnectionPool>(limits.connections);
      near = std::make_shared<ConnectionPool>(limits.connections / 4);
    }
  }

  tcp::acceptor acceptor;
  HttpHandler handler;
  HttpLimits limits;
  std::set<std::weak_ptr<Stream>, std::owner_less<>> streams;  ///< open ones

  /// For clients on this node itself, as the kubelet's probes: none from elsewhere takes their places.
  /// nullptr: the pool is shared.
  std::shared_ptr<ConnectionPool> near;

  static asio::awaitable<void> accept(std::shared_ptr<State> self);
  static asio::awaitable<void> serve(std::shared_ptr<State> self, std::shared_ptr<Stream> stream,
                                     ConnectionPool::Place place);
  static asio::awaitable<bool> answer(std::shared_ptr<State> self, std::shared_ptr<Stream> stream,
                                      std::shared_ptr<beast::flat_buffer> buffer);
  static asio::awaitable<bool> send(std::shared_ptr<State> self, std::shared_ptr<Stream> stream, Reply reply);

  [[nodiscard]] ConnectionPool::Place admit(const std::shared_ptr<Stream>& stream);
  [[nodiscard]] Reply reply_to(const Request& request) const;
};

/// At the limit another connection is closed, so that a probe is served although others hold connections
/// open.
ConnectionPool::Place HttpServer::State::admit(const std::shared_ptr<Stream>& stream) {
  beast::error_code error;
  const auto address = stream->socket().remote_endpoint(error).address();
  const bool is_near = address.is_loopback() || address == stream->socket().local_endpoint(error).address();
  const auto bytes = [](const auto& each) { return client_of(each.data(), each.size()); };
  const auto client = address.is_v4() ? bytes(address.to_v4().to_bytes()) : bytes(address.to_v6().to_bytes());
  streams.insert(stream);
  return (near && is_near ? near : limits.pool)->admit(client, [weak = std::weak_ptr<Stream>(stream)] {
    if (const auto open = weak.lock()) {
      open->close();
    }
  });
}

Reply HttpServer::State::reply_to(const Request& request) const {
  if (limits.methods == HttpMethods::read_only && request.method() != http::verb::get &&
      request.method() != http::verb::head) {
    auto reply = make_reply({405, "text/plain; charset=utf-8", "only GET and HEAD\n"}, request.version());
    reply.set(http::field::allow, "GET, HEAD");
    return reply;
  }
  return make_reply(handler({path_of(request.target())}), request.version());
}

asio::awaitable<bool> HttpServer::State::send(std::shared_ptr<State> self, std::shared_ptr<Stream> stream,
                                              Reply reply) {
  stream->expires_after(self->limits.write);
  const auto written = co_await http::async_write(*stream, reply, wait_for_result);
  co_return !std::get<0>(written) && reply.keep_alive();
}

/// Handles one request and its response. Returns false if the connection ends.
asio::awaitable<bool> HttpServer::State::answer(std::shared_ptr<State> self, std::shared_ptr<Stream> stream,
                                                std::shared_ptr<beast::flat_buffer> buffer) {
  Parser parser;
  parser.header_limit(self->limits.header_bytes);
  parser.body_limit(self->limits.body_bytes);
  stream->expires_after(self->limits.read);
  const auto read = co_await http::async_read(*stream, *buffer, parser, wait_for_result);
  if (const auto error = std::get<0>(read)) {
    if (auto refusal = refuse(error)) {
      auto reply = make_reply(std::move(*refusal), 11);
      reply.keep_alive(false);
      reply.prepare_payload();
      co_await send(self, stream, std::move(reply));
    }
    co_return false;
  }
  auto reply = self->reply_to(parser.get());
  reply.keep_alive(parser.get().keep_alive());
  reply.prepare_payload();
  if (parser.get().method() == http::verb::head) {
    reply.body().clear();  // the Content-Length stays
  }
  co_return co_await send(self, stream, std::move(reply));
}

asio::awaitable<void> HttpServer::State::serve(std::shared_ptr<State> self, std::shared_ptr<Stream> stream,
                                               ConnectionPool::Place /*place*/) {
  const auto buffer = std::make_shared<beast::flat_buffer>(self->limits.header_bytes);
  bool more = true;
  while (more) {
    more = co_await answer(self, stream, buffer);
  }
  beast::error_code ignored;
  stream->socket().shutdown(tcp::socket::shutdown_send, ignored);
  self->streams.erase(stream);
}

asio::awaitable<void> HttpServer::State::accept(std::shared_ptr<State> self) {
  while (self->acceptor.is_open()) {
    auto [error, socket] = co_await self->acceptor.async_accept(wait_for_result);
    if (error == asio::error::operation_aborted) {
      break;
    }
    if (error) {
      asio::steady_timer timer(self->acceptor.get_executor(), accept_pause);
      const auto [timer_error] = co_await timer.async_wait(wait_for_result);
      if (timer_error) {
        break;
      }
      continue;
    }
    const auto stream = std::make_shared<Stream>(std::move(socket));
    asio::co_spawn(self->acceptor.get_executor(), serve(self, stream, self->admit(stream)), asio::detached);
  }
}

boost::system::result<std::unique_ptr<HttpServer>> HttpServer::open(asio::io_context& context,
                                                                    const Listen& listen, HttpHandler handler,
                                                                    HttpLimits limits) {
  auto acceptor = open_acceptor(context, listen, limits.families);
  if (!acceptor) {
    return acceptor.error();
  }
  auto state = std::make_shared<State>(std::move(*acceptor), std::move(handler), std::move(limits));
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

std::unique_ptr<HttpServer> HttpServer::open_or_throw(asio::io_context& context, const Listen& listen,
                                                      HttpHandler handler, HttpLimits limits) {
  auto opened = open(context, listen, std::move(handler), std::move(limits));
  if (!opened) {
    throw StartError(fmt::format("cannot listen on {} ({})", listen_text(listen), opened.error().message()),
                     "end what uses it, or choose another address with --health or --metrics");
  }
  return std::move(*opened);
}

HttpServer::HttpServer(std::shared_ptr<State> state) : state_(std::move(state)) {
  asio::co_spawn(state_->acceptor.get_executor(), State::accept(state_), asio::detached);
}

HttpServer::~HttpServer() {
  beast::error_code ignored;
  state_->acceptor.close(ignored);
  for (const auto& stream : state_->streams) {
    if (const auto open = stream.lock()) {
      open->close();
    }
  }
}

std::uint16_t HttpServer::port() const {
  beast::error_code ignored;
  return state_->acceptor.local_endpoint(ignored).port();
}

}  // namespace lb::agent
