// SPDX-License-Identifier: Apache-2.0
// From slices to endpoints: the situations of upstream's endpoint slice cache (Kubernetes v1.36,
// pkg/proxy/endpointslicecache_test.go), written as our own cases.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "agent/plan/cluster.hpp"
#include "build.hpp"
#include "cluster_record.hpp"

namespace lb::test {
namespace {

using Ports = std::vector<k8s::EndpointPort>;
using Texts = std::vector<std::string>;

const k8s::EndpointPort http{"http", k8s::Protocol::tcp, 80};
const k8s::EndpointPort https{"https", k8s::Protocol::tcp, 443};
const k8s::EndpointPort other_http{"http", k8s::Protocol::tcp, 8080};

constexpr int never = 999;

/// Endpoints from 10.0.NET.1 on; every `unready`th is neither ready nor serving, every `terminating`th is not
/// ready.
Texts numbered(int net, int count, int unready = never, int terminating = never) {
  Texts endpoints;
  for (int i = 1; i <= count; ++i) {
    auto text = "10.0." + std::to_string(net) + "." + std::to_string(i);
    const bool is_unready = i % unready == 0;
    const bool is_terminating = i % terminating == 0;
    if (is_unready || is_terminating) {
      text += " unready";
    }
    if (is_unready) {
      text += " unserving";
    }
    if (is_terminating) {
      text += " terminating";
    }
    endpoints.push_back(text);
  }
  return endpoints;
}

k8s::EndpointSlice slice_of(const std::string& name, const Texts& endpoints, const Ports& ports) {
  auto made = slice(name, endpoints);
  made.ports = ports;
  return made;
}

k8s::Service two_ports() {
  auto made = service();
  made.ports = {{"http", k8s::Protocol::tcp, 80, 0}, {"https", k8s::Protocol::tcp, 443, 0}};
  return made;
}

/// A backend as "NET.HOST:PORT", with "!" after those of this node, in "(…)" if it accepts no new flows.
std::string text_of(const agent::BackendPlan& backend) {
  const auto& bytes = backend.address.bytes;
  const auto text = std::to_string(bytes[14]) + "." + std::to_string(bytes[15]) + ":" +
                    std::to_string(backend.port) + (backend.locality == LB_SAME_NODE ? "!" : "");
  return backend.in_cluster ? text : "(" + text + ")";
}

std::string text_of(const std::vector<agent::ServicePortPlan>& plans, const std::string& port) {
  std::string text;
  for (const auto& plan : plans) {
    if (plan.key.name != "default/web:" + port) {
      continue;
    }
    for (const auto& backend : plan.backends) {
      text += (text.empty() ? "" : " ") + text_of(backend);
    }
  }
  return text;
}

struct Row {
  std::string name;
  std::vector<k8s::EndpointSlice> slices;
  std::string http;
  std::string https;
};

const Texts with_nodes = {"10.0.1.1 node=peer", "10.0.1.2 node=this", "10.0.1.3 node=peer"};
const Texts two_with_nodes = {"10.0.1.1 node=peer", "10.0.1.2 node=this"};

// clang-format off
const std::vector<Row> rows = {
    // TestEndpointsMapFromESC
    {"each port of a slice has all of its endpoints", {slice_of("a", with_nodes, {http, https})},
     "1.1:80 1.2:80! 1.3:80", "1.1:443 1.2:443! 1.3:443"},
    {"two slices of one port add up", {slice_of("a", numbered(1, 3), {http}), slice_of("b", numbered(2, 3), {http})},
     "1.1:80 1.2:80 1.3:80 2.1:80 2.2:80 2.3:80", ""},
    {"what is in both of two slices counts once", {slice_of("a", numbered(1, 3), {http}), slice_of("b", numbered(1, 4), {http})},
     "1.1:80 1.2:80 1.3:80 1.4:80", ""},
    {"ready in one slice is ready", {slice_of("a", numbered(1, 10, 3), {http}), slice_of("b", numbered(1, 10, 6), {http})},
     "1.10:80 1.1:80 1.2:80 1.3:80 1.4:80 1.5:80 1.7:80 1.8:80 1.9:80", ""},
    {"terminating in both slices only serves", {slice_of("a", numbered(1, 10, 3, 5), {http}), slice_of("b", numbered(1, 10, 6, 5), {http})},
     "(1.10:80) 1.1:80 1.2:80 1.3:80 1.4:80 (1.5:80) 1.7:80 1.8:80 1.9:80", ""},
    {"unready in both slices is nobody", {slice_of("a", numbered(1, 10, 1), {http}), slice_of("b", numbered(1, 10, 1), {http})}, "", ""},
    {"a port without number is ignored", {slice_of("a", with_nodes, {{"http", k8s::Protocol::tcp, 0}})}, "", ""},
    {"one address with two target ports is two endpoints", {slice_of("a", two_with_nodes, {http}), slice_of("b", two_with_nodes, {other_http})},
     "1.1:80 1.1:8080 1.2:80! 1.2:8080!", ""},
    // TestEndpointInfoByServicePort, except for repetitions
    {"one slice, some endpoints here", {slice_of("a", with_nodes, {http})}, "1.1:80 1.2:80! 1.3:80", ""},
    {"of three times the same address in one slice the running one counts",
     {slice_of("a", {"10.0.1.1 unready terminating", "10.0.1.1 node=this", "10.0.1.1 unready unserving terminating"}, {http})}, "1.1:80!", ""},
};
// clang-format on

TEST_CASE("slices become endpoints (SEM-4, SEM-5)") {
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.name) {
      const auto plans = test::whole_plan(two_ports(), row.slices, node(), {});
      CHECK(text_of(plans, "http") == row.http);
      CHECK(text_of(plans, "https") == row.https);
      const std::vector<k8s::EndpointSlice> backwards(row.slices.rbegin(), row.slices.rend());
      CHECK(test::whole_plan(two_ports(), backwards, node(), {}) == plans);
    }
  }
}

