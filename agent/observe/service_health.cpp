// SPDX-License-Identifier: Apache-2.0
// Decides which health-check servers are wanted, and their responses.
#include "agent/observe/service_health.hpp"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <map>
#include <set>
#include <utility>

#include "k8s/objects/host_port.hpp"

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

ServiceHealth::ServiceHealth(const Health& health, std::function<Moment()> clock, Open open, Failed failed,
                             Opened opened, std::size_t most)
    : health_(health),
      clock_(std::move(clock)),
      open_(std::move(open)),
      report_(std::move(failed)),
      opened_(std::move(opened)),
      most_(most) {}

/// Closes servers first: a port may move from one service to another.
void ServiceHealth::serve(const HealthChecks& checks, const std::vector<k8s::Address>& addresses) {
  if (checks_ == checks && addresses_ == addresses && complete()) {
    return;
  }
  checks_ = checks;
  addresses_ = addresses;
  std::set<Listening> wanted;
  for (const auto& [service, check] : checks) {
    for (const auto& address : addresses) {
      if (check.local.at(index(address.family()))) {
        wanted.insert({service, address, check.port});
      }
    }
  }
  std::erase_if(servers_, [&](const auto& server) { return !wanted.contains(server.first); });
  std::erase_if(failed_, [&](const auto& at) { return !wanted.contains(at); });
  // By turns of the namespaces, so that after a restart, too, one with many Services leaves others theirs.
  std::map<std::string, std::size_t> turns;
  std::multimap<std::size_t, const Listening*> order;
  for (const auto& at : wanted) {
    order.emplace(turns[name_space_of(at)]++, &at);
  }
  std::map<std::string, std::size_t> used;
  for (const auto& [at, server] : servers_) {
    ++used[name_space_of(at)];
  }
  for (const auto& [turn, at] : order) {
    if (!servers_.contains(*at)) {
      open(*at, used[name_space_of(*at)]);
    }
  }
}

const std::string& ServiceHealth::name_space_of(const Listening& at) const {
  return checks_.at(at.service).service.name_space;
}

// Those that listen stay: a new Service must not take another's port away. A quarter is left to other
// namespaces. `used`: the servers of this one.
void ServiceHealth::open(const Listening& at, std::size_t& used) {
  const auto share = most_ - most_ / 4;
  if (servers_.size() >= most_) {
    return fail(at, fmt::format("{} such ports are open, which is the limit of this node", most_));
  }
  if (used >= share) {
    return fail(at,
                fmt::format("{} such ports are open, which is the limit of a namespace on this node", used));
  }
  auto server = open_({at.address.text(), at.port}, [this, at](const HttpRequest&) { return answer(at); });
  if (!server) {
    return fail(at, server.error().message());
  }
  servers_[at] = std::move(*server);
  ++used;
  if (failed_.erase(at) != 0) {
    opened_(checks_.at(at.service), place_of(at));
  }
}

void ServiceHealth::fail(const Listening& at, const std::string& why) {
  if (failed_.insert(at).second) {
    report_({checks_.at(at.service), place_of(at),
             fmt::format("cannot listen on its health-check node port {} of {}: {}", at.port,
                         at.address.text(), why)});
  }
}

std::string ServiceHealth::place_of(const Listening& at) {
  return k8s::host_port(at.address.text(), at.port);
}

std::set<std::string> ServiceHealth::waiting_places() const {
  std::set<std::string> places;
  for (const auto& at : failed_) {
    places.insert(place_of(at));
  }
  return places;
}

HttpResponse ServiceHealth::answer(const Listening& at) const {
  const auto check = checks_.find(at.service);
  if (check == checks_.end()) {
    return {503, "text/plain; charset=utf-8", "no such service\n"};
  }
  return service_health(check->second, at.address.family(), health_, clock_());
}

}  // namespace lb::agent
