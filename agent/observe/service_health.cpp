// The health-check node ports: which servers there shall be, and what each says.
#include "agent/observe/service_health.hpp"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <set>
#include <utility>

namespace lb::agent {
namespace {

namespace json = boost::json;

std::size_t index(k8s::Family family) { return family == k8s::Family::ipv4 ? 0 : 1; }

}  // namespace

HttpResponse service_health(const HealthCheck& check, k8s::Family family, const Health& health, Moment now) {
  const auto local = check.local.at(index(family)).value_or(0);
  const bool healthy = health.healthy(now);
  const json::object body = {
      {"service", {{"namespace", check.service.name_space}, {"name", check.service.name}}},
      {"localEndpoints", local},
      {"serviceProxyHealthy", healthy}};
  HttpResponse response{healthy && local > 0 ? 200U : 503U, "application/json", json::serialize(body) + "\n"};
  response.headers.emplace_back("X-Load-Balancing-Endpoint-Weight", std::to_string(local));
  return response;
}

ServiceHealth::ServiceHealth(const Health& health, std::function<Moment()> clock, Open open, Failed failed)
    : health_(health), clock_(std::move(clock)), open_(std::move(open)), tell_(std::move(failed)) {}

/// Closing comes first: a port may pass from one service to another.
void ServiceHealth::serve(const HealthChecks& checks, const std::vector<k8s::Address>& addresses) {
  if (checks_ == checks && addresses_ == addresses && complete()) return;
  checks_ = checks;
  addresses_ = addresses;
  std::set<Place> wanted;
  for (const auto& [service, check] : checks) {
    for (const auto& address : addresses) {
      if (check.local.at(index(address.family()))) wanted.insert({service, address, check.port});
    }
  }
  std::erase_if(servers_, [&](const auto& server) { return !wanted.contains(server.first); });
  std::erase_if(failed_, [&](const auto& place) { return !wanted.contains(place); });
  for (const auto& place : wanted) {
    if (!servers_.contains(place)) open(place);
  }
}

void ServiceHealth::open(const Place& place) {
  auto server =
      open_({place.address.text(), place.port}, [this, place](const HttpRequest&) { return answer(place); });
  if (server) {
    servers_[place] = std::move(*server);
    failed_.erase(place);
  } else if (failed_.insert(place).second) {
    tell_(checks_.at(place.service).service,
          fmt::format("cannot listen on its health-check node port {} of {}: {}", place.port,
                      place.address.text(), server.error().message()));
  }
}

HttpResponse ServiceHealth::answer(const Place& place) const {
  const auto check = checks_.find(place.service);
  if (check == checks_.end()) return {503, "text/plain; charset=utf-8", "no such service\n"};
  return service_health(check->second, place.address.family(), health_, clock_());
}

}  // namespace lb::agent