struct Edit {
  std::string name;
  k8s::EndpointSlice before;
  k8s::EndpointSlice after;
  std::size_t reported;  ///< batches after the first
};

const std::string one = "10.0.1.0";
const std::string two = "10.0.1.1";

/// TestEsDataChanged. Upstream syncs if only the order changes; a plan does not (SEM-87).
const std::vector<Edit> edits = {
    {"the same ports", slice_of("a", {}, {http}), slice_of("a", {}, {http}), 0},
    {"the same ports in another order", slice_of("a", {one}, {https, http}),
     slice_of("a", {one}, {http, https}), 0},
    {"a port less", slice_of("a", {one}, {https, http}), slice_of("a", {one}, {https}), 1},
    {"a port more", slice_of("a", {one}, {https}), slice_of("a", {one}, {https, http}), 1},
    {"the same endpoints", slice_of("a", {one, two}, {https}), slice_of("a", {one, two}, {https}), 0},
    {"the same endpoints in another order", slice_of("a", {one, two}, {https}),
     slice_of("a", {two, one}, {https}), 0},
    {"an endpoint more", slice_of("a", {one}, {https}), slice_of("a", {two, one}, {https}), 1},
};

TEST_CASE("a slice is reported again when it plans otherwise (SEM-87)") {
  for (const auto& edit : edits) {
    DYNAMIC_SECTION(edit.name) {
      Record record;
      agent::Cluster cluster("this", {}, record, {});
      cluster.upsert(two_ports());
      cluster.upsert(edit.before);
      cluster.synced();
      cluster.upsert(edit.after);
      cluster.flush();
      CHECK(record.batches.size() == 1 + edit.reported);
      CHECK(record.empty_changes == 0);
    }
  }
}

k8s::EndpointSlice placed(const std::string& name_space, const std::string& service,
                          const std::string& name) {
  auto made = slice_of(name, {"1.1.1.1 node=this"}, {{"n1", k8s::Protocol::udp, 11}});
  made.key.name_space = name_space;
  made.service = service;
  return made;
}

struct Leftover {
  std::string name;
  std::vector<k8s::EndpointSlice> slices;
};

/// TestEndpointSliceCacheClearedCorrectly
const std::vector<Leftover> leftovers = {
    {"one slice", {placed("ns1", "ep1", "ep1-1")}},
    {"two services", {placed("ns1", "ep1", "ep1-1"), placed("ns1", "ep2", "ep2-2")}},
    {"one service", {placed("ns1", "ep1", "ep1-1"), placed("ns1", "ep1", "ep1-2")}},
    {"two namespaces", {placed("ns1", "ep1", "ep1-1"), placed("ns2", "ep1", "ep1-2")}},
    {"the same name in two namespaces", {placed("ns1", "ep1", "ep1-1"), placed("ns2", "ep1", "ep1-1")}},
};

TEST_CASE("slices that went leave nothing (SEM-87)") {
  for (const auto& row : leftovers) {
    DYNAMIC_SECTION(row.name) {
      Record record;
      agent::Cluster cluster("this", {}, record, {});
      for (const auto& slice : row.slices) {
        cluster.upsert(slice);
      }
      cluster.synced();
      CHECK(cluster.counts().endpoints == row.slices.size());
      for (const auto& slice : row.slices) {
        cluster.erase_slice(slice.key);
      }
      cluster.flush();
      CHECK(cluster.counts().slices == 0);
      CHECK(cluster.counts().endpoints == 0);
    }
  }
}

