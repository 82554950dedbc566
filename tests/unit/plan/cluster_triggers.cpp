// SPDX-License-Identifier: Apache-2.0
// Which change triggers are measured: kube-proxy's own cases (TestLastChangeTriggerTime), with their names,
// and our own.
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <string>
#include <vector>

#include "agent/plan/cluster.hpp"
#include "build.hpp"
#include "cluster_record.hpp"

namespace lb::test {
namespace {

using Times = std::vector<std::int64_t>;
using Pending = agent::TriggerTimes::Pending;

constexpr std::int64_t start = 1000;

struct Fixture {
  Fixture() { cluster.measure_triggers(start); }

  /// The slice "name" of the service with the same name; `variant` changes its port.
  static k8s::EndpointSlice made(const std::string& name, const Times& triggers, std::uint16_t variant = 0) {
    auto made = slice(name, {"1.1.1.1"});
    made.service = name;
    made.ports.front().port = static_cast<std::uint16_t>(11 + variant);
    made.triggers = triggers;
    return made;
  }
  void put(const std::string& name, const Times& triggers, std::uint16_t variant = 0) {
    cluster.upsert(made(name, triggers, variant));
  }
  void erase(const std::string& name) { cluster.erase_slice({"default", name}); }
  Pending take() {
    cluster.synced();
    cluster.flush();
    return cluster.take_triggers();
  }

  Record record;
  agent::Cluster cluster{"this", {}, record, [](const k8s::Complaint&) {}};
};

Pending of(const std::string& service, const Times& times) {
  return {{{"default/" + service, k8s::Family::ipv4}, times}};
}

Pending of(const std::string& one, const Times& its, const std::string& other, const Times& others) {
  return {{{"default/" + one, k8s::Family::ipv4}, its}, {{"default/" + other, k8s::Family::ipv4}, others}};
}

TEST_CASE("SEM-19, SEM-64, SEM-88: the causes that kube-proxy measures") {
  struct Row {
    const char* name;
    std::function<void(Fixture&)> scenario;
    Pending expected;
  };
  const Row rows[] = {
      {"Single addEndpoints", [](Fixture& bed) { bed.put("ep1", {1001}); }, of("ep1", {1001})},
      {"addEndpoints then updatedEndpoints",
       [](Fixture& bed) {
         bed.put("ep1", {1001});
         bed.put("ep1", {1002}, 1);
       },
       of("ep1", {1001, 1002})},
      {"Add two endpoints then modify one",
       [](Fixture& bed) {
         bed.put("ep1", {1002});
         bed.put("ep2", {1003});
         bed.put("ep1", {1004}, 1);
       },
       of("ep1", {1002, 1004}, "ep2", {1003})},
      {"Endpoints without annotation set", [](Fixture& bed) { bed.put("ep1", {}); }, {}},
      {"Endpoints create before tracker started", [](Fixture& bed) { bed.put("ep1", {start - 1}); }, {}},
      {"addEndpoints then deleteEndpoints",
       [](Fixture& bed) {
         bed.put("ep1", {1002});
         bed.erase("ep1");
       },
       {}},
      {"add then delete then add again",
       [](Fixture& bed) {
         bed.put("ep1", {1002});
         bed.erase("ep1");
         bed.put("ep1", {1003}, 1);
       },
       of("ep1", {1003})},
      {"delete", [](Fixture& bed) { bed.erase("ep1"); }, {}},
      // Our own cases.
      {"at the very start", [](Fixture& bed) { bed.put("ep1", {start}); }, {}},
      {"reported again as it was",
       [](Fixture& bed) {
         bed.put("ep1", {1001});
         bed.put("ep1", {1001});
       },
       of("ep1", {1001})},
      {"the same endpoints of another cause",
       [](Fixture& bed) {
         bed.put("ep1", {1001});
         bed.put("ep1", {1002});
       },
       of("ep1", {1001, 1002})},
      {"other endpoints of the same cause",
       [](Fixture& bed) {
         bed.put("ep1", {1001});
         bed.put("ep1", {1001}, 1);
       },
       of("ep1", {1001, 1001})},
      {"several updates reported as one", [](Fixture& bed) { bed.put("ep1", {1001, 1002}); },
       of("ep1", {1001, 1002})},
      {"another slice of the service goes",
       [](Fixture& bed) {
         bed.put("ep1", {1001});
         auto second = Fixture::made("second", {1002});
         second.service = "ep1";
         bed.cluster.upsert(second);
         bed.erase("second");
       },
       {}},
      {"a slice of the other family goes",
       [](Fixture& bed) {
         bed.put("ep1", {1001});
         auto second = slice("second", {"fd00::1"});
         second.service = "ep1";
         second.triggers = {1002};
         bed.cluster.upsert(second);
         bed.erase("second");
       },
       of("ep1", {1001})},
  };
  for (const auto& row : rows) {
    CAPTURE(row.name);
    Fixture bed;
    row.scenario(bed);
    CHECK(bed.take() == row.expected);
    CHECK(bed.take().empty());
  }
}

TEST_CASE("SEM-88: a cause is reported when its change has been planned, once") {
  Fixture bed;
  bed.put("ep1", {1001});
  CHECK(bed.cluster.take_triggers().empty());
  bed.cluster.synced();
  CHECK(bed.cluster.take_triggers() == of("ep1", {1001}));
  bed.put("ep1", {1001});
  CHECK(bed.take().empty());
  bed.put("ep1", {1005}, 1);
  CHECK(bed.cluster.take_triggers().empty());
  CHECK(bed.take() == of("ep1", {1005}));
}

TEST_CASE("causes of changes are not kept unless they are measured") {
  Record record;
  agent::Cluster cluster("this", {}, record, [](const k8s::Complaint&) {});
  cluster.upsert(Fixture::made("ep1", {1001}));
  cluster.synced();
  CHECK(cluster.take_triggers().empty());
}

TEST_CASE("SEM-64: service ports with a Local policy and no endpoint here") {
  struct Row {
    const char* name;
    k8s::TrafficPolicy internal;
    k8s::TrafficPolicy external;
    std::vector<std::string> endpoints;
    std::size_t internal_count;
    std::size_t external_count;
  };
  constexpr auto local = k8s::TrafficPolicy::local;
  constexpr auto everywhere = k8s::TrafficPolicy::cluster;
  const Row rows[] = {
      {"both, elsewhere", local, local, {"10.1.0.1 node=other"}, 1, 1},
      {"internal, elsewhere", local, everywhere, {"10.1.0.1 node=other"}, 1, 0},
      {"external, elsewhere", everywhere, local, {"10.1.0.1 node=other"}, 0, 1},
      {"both, here", local, local, {"10.1.0.1 node=this"}, 0, 0},
      {"both, no endpoints at all", local, local, {}, 0, 0},
      {"neither", everywhere, everywhere, {"10.1.0.1 node=other"}, 0, 0},
  };
  for (const auto& row : rows) {
    CAPTURE(row.name);
    Fixture bed;
    auto web = service();
    web.type = k8s::ServiceType::node_port;
    web.ports.front().node_port = 30080;
    web.internal_policy = row.internal;
    web.external_policy = row.external;
    bed.cluster.upsert(web);
    bed.cluster.upsert(slice("one", row.endpoints));
    bed.cluster.synced();
    const auto counts = bed.cluster.counts().no_local;
    CHECK(counts.internal == std::array<std::size_t, 2>{row.internal_count, 0});
    CHECK(counts.external == std::array<std::size_t, 2>{row.external_count, 0});
  }
}

}  // namespace
}  // namespace lb::test
