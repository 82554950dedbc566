// SPDX-License-Identifier: Apache-2.0
// Services, backends and flows as tables and as JSON.
#include "agent/commands/show.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <limits>
#include <map>

#include "agent/commands/grid.hpp"
#include "maps/text.hpp"

namespace lb::agent {
namespace {

namespace json = boost::json;
using maps::socket_text;
using maps::stored_text;
using maps::word;

json::string_view view(std::string_view text) { return {text.data(), text.size()}; }

std::string printed(const json::value& value) { return json::serialize(value) + "\n"; }

/// Node ports are served on several addresses, hence '*'.
std::string frontend_text(const lb_frontend_key& key, const lb_frontend& frontend) {
  const auto where =
      frontend.kind == LB_NODE_PORT ? fmt::format("*:{}", key.port) : socket_text(key.address, key.port);
  return fmt::format("{} {}", word(frontend.kind), where);
}

std::string frontends_text(const ServiceView& service) {
  std::string text;
  for (const auto& [key, frontend] : service.frontends) {
    text += (text.empty() ? "" : ", ") + frontend_text(key, frontend);
  }
  return text.empty() ? "-" : text;
}

std::string policy_text(const lb_service& service) {
  const auto& policy = service.policy;
  auto text = fmt::format("internal={} external={} empty={}/{}", word(policy.internal), word(policy.external),
                          word(policy.cluster_empty), word(policy.local_empty));
  if (service.affinity_seconds != 0) {
    text += fmt::format(" affinity={}s", service.affinity_seconds);
  }
  if (policy.source_ranges == LB_YES) {
    text += " source-ranges";
  }
  if (policy.weight_error != 0) {
    constexpr auto most = std::numeric_limits<decltype(policy.weight_error)>::max();
    text += fmt::format(" weights={}{}%", policy.weight_error == most ? ">=" : "±", policy.weight_error);
  }
  return text;
}

json::object name_json(const ServiceView& service) {
  return {{"service", view(stored_text(service.name.service))},
          {"protocol", view(word(service.name.protocol))},
          {"family", view(word(service.name.family))}};
}

json::value service_json(const ServiceView& service) {
  auto object = name_json(service);
  object["number"] = service.number;
  object["clusterSlots"] = service.service.cluster.count;
  object["localSlots"] = service.service.local.count;
  const auto& policy = service.service.policy;
  object["internalTrafficPolicy"] = view(word(policy.internal));
  object["externalTrafficPolicy"] = view(word(policy.external));
  object["clusterEmpty"] = view(word(policy.cluster_empty));
  object["localEmpty"] = view(word(policy.local_empty));
  object["affinitySeconds"] = service.service.affinity_seconds;
  object["weightErrorPercent"] = policy.weight_error;
  object["sourceRanges"] = policy.source_ranges == LB_YES;
  json::array frontends;
  for (const auto& [key, frontend] : service.frontends) {
    frontends.push_back({{"kind", view(word(frontend.kind))},
                         {"address", maps::address_text(key.address)},
                         {"port", key.port}});
  }
  object["frontends"] = std::move(frontends);
  return object;
}

std::string yes(lb_bool value) { return value == LB_YES ? "yes" : "-"; }

json::value backend_json(const ServiceView& service, const BackendView& view_of) {
  const auto& backend = view_of.backend;
  auto object = name_json(service);
  object["id"] = view_of.id;
  object["address"] = maps::address_text(backend.address);
  object["port"] = backend.port;
  object["locality"] = view(word(backend.locality));
  object["inClusterSet"] = backend.in_cluster == LB_YES;
  object["inLocalSet"] = backend.in_local == LB_YES;
  object["serving"] = backend.serving == LB_YES;
  object["weight"] = backend.weight;
  return object;
}

std::string end_text(const FlowView::End& end) { return socket_text(end.address, end.port); }

/// Names of services by number.
using Names = std::map<std::uint32_t, std::string_view>;

Names names_of(const std::vector<ServiceView>& services) {
  Names names;
  for (const auto& service : services) {
    names.emplace(service.number, stored_text(service.name.service));
  }
  return names;
}

std::string name_of(const Names& names, std::uint32_t number) {
  const auto found = names.find(number);
  return found == names.end() ? fmt::format("#{}", number) : std::string(found->second);
}

/// Time since the last packet; the clocks may differ by a second.
std::string idle_text(const FlowView& flow, std::uint32_t now) {
  return now == 0 ? "-" : fmt::format("{}s", now > flow.track.seen ? now - flow.track.seen : 0);
}

json::value flow_json(const FlowView& flow, const Names& names, std::uint32_t now) {
  json::object object = {{"protocol", view(word(flow.protocol))},
                         {"family", view(word(flow.family))},
                         {"client", end_text(flow.client)},
                         {"frontend", end_text(flow.frontend)},
                         {"backend", end_text(flow.backend)},
                         {"source", end_text(flow.source)},
                         {"sourceNat", flow.track.source_nat == LB_YES},
                         {"service", name_of(names, flow.track.service)},
                         {"backendId", flow.track.backend},
                         {"side", view(word(flow.track.side))},
                         {"path", view(word(flow.track.path))},
                         {"state", view(word(flow.track.state))},
                         {"assured", flow.is_assured}};
  if (now != 0) {
    object["idleSeconds"] = now > flow.track.seen ? now - flow.track.seen : 0;
  }
  return object;
}

std::string flow_table(const FlowList& list, const Names& names) {
  Grid grid({{"PROTOCOL"},
             {"CLIENT"},
             {"FRONTEND"},
             {"BACKEND"},
             {"SEEN AS"},
             {"SERVICE"},
             {"PATH"},
             {"STATE"},
             {"ASSURED"},
             {"IDLE", Align::right}});
  for (const auto& flow : list.flows) {
    grid.add({std::string(word(flow.protocol)), end_text(flow.client), end_text(flow.frontend),
              end_text(flow.backend), flow.track.source_nat == LB_YES ? end_text(flow.source) : "itself",
              name_of(names, flow.track.service), std::string(word(flow.track.path)),
              std::string(word(flow.track.state)), flow.is_assured ? "yes" : "no",
              idle_text(flow, list.now)});
  }
  auto text = grid.text();
  if (list.all > list.flows.size()) {
    text += fmt::format("{} of {} flows; --limit 0 shows all\n", list.flows.size(), list.all);
  }
  return text;
}

}  // namespace

std::string show_services(const std::vector<ServiceView>& services, Output output) {
  if (output == Output::json) {
    json::array array;
    for (const auto& service : services) {
      array.push_back(service_json(service));
    }
    return printed(array);
  }
  Grid grid({{"SERVICE"},
             {"PROTOCOL"},
             {"FAMILY"},
             {"CLUSTER", Align::right},
             {"LOCAL", Align::right},
             {"POLICY"},
             {"FRONTENDS"}});
  for (const auto& service : services) {
    grid.add({std::string(stored_text(service.name.service)), std::string(word(service.name.protocol)),
              std::string(word(service.name.family)), std::to_string(service.service.cluster.count),
              std::to_string(service.service.local.count), policy_text(service.service),
              frontends_text(service)});
  }
  return grid.text();
}

std::string show_backends(const std::vector<ServiceView>& services, const BackendViews& list, Output output) {
  json::array array;
  Grid grid({{"SERVICE"},
             {"PROTOCOL"},
             {"BACKEND"},
             {"LOCALITY"},
             {"CLUSTER"},
             {"LOCAL"},
             {"SERVING"},
             {"WEIGHT", Align::right}});
  for (const auto& service : services) {
    for (const auto& each : list.backends) {
      const auto& backend = each.backend;
      if (backend.service != service.number) {
        continue;
      }
      array.push_back(backend_json(service, each));
      grid.add({std::string(stored_text(service.name.service)), std::string(word(service.name.protocol)),
                socket_text(backend.address, backend.port), std::string(word(backend.locality)),
                yes(backend.in_cluster), yes(backend.in_local), yes(backend.serving),
                std::to_string(backend.weight)});
    }
  }
  if (output == Output::json) {
    return printed(array);
  }
  return grid.text() + (list.gone == 0 ? ""
                                       : fmt::format("{} more are gone, kept until no flow can name them; "
                                                     "--all shows them\n",
                                                     list.gone));
}

std::string show_flows(const FlowList& list, const std::vector<ServiceView>& services, Output output) {
  const auto names = names_of(services);
  if (output == Output::table) {
    return flow_table(list, names);
  }
  json::array flows;
  for (const auto& flow : list.flows) {
    flows.push_back(flow_json(flow, names, list.now));
  }
  return printed({{"all", list.all}, {"flows", std::move(flows)}});
}

}  // namespace lb::agent
