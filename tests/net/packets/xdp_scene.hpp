// SPDX-License-Identifier: Apache-2.0
// A node whose uplink runs XDP, two services, and clients that make requests all the time.
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "tests/net/lib/hooks.hpp"
#include "tests/net/lib/talk.hpp"

namespace lb::test {

inline constexpr std::uint16_t port = 80;
inline constexpr std::uint16_t backend_port = 8080;

inline const char* mode_text(agent::XdpMode mode) { return mode == agent::XdpMode::off ? "tc" : "XDP"; }

/// Service 1 has a remote backend, service 2 a local one.
struct Offer {
  End elsewhere, here;
  End elsewhere_backend, here_backend;
};

inline Offer offer(Writer& writer, int family) {
  const auto& known = names(family);
  const Offer made{end(known.vip, port), end(known.vip, port + 1), end(known.remote_pod, backend_port),
                   end(known.server, backend_port)};
  writer.service(1, {{1, made.elsewhere_backend}});
  writer.service(2, {{2, made.here_backend}});
  for (const auto protocol : {LB_TCP, LB_UDP}) {
    writer.frontend(made.elsewhere, protocol, 1, LB_LOAD_BALANCER);
    writer.frontend(made.here, protocol, 2, LB_LOAD_BALANCER);
  }
  return made;
}

/// Blocks SIGCHLD: the end of another thread's child would interrupt this thread's waits.
inline void ignore_children() {
  sigset_t children;
  ::sigemptyset(&children);
  ::sigaddset(&children, SIGCHLD);
  ::pthread_sigmask(SIG_BLOCK, &children, nullptr);
}

/// Makes one request after the other in its own thread, until failures() is called.
class RequestLoop {
 public:
  RequestLoop(const Host& client, const Socket& server, const End& where, int type = SOCK_STREAM)
      : thread_([this, &client, &server, where, type] {
          ignore_children();
          while (!over_) {
            failures_ += talk(client, server, type, where, 20'000) ? 0 : 1;
            ++requests_;
          }
        }) {}
  RequestLoop(const RequestLoop&) = delete;
  RequestLoop& operator=(const RequestLoop&) = delete;
  ~RequestLoop() { end(); }

  int failures() {
    end();
    return failures_;
  }
  [[nodiscard]] int requests() const { return requests_; }

 private:
  void end() {
    over_ = true;
    if (thread_.joinable()) {
      thread_.join();
    }
  }

  std::atomic<bool> over_ = false;
  std::atomic<int> failures_ = 0;
  std::atomic<int> requests_ = 0;
  std::thread thread_;
};

struct XdpScene : PodScene {
  explicit XdpScene(agent::XdpMode mode) : PodScene(Wiring::routed) {
    check_sums();
    options.xdp = mode;
  }
};

/// Waits until each has made `more` requests more.
inline void wait_for(const std::vector<std::unique_ptr<RequestLoop>>& all, int more) {
  std::vector<int> wanted;
  for (const auto& asking : all) {
    wanted.push_back(asking->requests() + more);
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (std::size_t at = 0; at < all.size(); ++at) {
    while (all[at]->requests() < wanted[at] && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
}

}  // namespace lb::test
