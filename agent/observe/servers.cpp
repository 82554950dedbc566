// SPDX-License-Identifier: Apache-2.0
#include "agent/observe/servers.hpp"

#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdint>
#include <utility>

namespace lb::agent {
namespace {

constexpr std::uint16_t kube_proxy_health_port = 10256;
constexpr std::uint16_t kube_proxy_metrics_port = 10249;
constexpr std::chrono::seconds time_for_kube_proxy{15};

bool is_kube_proxys(const Listen& listen) {
  return listen.port == kube_proxy_health_port || listen.port == kube_proxy_metrics_port;
}

}  // namespace

Servers::Servers(boost::asio::io_context& context, const AgentOptions& options, Pages& pages,
                 Metrics& metrics, std::function<void()> opened)
    : context_(context), failure_(options.bind_failure), metrics_(metrics), opened_(std::move(opened)) {
  // kube-proxy's Event reason; kube-proxy posts no Event for its metrics port.
  add("health", "FailedToStartProxierHealthcheck", options.health,
      [&pages](const auto& asked) { return pages.health(asked); });
  add("metrics", "FailedToStartMetrics", options.metrics,
      [&pages](const auto& asked) { return pages.metrics(asked); });
}

void Servers::add(std::string name, std::string event, const std::optional<Listen>& listen,
                  HttpHandler handler) {
  if (!listen) {
    return;
  }
  auto listener = std::make_unique<Listener>(context_, *listen, std::move(handler), failure_,
                                             [this, name] { report_opened(name); });
  metrics_.ports_waiting(name, listener->waits() ? 1 : 0);
  if (listener->waits()) {
    spdlog::warn("{}: --{} waits for the port and tries again each second; all else is served",
                 listener->problem(), name);
  }
  servers_.push_back({std::move(name), std::move(event), std::move(listener)});
}

void Servers::report_opened(const std::string& name) {
  metrics_.ports_waiting(name, 0);
  spdlog::info("--{} listens now: its port has become free", name);
  opened_();
}

void Servers::leave_to_kube_proxy() {
  for (const auto& server : servers_) {
    if (!is_kube_proxys(server.listener->listen())) {
      continue;
    }
    server.listener->release(time_for_kube_proxy);
    metrics_.ports_waiting(server.name, server.listener->waits() ? 1 : 0);
  }
}

void Servers::resume() {
  for (const auto& server : servers_) {
    server.listener->resume();
  }
}

std::vector<WaitingServer> Servers::all() const {
  std::vector<WaitingServer> all;
  all.reserve(servers_.size());
  for (const auto& server : servers_) {
    all.push_back({server.event, server.listener->problem()});
  }
  return all;
}

std::vector<WaitingServer> Servers::waiting() const {
  auto waiting = all();
  std::erase_if(waiting, [](const auto& server) { return server.problem.empty(); });
  return waiting;
}

}  // namespace lb::agent
