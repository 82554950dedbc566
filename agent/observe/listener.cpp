#include "agent/observe/listener.hpp"

#include <fmt/format.h>

#include <utility>

namespace lb::agent {

Listener::Listener(boost::asio::io_context& context, Listen listen, HttpHandler handler, BindFailure failure,
                   std::function<void()> opened)
    : context_(context),
      timer_(context),
      listen_(std::move(listen)),
      handler_(std::move(handler)),
      opened_(std::move(opened)) {
  if (failure == BindFailure::fatal) {
    server_ = HttpServer::open_or_throw(context_, listen_, handler_);
    return;
  }
  attempt();
}

void Listener::attempt() {
  auto server = HttpServer::open(context_, listen_, handler_);
  if (server) {
    server_ = std::move(*server);
    return;
  }
  error_ = server.error();
  attempt_later();
}

void Listener::attempt_later() {
  timer_.expires_after(pause);
  timer_.async_wait([this](const auto& error) {
    if (error) {
      return;
    }
    attempt();
    if (!waits()) {
      opened_();
    }
  });
}

std::string Listener::problem() const {
  return waits() ? fmt::format("cannot listen on {}: {}", listen_text(listen_), error_.message()) : "";
}

}  // namespace lb::agent
