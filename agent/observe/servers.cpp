#include "agent/observe/servers.hpp"

#include <spdlog/spdlog.h>

#include <utility>

namespace lb::agent {

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
  spdlog::info("--{} listens: its port is free", name);
  opened_();
}

std::vector<WaitingServer> Servers::waiting() const {
  std::vector<WaitingServer> waiting;
  for (const auto& server : servers_) {
    if (server.listener->waits()) {
      waiting.push_back({server.event, server.listener->problem()});
    }
  }
  return waiting;
}

}  // namespace lb::agent
