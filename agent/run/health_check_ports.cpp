#include "agent/run/health_check_ports.hpp"

#include <fmt/format.h>

#include <utility>

namespace lb::agent {
namespace {

/// Load balancers use any method, and connect to every address of a family (SEM-58).
constexpr HttpLimits health_check_rules{
    .body_bytes = 4096, .methods = HttpMethods::any, .families = HttpFamilies::own};

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
                                   Complain complain)
    : dependencies_(dependencies),
      complain_(std::move(complain)),
      health_checks_(
          dependencies.health, Moment::now,
          [&context](const Listen& listen, HttpHandler handler) {
            return HttpServer::open(context, listen, std::move(handler), health_check_rules);
          },
          [this](const auto& check, const auto& why) { complain_of(check, why); }) {}

/// Logs the problem, and posts an Event that the Service's owner sees (SEM-58).
void HealthCheckPorts::complain_of(const HealthCheck& check, const std::string& why) {
  complain_({"Service " + check.service.text(), "", why});
  dependencies_.inputs.post({.object = check.service,
                             .reason = "FailedToStartServiceHealthcheck",
                             .message = fmt::format("node {} {}", dependencies_.options.node, why),
                             .uid = check.uid});
}

void HealthCheckPorts::post_events() {
  for (const auto& server : dependencies_.servers.waiting()) {
    dependencies_.inputs.post(
        {{"", dependencies_.options.node}, server.event, server.problem, k8s::EventSubject::node});
  }
}

void HealthCheckPorts::update_metrics() {
  const auto checks = health_checks_.waiting();
  dependencies_.metrics.ports_waiting("health-check", checks);
  dependencies_.coexistence.set_ports(taken_ports_text(dependencies_.servers.waiting(), checks));
}

}  // namespace lb::agent
