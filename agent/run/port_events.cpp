// SPDX-License-Identifier: Apache-2.0
#include "agent/run/port_events.hpp"

#include <string_view>
#include <utility>

namespace lb::agent {
namespace {

/// "StartedProxierHealthcheck" for "FailedToStartProxierHealthcheck".
std::string started(std::string_view reason) {
  constexpr std::string_view failed = "FailedToStart";
  return "Started" + std::string(reason.substr(reason.starts_with(failed) ? failed.size() : 0));
}

}  // namespace

void PortEvents::taken(const std::string& port, const k8s::Event& event, Time now) {
  waiting_.try_emplace(port, Waiting{event, now});
}

void PortEvents::listens(const std::string& port, const std::string& message) {
  const auto found = waiting_.find(port);
  if (found == waiting_.end()) {
    return;
  }
  auto event = std::move(found->second.event);
  const bool was_posted = found->second.posted != Posted::nothing;
  waiting_.erase(found);
  if (!was_posted) {
    return;
  }
  event.reason = started(event.reason);
  event.message = message;
  event.severity = k8s::EventSeverity::normal;
  post_(std::move(event));
}

void PortEvents::forget_but(const std::set<std::string>& ports) {
  std::erase_if(waiting_, [&](const auto& each) { return !ports.contains(each.first); });
}

void PortEvents::pass(Time now) {
  for (auto& [name, port] : waiting_) {
    if (port.posted == Posted::warning) {
      continue;
    }
    if (now - port.since >= patience) {
      post(port, Posted::warning);
    } else if (port.posted == Posted::nothing) {
      post(port, look_() == KubeProxy::present ? Posted::normal : Posted::warning);
    }
  }
}

void PortEvents::post(Waiting& port, Posted as) {
  port.posted = as;
  auto event = port.event;
  event.severity = as == Posted::warning ? k8s::EventSeverity::warning : k8s::EventSeverity::normal;
  event.message += as == Posted::warning ? "; it is tried again each second"
                                         : "; kube-proxy's rules are on this node, and it may hold the port "
                                           "until it is stopped: it is tried again each second";
  post_(std::move(event));
}

}  // namespace lb::agent
