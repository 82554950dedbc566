// SPDX-License-Identifier: Apache-2.0
// The base objects around each kind of object, and the oracles that visit() checks.
#include "tests/fuzz/world.hpp"

#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "tests/fuzz/input.hpp"
#include "tests/lib/plan_lines.hpp"
#include "tests/lib/whole_plan.hpp"

namespace lb::fuzz {
namespace {

k8s::Address address(std::string_view text) { return k8s::Address::parse(text).value(); }

k8s::Service base_service() {
  k8s::Service service;
  service.key = {"default", "web"};
  service.created = 1;
  service.type = k8s::ServiceType::node_port;
  service.cluster_ips = {address("10.96.0.10"), address("fd00:96::10")};
  service.external_ips = {address("198.51.100.10")};
  service.ports = {{"http", k8s::Protocol::tcp, 80, 30080}};
  return service;
}

k8s::EndpointSlice base_slice() {
  k8s::EndpointSlice slice;
  slice.key = {"default", "base"};
  slice.service = "web";
  slice.ports = {{"http", k8s::Protocol::tcp, 8080}};
  slice.endpoints.resize(2);
  slice.endpoints[0].address = address("10.244.0.10");
  slice.endpoints[0].node_name = "node-a";
  slice.endpoints[0].zone = "zone-a";
  slice.endpoints[1].address = address("10.244.1.10");
  slice.endpoints[1].zone = "zone-b";
  return slice;
}

k8s::Node base_node() {
  k8s::Node node;
  node.name = "node-a";
  node.labels = {{"topology.kubernetes.io/zone", "zone-a"}};
  node.internal_ips = {address("192.0.2.1")};
  return node;
}

void fit(Base& base, const k8s::Service& service) {
  base.service.key = service.key;
  base.slice.key.name_space = service.key.name_space;
  base.slice.service = service.key.name;
  base.slice.ports.clear();
  for (const auto& port : service.ports) {
    base.slice.ports.push_back({port.name, port.protocol, 8080});
  }
}

void fit(Base& base, const k8s::EndpointSlice& slice) {
  base.service.key = {slice.key.name_space, slice.service};
  base.slice.key.name_space = slice.key.name_space;
  base.slice.service = slice.service;
  base.service.ports.clear();
  for (const auto& port : slice.ports) {
    const auto number = static_cast<std::uint16_t>(80 + base.service.ports.size());
    base.service.ports.push_back({port.name, port.protocol, number, 0});
  }
}

void fit(Base& base, const k8s::Node& node) {
  base.node.name = node.name;
  base.slice.endpoints[0].node_name = node.name;
}

void fit(Base& /*base*/, const k8s::ServiceCidr& /*cidr*/) {}

Base base_for(const k8s::Object& object) {
  Base base{base_node(), base_service(), base_slice()};
  std::visit([&](const auto& value) { fit(base, value); }, object);
  return base;
}

}  // namespace

World::World(const k8s::Object& object)
    : base_(base_for(object)), cluster_(base_.node.name, {}, record_, {}) {
  put_base();
  cluster_.synced();
}

void World::put_base() {
  put(base_.service);
  put(base_.slice);
  put(base_.node);
}

void World::put(const k8s::Object& object) {
  if (const auto* service = std::get_if<k8s::Service>(&object)) {
    services_[service->key] = *service;
  } else if (const auto* slice = std::get_if<k8s::EndpointSlice>(&object)) {
    slices_[slice->key] = *slice;
  }
  std::visit([this](const auto& value) { cluster_.upsert(std::remove_cvref_t<decltype(value)>(value)); },
             object);
}

void World::take(const k8s::Object& object) {
  if (const auto* service = std::get_if<k8s::Service>(&object)) {
    cluster_.erase_service(service->key);
    services_.erase(service->key);
  } else if (const auto* slice = std::get_if<k8s::EndpointSlice>(&object)) {
    cluster_.erase_slice(slice->key);
    slices_.erase(slice->key);
  } else if (const auto* node = std::get_if<k8s::Node>(&object)) {
    cluster_.erase_node(node->name);
  }
}

/// There is only one service, the base's or the object in its place: conflicts over an address are tested
/// elsewhere.
void World::compare_with_plan() const {
  const auto& [key, service] = *services_.begin();
  std::vector<k8s::EndpointSlice> slices;
  for (const auto& [slice_key, slice] : slices_) {
    if (slice_key.name_space == key.name_space && slice.service == key.name) {
      slices.push_back(slice);
    }
  }
  std::vector<std::string> planned;
  for (const auto& plan : test::whole_plan(service, slices, cluster_.node(), {})) {
    for (auto& line : test::plan_lines(plan)) {
      planned.push_back(std::move(line));
    }
  }
  require(record_.lines() == planned, "the cluster's plan is the plan from nothing");
}

void World::visit(const k8s::Object& object) {
  const auto before = record_.lines();
  put(object);
  cluster_.flush();
  compare_with_plan();
  take(object);
  cluster_.flush();
  put_base();
  cluster_.flush();
  require(record_.lines() == before, "an object that goes leaves no trace in the plan");
  require(record_.empty_changes == 0, "no change tells what was known");
  require(record_.late_deletes == 0, "services that go are reported first");
}

}  // namespace lb::fuzz
