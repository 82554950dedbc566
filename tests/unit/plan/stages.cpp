// SPDX-License-Identifier: Apache-2.0
// The stages of a Service's work: each transition happens, an impossible one harms nothing, and wherever the
// work is interrupted, what is planned in the end is what a clean start plans.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/plan/cluster.hpp"
#include "agent/plan/stage.hpp"
#include "build.hpp"
#include "cluster_record.hpp"
#include "random_objects.hpp"
#include "tests/lib/seed.hpp"

namespace lb::test {
namespace {

using agent::Stage;
using agent::StageEvent;

/// Has two of everything that takes several turns: claims, slices, ports.
k8s::Service large_service(const std::string& name, std::size_t addresses) {
  auto made = service();
  made.key.name = name;
  made.cluster_ips = {address("10.96.0.10")};
  made.ports = {{"http", k8s::Protocol::tcp, 80, 30080}, {"dns", k8s::Protocol::udp, 53, 0}};
  for (std::size_t at = 0; at < addresses; ++at) {
    made.external_ips.push_back(address(fmt::format("198.51.100.{}", at)));
  }
  return made;
}

k8s::EndpointSlice large_slice(const std::string& service, const std::string& name, int net) {
  k8s::EndpointSlice made;
  made.key = {"default", name};
  made.service = service;
  made.ports = {{"http", k8s::Protocol::tcp, 8080}, {"dns", k8s::Protocol::udp, 53}};
  for (int at = 0; at < 6; ++at) {
    made.endpoints.push_back(endpoint(fmt::format("10.1.{}.{}", net, at)));
  }
  return made;
}

/// A cluster that works by turns of next to no work.
class SlowCluster {
 public:
  SlowCluster() {
    cluster.take_turns([this] { is_asked_ = true; }, {.service = 2, .turn = 3});
  }
  bool turn() {
    if (std::exchange(is_asked_, false)) {
      cluster.take_turn();
      return true;
    }
    return false;
  }
  int finish() {
    int turns = 0;
    while (turn()) {
      REQUIRE(++turns < 10'000);
    }
    return turns;
  }

  Record record;
  std::vector<std::string> complaints;
  agent::Cluster cluster{"this", {}, record, [this](const k8s::Complaint& complaint) {
                           complaints.push_back(complaint.reason);
                         }};

 private:
  bool is_asked_ = false;
};

using Objects = std::function<void(agent::Cluster&)>;

/// What a cluster reports that never knew other objects, and plans all at once.
std::map<std::string, std::vector<std::string>> clean_start(const Objects& objects) {
  Record record;
  agent::Cluster cluster("this", {}, record, {});
  objects(cluster);
  cluster.synced();
  return record.lines_by_service();
}

/// A rival of "web", which gets those external IPs that "web" does not claim.
void rival_of_web(agent::Cluster& cluster) {
  auto rival = large_service("rival", 3);
  rival.cluster_ips = {address("10.96.0.11")};
  rival.created = 2;
  cluster.upsert(rival);
  cluster.upsert(large_slice("rival", "rival-1", 9));
}

void web(agent::Cluster& cluster) {
  auto made = large_service("web", 4);
  made.created = 1;
  cluster.upsert(made);
  cluster.upsert(large_slice("web", "web-1", 1));
  cluster.upsert(large_slice("web", "web-2", 2));
}

struct Interruption {
  const char* name;
  Objects change;   ///< what happens while the work is suspended
  Objects objects;  ///< of "web" in the end
};

const std::vector<Interruption> interruptions = {
    {"deleted",
     [](agent::Cluster& cluster) {
       cluster.erase_service({"default", "web"});
       cluster.erase_slice({"default", "web-1"});
       cluster.erase_slice({"default", "web-2"});
     },
     [](agent::Cluster&) {}},
    {"the object deleted", [](agent::Cluster& cluster) { cluster.erase_service({"default", "web"}); },
     [](agent::Cluster& cluster) {
       cluster.upsert(large_slice("web", "web-1", 1));
       cluster.upsert(large_slice("web", "web-2", 2));
     }},
    {"deleted, and made again",
     [](agent::Cluster& cluster) {
       cluster.erase_service({"default", "web"});
       cluster.erase_slice({"default", "web-2"});
       web(cluster);
     },
     web},
    {"replaced by one with other addresses and ports",
     [](agent::Cluster& cluster) {
       auto made = large_service("web", 2);
       made.ports.pop_back();
       made.created = 3;
       cluster.upsert(made);
     },
     [](agent::Cluster& cluster) {
       web(cluster);
       auto made = large_service("web", 2);
       made.ports.pop_back();
       made.created = 3;
       cluster.upsert(made);
     }},
    {"a slice replaced, another deleted",
     [](agent::Cluster& cluster) {
       cluster.upsert(large_slice("web", "web-1", 7));
       cluster.erase_slice({"default", "web-2"});
     },
     [](agent::Cluster& cluster) {
       web(cluster);
       cluster.erase_slice({"default", "web-2"});
       cluster.upsert(large_slice("web", "web-1", 7));
     }},
    {"the rival deleted, and made again",
     [](agent::Cluster& cluster) {
       cluster.erase_service({"default", "rival"});
       cluster.flush();
       rival_of_web(cluster);
     },
     web},
};

std::string table(const std::map<std::pair<Stage, StageEvent>, std::uint64_t>& times) {
  std::string text;
  for (const auto& each : agent::stage_transitions()) {
    const auto found = times.find({each.from, each.event});
    text += fmt::format("  {:18} {:13} {:18} {:9}\n", agent::name_of(each.from), agent::name_of(each.event),
                        agent::name_of(each.to), found == times.end() ? 0 : found->second);
  }
  return text;
}

/// Random changes of a small cluster, some turns between them.
void live(SlowCluster& slow, std::uint32_t seed) {
  RandomObjects draw(seed);
  const auto change = [&] {
    switch (draw.below(9)) {
      case 0:
        return slow.cluster.erase_service({"default", draw.service_name()});
      case 1:
      case 2:
      case 3:
        return slow.cluster.upsert(draw.service_named(draw.service_name()));
      case 4:
        return slow.cluster.erase_slice({"default", draw.slice_name()});
      case 5:
        return slow.cluster.upsert(draw.node());
      case 6:
        return draw.below(2) == 0 ? slow.cluster.labels_known({})
                                  : slow.cluster.labels_known({"topology.kubernetes.io/region"});
      default:
        return slow.cluster.upsert(draw.slice_named(draw.slice_name()));
    }
  };
  slow.cluster.synced();
  for (int step = 0; step < 150; ++step) {
    if (draw.below(6) == 0) {
      web(slow.cluster);  // one with claims for many turns
      slow.cluster.routes_forgotten();
    }
    change();
    slow.cluster.flush();
    for (auto turns = draw.below(5); turns > 0; --turns) {
      slow.turn();
    }
  }
  slow.finish();
}

}  // namespace

TEST_CASE("stages: each transition is unique, and leads on from what another one has reached") {
  std::set<std::pair<Stage, StageEvent>> seen;
  std::set<Stage> reached = {Stage::idle};
  for (std::size_t round = 0; round < agent::stages; ++round) {
    for (const auto& each : agent::stage_transitions()) {
      if (reached.contains(each.from)) {
        reached.insert(each.to);
      }
    }
  }
  for (const auto& each : agent::stage_transitions()) {
    CHECK(seen.emplace(each.from, each.event).second);
    CHECK(agent::next_stage(each.from, each.event) == each.to);
  }
  CHECK(reached.size() == agent::stages);
}

TEST_CASE("stages: every transition happens, and no impossible one, in clusters that change at random") {
  const auto seed = test::seed();
  std::map<std::pair<Stage, StageEvent>, std::uint64_t> times;
  for (std::uint32_t run = 0; run < 40; ++run) {
    SlowCluster slow;
    live(slow, seed + run);
    CHECK(std::ranges::none_of(slow.complaints, [](const auto& reason) {
      return reason.find("an error of this program") != std::string::npos;
    }));
    for (const auto& each : agent::stage_transitions()) {
      times[{each.from, each.event}] += slow.cluster.services().times(each.from, each.event);
    }
  }
  CAPTURE(seed);
  INFO(agent::stages << " stages, " << agent::stage_transitions().size() << " transitions:\n"
                     << table(times));
  CHECK(std::ranges::all_of(times, [](const auto& each) { return each.second > 0; }));
}

TEST_CASE("stages: an impossible event is said, and the Service is planned anew") {
  std::vector<std::string> said;
  agent::ServiceRecords services([&](const agent::ServiceRecord& record, StageEvent event) {
    said.push_back(record.name + ": " + agent::name_of(event));
  });
  agent::AddressBlocks blocks;
  auto& record = services.find_or_add("default/web", blocks);
  services.happened(record, StageEvent::claims_made);
  CHECK(said == std::vector<std::string>{"default/web: claims made"});
  CHECK(agent::ServiceRecords::stage_of(record) == Stage::changed);
  CHECK(services.first(agent::StageQueue::to_read) == &record);
  services.happened(record, StageEvent::claims_made);
  services.happened(record, StageEvent::planned);
  CHECK(said.size() == 1);
  CHECK(agent::ServiceRecords::stage_of(record) == Stage::idle);
}

TEST_CASE(
    "stages: a Service deleted or replaced wherever its work is suspended is planned as at a clean start") {
  const auto interruption = GENERATE(from_range(interruptions));
  CAPTURE(interruption.name);
  const auto wanted = clean_start([&](agent::Cluster& cluster) {
    interruption.objects(cluster);
    rival_of_web(cluster);
  });
  int suspensions = 0;
  std::set<Stage> stages;
  for (bool is_suspended = true; is_suspended; ++suspensions) {
    CAPTURE(suspensions);
    SlowCluster slow;
    rival_of_web(slow.cluster);
    slow.cluster.synced();
    slow.finish();
    web(slow.cluster);
    slow.cluster.flush();
    for (int turn = 0; turn < suspensions && is_suspended; ++turn) {
      is_suspended = slow.turn();
    }
    const auto* const record = slow.cluster.services().find("default/web");
    REQUIRE(record != nullptr);
    stages.insert(agent::ServiceRecords::stage_of(*record));
    interruption.change(slow.cluster);
    slow.cluster.flush();
    slow.finish();
    CHECK(slow.record.lines_by_service() == wanted);
  }
  CHECK(suspensions > 10);
  CHECK(stages.size() > 4);
}

TEST_CASE("stages: an object that changed is read before others are planned, though it waits to be planned") {
  Record record;
  agent::Cluster cluster("this", {}, record, {});
  auto older = large_service("older", 0);
  older.created = 1;
  auto younger = large_service("younger", 1);
  younger.cluster_ips = {address("10.96.0.11")};
  younger.created = 2;
  cluster.upsert(older);
  cluster.upsert(younger);
  for (const auto* name : {"older", "younger"}) {
    auto slice = large_slice(name, std::string(name) + "-1", 1);
    slice.endpoints.front().node_name = "this";
    cluster.upsert(slice);
  }
  cluster.synced();
  cluster.routes_forgotten();
  auto changed = large_slice("younger", "younger-1", 2);
  changed.endpoints.front().node_name = "this";
  cluster.upsert(changed);
  older.external_ips = {address("198.51.100.0")};
  cluster.upsert(older);
  cluster.flush();
  std::vector<std::string> reported;
  for (const auto& change : record.last) {
    reported.push_back(change.service);
  }
  CHECK(reported == std::vector<std::string>{"default/older", "default/younger"});
  CHECK(record.empty_changes == 0);
  CHECK(cluster.services().times(Stage::idle, StageEvent::affected) == 2);
}

TEST_CASE("stages: after an impossible event begun claims are completed, and the object is read again") {
  agent::ServiceRecords services([](const agent::ServiceRecord&, StageEvent) {});
  agent::AddressBlocks blocks;
  agent::Frontends frontends;
  auto& record = services.find_or_add("default/web", blocks);
  record.model.set(large_service("web", 4));
  services.happened(record, StageEvent::touched);
  agent::WorkBudget work(1);
  REQUIRE_FALSE(record.model.spec(node(), {}, frontends, work));
  services.happened(record, StageEvent::claims_begun);
  services.happened(record, StageEvent::planned);
  CHECK(agent::ServiceRecords::stage_of(record) == Stage::claiming_outdated);
}

}  // namespace lb::test
