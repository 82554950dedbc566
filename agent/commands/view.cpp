// SPDX-License-Identifier: Apache-2.0
// Converts map entries to services, backends and flows.
#include "agent/commands/view.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "agent/tables/expiry.hpp"
#include "agent/tables/snapshot.hpp"
#include "maps/text.hpp"

namespace lb::agent {
namespace {

using maps::error_code;
using maps::MapSet;
using maps::stored_text;

FlowView::End end_of(const std::uint8_t (&address)[16], std::uint16_t port) {
  FlowView::End end;
  std::memcpy(end.address.data(), address, sizeof(address));
  end.port = port;
  return end;
}

FlowView::End end_of(const std::uint8_t (&address)[4], std::uint16_t port) {
  FlowView::End end;
  end.address[10] = end.address[11] = 0xff;
  std::memcpy(&end.address[12], address, sizeof(address));
  end.port = port;
  return end;
}

bool forgotten(const lb_track& track, std::uint32_t now) {
  return now != 0 && age(now, track.seen) > LB_UNASSURED_SECONDS;
}

auto order_of(const ServiceView& view) {
  return std::make_tuple(stored_text(view.name.service), view.name.protocol, view.name.family);
}

void sort_frontends(ServiceView& view) {
  const auto order = [](const auto& entry) {
    return std::make_tuple(entry.second.kind, maps::address_text(entry.first.address), entry.first.port);
  };
  std::ranges::sort(view.frontends, std::less{}, order);
}

using Visit = std::function<void(const FlowView&)>;

/// Adds what the flow's forward entry knows. Its tuple may be another flow's by now.
template <class Table, class Key, class Flow>
void join_forward(FlowView& view, const Table& table, const Key& key, const Flow& flow) {
  const auto there = other_key(key, flow);
  const auto forward = table.get(there);
  if (!forward) {
    return;
  }
  const auto back = other_key(there, *forward);
  if (std::memcmp(&back, &key, sizeof(key)) == 0) {
    view.track = joined(view.track, forward->track);
  }
}

template <class Table>
error_code visit_established(const Table& table, const Visit& visit) {
  return table.for_each([&](const auto& key, const auto& flow) {
    if (auto view = flow_view(key, flow)) {
      view->is_assured = true;
      join_forward(*view, table, key, flow);
      visit(*view);
    }
  });
}

template <class Table>
error_code visit_unassured(const Table& unassured, const Table& established, std::uint32_t now,
                           const Visit& visit) {
  return unassured.for_each([&](const auto& key, const auto& flow) {
    auto view = flow_view(key, flow);
    if (view && !forgotten(flow.track, now) && !established.get(key)) {
      join_forward(*view, unassured, key, flow);
      visit(*view);
    }
  });
}

template <class Key, class Flow>
FlowView common_view(const Key& key, const Flow& flow, lb_family family) {
  FlowView view;
  view.family = family;
  view.protocol = key.protocol;
  view.backend = end_of(key.source, key.source_port);
  view.source = end_of(key.destination, key.destination_port);
  view.track = flow.track;
  return view;
}

}  // namespace

maps::result<std::vector<ServiceView>> read_services(const MapSet& maps) {
  std::map<std::uint32_t, ServiceView> views;
  auto error = maps.names.for_each([&](const std::uint32_t& number, const lb_name& name) {
    if (name.retired == LB_NO && number < maps.services.size()) {
      views[number] = {number, name, maps.services.load(number), {}};
    }
  });
  if (error) {
    return error;
  }
  error = maps.frontends.for_each([&](const lb_frontend_key& key, const lb_frontend& frontend) {
    if (const auto found = views.find(frontend.service); found != views.end()) {
      found->second.frontends.emplace_back(key, frontend);
    }
  });
  if (error) {
    return error;
  }
  std::vector<ServiceView> sorted;
  for (auto& [number, view] : views) {
    sort_frontends(view);
    sorted.push_back(std::move(view));
  }
  std::ranges::sort(sorted, std::less{}, order_of);
  return sorted;
}

std::vector<BackendView> read_backends(const MapSet& maps, const std::vector<std::uint32_t>& services) {
  std::vector<BackendView> views;
  for (std::uint32_t id = 1; id < maps.backends.size(); ++id) {
    const auto backend = maps.backends.load(id);
    if (backend.service != 0 && std::ranges::binary_search(services, backend.service)) {
      views.push_back({id, backend});
    }
  }
  std::ranges::sort(views, std::less{},
                    [](const BackendView& view) { return std::make_pair(view.backend.service, view.id); });
  return views;
}

BackendViews present_among(std::vector<BackendView> backends) {
  const auto gone = std::erase_if(backends, [](const BackendView& view) { return is_retired(view.backend); });
  return {std::move(backends), gone};
}

error_code read_flows(const MapSet& maps, std::uint32_t now,
                      const std::function<void(const FlowView&)>& visit) {
  if (auto error = visit_established(maps.flows4, visit)) {
    return error;
  }
  if (auto error = visit_established(maps.flows6, visit)) {
    return error;
  }
  if (auto error = visit_unassured(maps.unassured4, maps.flows4, now, visit)) {
    return error;
  }
  return visit_unassured(maps.unassured6, maps.flows6, now, visit);
}

lb_track joined(const lb_track& reply, const lb_track& forward) {
  auto both = reply;
  both.seen += age(forward.seen, reply.seen);
  both.state = std::max(reply.state, forward.state);
  return both;
}

std::optional<FlowView> flow_view(const lb_flow4_key& key, const lb_flow4& flow) {
  if (flow.track.direction != LB_REPLY) {
    return std::nullopt;
  }
  auto view = common_view(key, flow, LB_IPV4);
  view.frontend = end_of(flow.source.address, flow.source.port);
  view.client = end_of(flow.destination.address, flow.destination.port);
  return view;
}

std::optional<FlowView> flow_view(const lb_flow6_key& key, const lb_flow6& flow) {
  if (flow.track.direction != LB_REPLY) {
    return std::nullopt;
  }
  auto view = common_view(key, flow, LB_IPV6);
  view.frontend = end_of(flow.source, flow.source_port);
  view.client = end_of(flow.destination, flow.destination_port);
  return view;
}

std::vector<ServiceView> matching(std::vector<ServiceView> services, std::string_view wanted) {
  const auto exact = [wanted](const ServiceView& view) {
    const auto name = stored_text(view.name.service);
    return name == wanted || (name.starts_with(wanted) && name.substr(wanted.size()).starts_with(':'));
  };
  const auto prefix = [wanted](const ServiceView& view) {
    return stored_text(view.name.service).starts_with(wanted);
  };
  if (std::ranges::any_of(services, exact)) {
    std::erase_if(services, std::not_fn(exact));
  } else {
    std::erase_if(services, std::not_fn(prefix));
  }
  return services;
}

}  // namespace lb::agent
