// SPDX-License-Identifier: Apache-2.0
#include "agent/run/health_check_ports.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <memory>
#include <utility>

#include "agent/observe/connection_pool.hpp"

namespace lb::agent {
namespace {

/// Load balancers use any method, and connect to every address of a family (SEM-58). All of the ports share
/// one bound of clients.
HttpLimits health_check_rules(std::size_t clients) {
  return {.body_bytes = 4096,
          .pool = std::make_shared<ConnectionPool>(clients),
          .methods = HttpMethods::any,
          .families = HttpFamilies::own};
}

}  // namespace

std::string taken_ports_text(const std::vector<WaitingServer>& servers, std::size_t checks) {
  std::string text;
  for (const auto& server : servers) {
    text += (text.empty() ? "" : "; ") + server.problem;
  }
  if (checks > 0) {
    text += fmt::format("{}{} health-check node ports are taken", text.empty() ? "" : "; ", checks);
  }
  return text;
}

HealthCheckPorts::HealthCheckPorts(boost::asio::io_context& context, Dependencies dependencies,
                                   Complain complain, Look look)
    : dependencies_(dependencies),
      complain_(std::move(complain)),
      look_(std::move(look)),
      events_([this](k8s::Event event) { dependencies_.inputs.post(std::move(event)); }, look_),
      health_checks_(
          dependencies.health, Moment::now,
          [&context, rules = health_check_rules(dependencies.descriptors.clients)](const Listen& listen,
                                                                                   HttpHandler handler) {
            return HttpServer::open(context, listen, std::move(handler), rules);
          },
          [this](const auto& port) { complain_of(port); },
          [this](const auto& check, const auto& place) { opened(check, place); },
          dependencies.descriptors.listeners) {}

void HealthCheckPorts::serve(const HealthChecks& checks, const std::vector<k8s::Address>& addresses) {
  if (owner_ == Owner::kube_proxy) {
    return health_checks_.serve({}, {});
  }
  health_checks_.serve(checks, addresses);
  events_.forget_but(port_names());
}

bool HealthCheckPorts::follow_drain(lb_bool draining) {
  // kube-proxy is looked for only while its rules decide.
  const bool leaves = draining == LB_YES && (owner_ == Owner::kube_proxy || look_() == KubeProxy::present);
  const auto owner = leaves ? Owner::kube_proxy : Owner::agent;
  if (owner == owner_) {
    return false;
  }
  owner_ = owner;
  if (owner == Owner::kube_proxy) {
    spdlog::info(
        "drained to kube-proxy: its ports 10256 and 10249 and the health-check node ports are left to it");
    dependencies_.servers.leave_to_kube_proxy();
  } else {
    dependencies_.servers.resume();
  }
  return true;
}

/// Logs the problem, and posts an Event that the Service's owner sees (SEM-58).
void HealthCheckPorts::complain_of(const ServiceHealth::Taken& port) {
  complain_({"Service " + port.check.service.text(), "", port.why});
  events_.taken(port.place,
                {.object = port.check.service,
                 .reason = "FailedToStartServiceHealthcheck",
                 .message = fmt::format("node {} {}", dependencies_.options.node, port.why),
                 .uid = port.check.uid},
                std::chrono::steady_clock::now());
}

void HealthCheckPorts::opened(const HealthCheck& check, const std::string& place) {
  events_.listens(place, fmt::format("node {} listens on its health-check node port {} now",
                                     dependencies_.options.node, check.port));
}

/// As events_ knows them: places of health checks, and reasons of Events for the agent's own servers.
std::set<std::string> HealthCheckPorts::port_names() const {
  auto names = health_checks_.waiting_places();
  for (const auto& server : dependencies_.servers.all()) {
    names.insert(server.event);
  }
  return names;
}

void HealthCheckPorts::report() {
  const auto now = std::chrono::steady_clock::now();
  if (owner_ == Owner::agent) {
    for (const auto& server : dependencies_.servers.all()) {
      if (server.problem.empty()) {
        events_.listens(server.event, "the agent listens now: the port has become free");
      } else {
        events_.taken(
            server.event,
            {{"", dependencies_.options.node}, server.event, server.problem, k8s::EventSubject::node}, now);
      }
    }
    events_.pass(now);
  }
  const auto checks = health_checks_.waiting();
  dependencies_.metrics.ports_waiting("health-check", checks);
  dependencies_.coexistence.set_ports(taken_ports_text(dependencies_.servers.waiting(), checks));
}

}  // namespace lb::agent
