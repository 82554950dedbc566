// SPDX-License-Identifier: Apache-2.0
// Upstream's TestCategorizeEndpoints (Kubernetes v1.36, pkg/proxy/topology_test.go), case by case with its
// names; and our own rows below it.
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "build.hpp"

namespace lb::test {
namespace {

struct Row {
  std::string name;
  std::string node;     ///< own node's name
  std::string zone;     ///< own zone, may be empty
  std::string service;  ///< "itp", "etp" (policy is Local); "port", "vip", "ext" (frontend)
  std::vector<std::string> endpoints;
  std::string cluster;  ///< last bytes of the addresses in the set; "-": the set is not used
  std::string local;
  bool any = true;
};

const std::string gone = " unready terminating";

const std::vector<std::string> zones = {"10.1.2.3 for-zone=zone-a", "10.1.2.4 for-zone=zone-b",
                                        "10.1.2.5 for-zone=zone-c", "10.1.2.6 for-zone=zone-a"};
const std::vector<std::string> zones_two_local = {"10.1.2.3 for-zone=zone-a node=this",
                                                  "10.1.2.4 for-zone=zone-b node=this",
                                                  "10.1.2.5 for-zone=zone-c", "10.1.2.6 for-zone=zone-a"};
const std::vector<std::string> nodes = {
    "10.1.2.3 for-zone=zone-a for-node=node-1", "10.1.2.4 for-zone=zone-b for-node=node-2",
    "10.1.2.5 for-zone=zone-c for-node=node-3", "10.1.2.6 for-zone=zone-a for-node=node-4"};
const std::vector<std::string> one_local = {"10.0.0.0 node=this", "10.0.0.1"};
const std::vector<std::string> remote = {"10.0.0.0", "10.0.0.1"};
const std::vector<std::string> second_local = {"10.0.0.0", "10.0.0.1 node=this"};

// clang-format off
const std::vector<Row> rows = {
    {"should use topology since all endpoints have hints, node has a zone label and and there are endpoints for the node's zone",
     "this", "zone-a", "", zones, "3 6", "-"},
    {"externalTrafficPolicy: Local, topology ignored for Local endpoints",
     "this", "zone-a", "etp port", zones_two_local, "3 6", "3 4"},
    {"internalTrafficPolicy: Local, topology ignored for Local endpoints",
     "this", "zone-a", "itp port", zones_two_local, "3 6", "3 4"},
    {"empty node labels", "this", "", "", {"10.1.2.3 for-zone=zone-a"}, "3", "-"},
    {"empty zone label", "this", "", "", {"10.1.2.3 for-zone=zone-a"}, "3", "-"},
    {"node in different zone, no endpoint filtering",
     "this", "zone-b", "", {"10.1.2.3 for-zone=zone-a"}, "3", "-"},
    {"unready endpoint", "this", "zone-a", "",
     {"10.1.2.3 for-zone=zone-a", "10.1.2.4 for-zone=zone-b", "10.1.2.5 for-zone=zone-c",
      "10.1.2.6 for-zone=zone-a unready"}, "3", "-"},
    {"only unready endpoints in same zone (should not filter)", "this", "zone-a", "",
     {"10.1.2.3 for-zone=zone-a unready", "10.1.2.4 for-zone=zone-b", "10.1.2.5 for-zone=zone-c",
      "10.1.2.6 for-zone=zone-a unready"}, "4 5", "-"},
    {"missing hints, no filtering applied", "this", "zone-a", "",
     {"10.1.2.3 for-zone=zone-a", "10.1.2.4 for-zone=zone-b", "10.1.2.5", "10.1.2.6 for-zone=zone-a"},
     "3 4 5 6", "-"},
    {"multiple hints per endpoint, filtering includes any endpoint with zone included", "this", "zone-c", "",
     {"10.1.2.3 for-zone=zone-a for-zone=zone-b for-zone=zone-c", "10.1.2.4 for-zone=zone-b for-zone=zone-c",
      "10.1.2.5 for-zone=zone-b for-zone=zone-d", "10.1.2.6 for-zone=zone-c"}, "3 4 6", "-"},
    // The feature gate is locked on (SEM-89), so here the node's own endpoint is chosen; without the gate
    // upstream expects "3 6".
    {"PreferSameNode falls back to same-zone when feature gate disabled", "node-1", "zone-a", "", nodes, "3", "-"},
    {"PreferSameNode available", "node-1", "zone-a", "", nodes, "3", "-"},
    {"PreferSameNode ignored if some endpoints unhinted", "node-1", "zone-a", "",
     {"10.1.2.3 for-zone=zone-a for-node=node-1", "10.1.2.4", "10.1.2.5 for-zone=zone-c for-node=node-3",
      "10.1.2.6 for-zone=zone-a for-node=node-4"}, "3 4 5 6", "-"},
    {"PreferSameNode falls back to PreferSameZone if no endpoint for node", "node-0", "zone-a", "", nodes, "3 6", "-"},
    {"conflicting topology and localness require merging allEndpoints", "this", "zone-a", "etp port",
     {"10.0.0.0 for-zone=zone-a node=this", "10.0.0.1 for-zone=zone-b node=this", "10.0.0.2 for-zone=zone-a",
      "10.0.0.3 for-zone=zone-b"}, "0 2", "0 1"},
    {"internalTrafficPolicy: Local, with empty endpoints", "this", "", "itp", {}, "-", "", false},
    {"internalTrafficPolicy: Local, but all endpoints are remote", "this", "", "itp", remote, "-", ""},
    {"internalTrafficPolicy: Local, all endpoints are local", "this", "", "itp",
     {"10.0.0.0 node=this", "10.0.0.1 node=this"}, "-", "0 1"},
    {"internalTrafficPolicy: Local, some endpoints are local", "this", "", "itp", one_local, "-", "0"},
    {"Cluster traffic policy, endpoints not Ready", "this", "", "",
     {"10.0.0.0 unready unserving", "10.0.0.1 unready unserving"}, "", "-", false},
    {"Cluster traffic policy, some endpoints are Ready", "this", "", "",
     {"10.0.0.0 unready unserving", "10.0.0.1"}, "1", "-"},
    {"Cluster traffic policy, all endpoints are terminating", "this", "", "",
     {"10.0.0.0 node=this" + gone, "10.0.0.1" + gone}, "0 1", "-"},
    {"iTP: Local, eTP: Cluster, some endpoints local", "this", "", "itp port", one_local, "0 1", "0"},
    {"iTP: Cluster, eTP: Local, some endpoints local", "this", "", "etp port", one_local, "0 1", "0"},
    {"iTP: Local, eTP: Local, some endpoints local", "this", "", "itp etp port", one_local, "0 1", "0"},
    {"iTP: Local, eTP: Local, all endpoints remote", "this", "", "itp etp port", remote, "0 1", ""},
    {"iTP: Local, eTP: Local, all endpoints remote and terminating", "this", "", "itp etp port",
     {"10.0.0.0" + gone, "10.0.0.1" + gone}, "0 1", ""},
    {"iTP: Cluster, eTP: Local, with terminating endpoints", "this", "", "etp port",
     {"10.0.0.0", "10.0.0.1 unready unserving node=this", "10.0.0.2 node=this" + gone, "10.0.0.3" + gone}, "0", "2"},
    {"externalTrafficPolicy ignored if not externally accessible", "this", "", "etp", second_local, "0 1", "-"},
    {"no cluster endpoints for iTP:Local internal-only service", "this", "", "itp", second_local, "-", "1"},
    {"empty endpoints when no service endpoints exist", "this", "", "", {}, "", "-", false},
    {"single endpoint not ready, not serving, not terminating", "this", "zone-a", "",
     {"10.0.0.0 unready unserving"}, "", "-", false},
};

const std::vector<Row> own_rows = {
    {"both policies Local, nobody anywhere", "this", "", "itp etp port", {}, "", "", false},
    {"externally accessible by a load-balancer address alone", "this", "", "etp vip", one_local, "0 1", "0"},
    {"externally accessible by an external IP alone", "this", "", "etp ext", one_local, "0 1", "0"},
    {"internal policy Local, externally accessible by an external IP", "this", "", "itp ext", one_local, "0 1", "0"},
    {"hints for other nodes and other zones", "node-0", "zone-d", "", nodes, "3 4 5 6", "-"},
    {"node hints for a node without a zone", "node-2", "", "", nodes, "4", "-"},
    {"other nodes' hints for a node without a zone", "node-0", "", "", nodes, "3 4 5 6", "-"},
    {"all node hints, one zone hint missing", "node-1", "zone-a", "",
     {"10.1.2.3 for-node=node-1", "10.1.2.4 for-zone=zone-a for-node=node-2"}, "3", "-"},
    {"all zone hints, one node hint missing", "node-1", "zone-a", "",
     {"10.1.2.3 for-zone=zone-b for-node=node-1", "10.1.2.4 for-zone=zone-a"}, "4", "-"},
    {"one endpoint for several nodes", "node-1", "zone-a", "",
     {"10.1.2.3 for-node=node-1 for-node=node-2", "10.1.2.4 for-node=node-2"}, "3", "-"},
    {"an unready endpoint may lack its hint", "this", "zone-a", "",
     {"10.1.2.3 for-zone=zone-a", "10.1.2.4 for-zone=zone-b", "10.1.2.5 unready"}, "3", "-"},
    {"a terminating endpoint may lack its hint", "this", "zone-a", "",
     {"10.1.2.3 for-zone=zone-a", "10.1.2.4 for-zone=zone-b", "10.1.2.5" + gone}, "3", "-"},
    {"the hint of a terminating endpoint chooses nothing", "this", "zone-a", "",
     {"10.1.2.3 for-zone=zone-a" + gone, "10.1.2.4 for-zone=zone-b"}, "4", "-"},
    {"only terminating endpoints: hints mean nothing", "this", "zone-a", "",
     {"10.1.2.3 for-zone=zone-a" + gone, "10.1.2.4 for-zone=zone-b" + gone}, "3 4", "-"},
    {"ready and terminating is ready", "this", "", "etp port",
     {"10.0.0.0 terminating node=this", "10.0.0.1 unready terminating node=this", "10.0.0.2 terminating"}, "0 2", "0"},
    {"ready and not serving is ready", "this", "", "itp", {"10.0.0.0 unserving node=this"}, "-", "0"},
    {"serving and neither ready nor terminating is nobody", "this", "", "itp port",
     {"10.0.0.0 unready node=this"}, "", "", false},
    {"terminating and not serving is nobody", "this", "", "itp port",
     {"10.0.0.0 unready unserving terminating node=this"}, "", "", false},
    {"one ready endpoint here keeps terminating ones here out", "this", "", "itp",
     {"10.0.0.0 node=this", "10.0.0.1 node=this" + gone}, "-", "0"},
    {"internal policy Local, only terminating endpoints elsewhere", "this", "", "itp", {"10.0.0.0" + gone}, "-", ""},
    {"an endpoint without a node is nobody's own", "", "", "itp", remote, "-", ""},
};
// clang-format on

k8s::Service service_of(const Row& row) {
  auto made = service();
  if (row.service.find("itp") != std::string::npos) {
    made.internal_policy = k8s::TrafficPolicy::local;
  }
  if (row.service.find("etp") != std::string::npos) {
    made.external_policy = k8s::TrafficPolicy::local;
  }
  if (row.service.find("port") != std::string::npos) {
    made.ports.front().node_port = 30080;
  }
  if (row.service.find("vip") != std::string::npos) {
    made.load_balancer_ips = {address("203.0.113.10")};
  }
  if (row.service.find("ext") != std::string::npos) {
    made.external_ips = {address("203.0.113.7")};
  }
  return made;
}

agent::NodeView node_of(const Row& row) {
  auto made = node();
  made.name = row.node;
  made.zone = row.zone;
  return made;
}

std::string members(const agent::PortSpec& spec, const agent::ServicePortPlan& plan, lb_scope scope) {
  if (!spec.uses.at(scope)) {
    return "-";
  }
  std::string text;
  for (const auto& backend : plan.backends) {
    if (!(scope == LB_CLUSTER ? backend.in_cluster : backend.in_local)) {
      continue;
    }
    if (!text.empty()) {
      text += ' ';
    }
    text += std::to_string(backend.address.bytes.back());
  }
  return text;
}

TEST_CASE("upstream's categorize cases are all here") { CHECK(rows.size() == 32); }

void check(const Row& row) {
  const auto view = node_of(row);
  const auto specs = agent::spec(service_of(row), view, {});
  REQUIRE(specs.ports.size() == 1);
  const auto& spec = specs.ports.front();
  const agent::CompactSlice compact(slice("one", row.endpoints));
  std::vector<agent::Candidate> found;
  CHECK(compact.append(spec.plan.key, spec.port_name, {view, {}}, found).empty());
  agent::CandidateList candidates;
  candidates.update({}, found);
  const auto plan = agent::complete(spec, candidates);
  CHECK(members(spec, plan, LB_CLUSTER) == row.cluster);
  CHECK(members(spec, plan, LB_LOCAL) == row.local);
  CHECK(candidates.counts().any() == row.any);
  if (spec.uses[LB_LOCAL]) {
    CHECK(plan.policy.local_empty == (row.any ? LB_DROP : LB_REJECT));
  }
  CHECK(plan.policy.cluster_empty == LB_REJECT);
}

TEST_CASE("categorize endpoints (SEM-20, SEM-21, SEM-22, SEM-26)") {
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.name) { check(row); }
  }
}

TEST_CASE("what upstream's cases leave out (SEM-7, SEM-8, SEM-20, SEM-21, SEM-26)") {
  for (const auto& row : own_rows) {
    DYNAMIC_SECTION(row.name) { check(row); }
  }
}

}  // namespace
}  // namespace lb::test