/// TestSameServiceEndpointSliceCacheClearedCorrectly
TEST_CASE("one of two slices of a service goes, and the other one stays") {
  Record record;
  agent::Cluster cluster("this", {}, record, {});
  cluster.upsert(placed("ns1", "svc1", "svc1-1"));
  cluster.upsert(placed("ns1", "svc1", "svc1-2"));
  cluster.synced();
  cluster.erase_slice({"ns1", "svc1-1"});
  cluster.flush();
  CHECK(cluster.counts().slices == 1);
  CHECK(cluster.counts().endpoints == 1);
}

/// The case of several services in TestEndpointsMapFromESC
TEST_CASE("a slice is for the service of its label and its namespace (SEM-3, SEM-4)") {
  Record record;
  agent::Cluster cluster("this", {}, record, {});
  cluster.upsert(two_ports());
  cluster.upsert(slice_of("a", {"10.0.1.1"}, {http}));
  auto of_another_service = slice_of("b", {"10.0.2.1"}, {http});
  of_another_service.service = "other";
  auto of_another_place = slice_of("a", {"10.0.3.1"}, {http});
  of_another_place.key.name_space = "elsewhere";
  cluster.upsert(of_another_service);
  cluster.upsert(of_another_place);
  cluster.synced();
  const auto& ports = record.services.at("default/web");
  REQUIRE(ports.size() == 2);
  REQUIRE(ports.front()->backends.size() == 1);
  CHECK(text_of(*ports.front()->backends.begin()) == "1.1:80");
}

TEST_CASE("an endpoint that has ended is not kept, one that is not ready yet is") {
  const agent::CompactSlice kept(slice("a", {"10.1.0.1 unready unserving", "10.1.0.2 unready terminating",
                                             "10.1.0.3 unready unserving terminating"}));
  CHECK(kept.size() == 2);
  // If an address is in two slices, the endpoint that does not terminate counts, although it is not ready.
  const auto lines = planned(
      service(), {slice("a", {"10.1.0.1 unready unserving"}), slice("b", {"10.1.0.1 unready terminating"})});
  CHECK(std::ranges::none_of(lines, [](const auto& line) { return line.starts_with("backend"); }));
  const auto other = planned(service(), {slice("a", {"10.1.0.1 unready unserving terminating"}),
                                         slice("b", {"10.1.0.1 unready terminating"})});
  CHECK(std::ranges::any_of(other, [](const auto& line) { return line.starts_with("backend"); }));
}

TEST_CASE("of an endpoint that is neither ready nor serving the address alone is kept") {
  const auto bare = agent::CompactSlice(slice("a", {"10.1.0.1 unready unserving"}));
  CHECK(agent::CompactSlice(slice("a", {"10.1.0.1 unready unserving node=n zone=z for-zone=z label=rack:r"}),
                            bare) == bare);
  CHECK_FALSE(bare.names_node("n"));
  const agent::CompactSlice serving(slice("a", {"10.1.0.1 unready node=n"}));
  CHECK(serving.names_node("n"));
  CHECK_FALSE(serving == bare);
}

TEST_CASE("endpoints elsewhere, and those of Services that are not ours, wait for a change that needs them") {
  Record record;
  agent::Cluster cluster("this", {}, record, nullptr);
  auto local = service();
  local.internal_policy = k8s::TrafficPolicy::local;
  cluster.upsert(local);
  auto foreign = service();
  foreign.key.name = "foreign";
  foreign.cluster_ips = {address("10.96.0.11")};
  foreign.other_proxy = true;
  cluster.upsert(foreign);
  cluster.upsert(slice("a", {"10.1.0.1 node=peer", "10.1.0.2 unready unserving terminating"}));
  for (const auto* name : {"foreign", "unknown"}) {
    auto of_another = slice(name, {"10.1.0.3 node=peer", "10.1.0.4 unready unserving terminating"});
    of_another.service = name;
    cluster.upsert(of_another);
  }
  cluster.synced();
  CHECK(cluster.counts().endpoints == 3);
  CHECK(record.services.size() == 1);
  local.internal_policy = k8s::TrafficPolicy::cluster;
  cluster.upsert(local);
  foreign.other_proxy = false;
  cluster.upsert(foreign);
  foreign.key.name = "unknown";
  foreign.cluster_ips = {address("10.96.0.12")};
  cluster.upsert(foreign);
  cluster.flush();
  for (const auto* name : {"default/web", "default/foreign", "default/unknown"}) {
    const auto& backends = record.services.at(name).front()->backends;
    CHECK(std::ranges::count(backends, true, &agent::BackendPlan::in_cluster) == 1);
  }
}

}  // namespace
}  // namespace lb::test
