// The paths, and the counting of probes.
#include "agent/pages.hpp"

#include <utility>

namespace lb::agent {

Pages::Pages(const Health& health, Metrics& metrics, std::function<Moment()> clock,
             std::function<Snapshot()> snapshot, std::string configuration)
    : health_(health),
      metrics_(metrics),
      clock_(std::move(clock)),
      snapshot_(std::move(snapshot)),
      configuration_(std::move(configuration)) {}

HttpResponse Pages::health(const HttpRequest& request) {
  if (request.path == "/healthz") {
    auto response = health_.healthz(clock_());
    metrics_.probed(Probe::healthz, response.status);
    return response;
  }
  if (request.path == "/livez") {
    auto response = health_.livez(clock_());
    metrics_.probed(Probe::livez, response.status);
    return response;
  }
  return {404, "text/plain; charset=utf-8", "not found; here are /healthz and /livez\n"};
}

HttpResponse Pages::metrics(const HttpRequest& request) {
  if (request.path == "/metrics") {
    return {200, Metrics::content_type, metrics_.render(snapshot_())};
  }
  if (request.path == "/proxyMode") {
    return {200, "text/plain; charset=utf-8", "sluice"};
  }
  if (request.path == "/configz") {
    return {200, "application/json", configuration_};
  }
  auto response = health(request);
  if (response.status == 404) {
    response.body = "not found; here are /metrics, /healthz, /livez, /proxyMode and /configz\n";
  }
  return response;
}

}  // namespace lb::agent
