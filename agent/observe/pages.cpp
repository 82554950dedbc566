// SPDX-License-Identifier: Apache-2.0
// The paths, and the counters of probes.
#include "agent/observe/pages.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <string_view>
#include <utility>

namespace lb::agent {
namespace {

constexpr const char* plain = "text/plain; charset=utf-8";

/// The same head as kube-proxy's, so that these pages are not taken for an API.
constexpr const char* zpage_head =
    "\nsluice {}\nWarning: This endpoint is not meant to be machine parseable, has no formatting "
    "compatibility guarantees and is for debugging purposes only.\n";

constexpr std::string_view name_of(Probe probe) { return probe == Probe::healthz ? "healthz" : "livez"; }

}  // namespace

Pages::Pages(const Health& health, Metrics& metrics, std::function<Moment()> clock,
             std::function<Snapshot()> snapshot, FixedPages fixed)
    : health_(health),
      metrics_(metrics),
      clock_(std::move(clock)),
      snapshot_(std::move(snapshot)),
      fixed_(std::move(fixed)),
      started_(clock_()) {}

HttpResponse Pages::verdict(Probe probe) const {
  return probe == Probe::healthz ? health_.healthz(clock_()) : health_.livez(clock_());
}

HttpResponse Pages::probe(Probe probe) {
  auto response = verdict(probe);
  auto& answers = answers_.at(static_cast<std::size_t>(probe));
  ++(response.status == 200 ? answers.good : answers.bad);
  metrics_.probed(probe, response.status);
  return response;
}

HttpResponse Pages::health(const HttpRequest& request) {
  if (request.path == "/healthz") {
    return probe(Probe::healthz);
  }
  if (request.path == "/livez") {
    return probe(Probe::livez);
  }
  return {404, plain, "not found; here are /healthz and /livez\n"};
}

HttpResponse Pages::metrics(const HttpRequest& request) {
  if (request.path == "/metrics") {
    return {200, Metrics::content_type, metrics_.render(snapshot_())};
  }
  if (request.path == "/metrics/slis") {
    return {200, Metrics::content_type, slis()};
  }
  if (request.path == "/proxyMode") {
    return {200, plain, "sluice"};
  }
  if (request.path == "/configz") {
    return {200, "application/json", fixed_.configz};
  }
  if (request.path == "/flagz") {
    return {200, plain, flagz()};
  }
  if (request.path == "/statusz") {
    return {200, plain, statusz()};
  }
  auto response = health(request);
  if (response.status == 404) {
    response.body =
        "not found; here are /metrics, /metrics/slis, /healthz, /livez, /proxyMode, /configz, /flagz and "
        "/statusz\n";
  }
  return response;
}

/// The two metrics of the component-base library: whether a probe would succeed now, and the numbers of its
/// results.
std::string Pages::slis() const {
  std::string now;
  std::string all;
  for (const auto probe : {Probe::healthz, Probe::livez}) {
    const auto name = name_of(probe);
    const auto& answers = answers_.at(static_cast<std::size_t>(probe));
    now += fmt::format("kubernetes_healthcheck{{name=\"{0}\",type=\"{0}\"}} {1}\n", name,
                       verdict(probe).status == 200 ? 1 : 0);
    for (const auto& [status, count] :
         {std::pair{"error", answers.bad}, std::pair{"success", answers.good}}) {
      all += fmt::format("kubernetes_healthchecks_total{{name=\"{0}\",status=\"{1}\",type=\"{0}\"}} {2}\n",
                         name, status, count);
    }
  }
  return "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.\n"
         "# TYPE kubernetes_healthcheck gauge\n" +
         now +
         "# HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.\n"
         "# TYPE kubernetes_healthchecks_total counter\n" +
         all;
}

std::string Pages::flagz() const {
  auto text = fmt::format(zpage_head, "flagz");
  for (const auto& [name, value] : fixed_.flags) {
    text += fmt::format("{}={}\n", name, value);
  }
  return text;
}

std::string Pages::statusz() const {
  const auto up = std::chrono::duration_cast<std::chrono::seconds>(clock_().steady - started_.steady).count();
  return fmt::format(zpage_head, "statusz") +
         fmt::format(
             "\nStarted: {:%a %b %e %H:%M:%S UTC %Y}\nUp: {} hr {:02} min {:02} sec\nBinary version: {}\n"
             "Paths: /configz /flagz /healthz /livez /metrics /metrics/slis /proxyMode /statusz\n",
             fmt::gmtime(std::chrono::system_clock::to_time_t(started_.wall)), up / 3600, up / 60 % 60,
             up % 60, SLUICE_VERSION);
}

}  // namespace lb::agent
