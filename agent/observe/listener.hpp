// SPDX-License-Identifier: Apache-2.0
// An HTTP server whose port may be in use: it waits for the port, like kube-proxy (bindAddressHardFail:
// false), while the agent serves packets.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "agent/observe/http.hpp"
#include "agent/options/config.hpp"

namespace lb::agent {

class Listener {
 public:
  /// Time between two attempts; kube-proxy waits five seconds.
  static constexpr std::chrono::seconds pause{1};

  /// Tries to listen at once; throws StartError if that fails and `failure` is fatal. `opened` is called when
  /// a later attempt succeeds. `context` must outlive this.
  Listener(boost::asio::io_context& context, Listen listen, HttpHandler handler, BindFailure failure,
           std::function<void()> opened);

  /// Closes the server, so that another process may take the port, and tries again after this time and then
  /// as usual: if none has taken it, the agent listens again.
  void release(std::chrono::seconds time);
  /// After release(): tries again at once.
  void resume();

  [[nodiscard]] const Listen& listen() const noexcept { return listen_; }
  [[nodiscard]] bool waits() const noexcept { return server_ == nullptr; }
  /// "cannot listen on 0.0.0.0:10256: Address already in use", or that it is left to kube-proxy; empty while
  /// it listens.
  [[nodiscard]] std::string problem() const;

 private:
  void attempt();
  void attempt_later(std::chrono::seconds time);
  /// Calls opened_ if it succeeds.
  void attempt_again();

  boost::asio::io_context& context_;
  boost::asio::steady_timer timer_;
  Listen listen_;
  HttpHandler handler_;
  std::function<void()> opened_;
  std::unique_ptr<HttpServer> server_;  ///< null while it waits
  boost::system::error_code error_;     ///< of the last attempt
  bool released_ = false;
};

}  // namespace lb::agent
