// SPDX-License-Identifier: Apache-2.0
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
  attempt_later(pause);
}

void Listener::attempt_later(std::chrono::seconds time) {
  timer_.expires_after(time);
  timer_.async_wait([this](const auto& error) {
    if (!error) {
      attempt_again();
    }
  });
}

void Listener::attempt_again() {
  attempt();
  if (!waits()) {
    opened_();
  }
}

void Listener::release(std::chrono::seconds time) {
  released_ = true;
  if (waits()) {
    return;
  }
  server_.reset();
  attempt_later(time);
}

void Listener::resume() {
  if (!released_) {
    return;
  }
  released_ = false;
  if (waits()) {
    attempt_again();
  }
}

std::string Listener::problem() const {
  if (!waits()) {
    return "";
  }
  if (released_) {
    return fmt::format("{} is left to kube-proxy", listen_text(listen_));
  }
  return fmt::format("cannot listen on {}: {}", listen_text(listen_), error_.message());
}

}  // namespace lb::agent
