// SPDX-License-Identifier: Apache-2.0
// Planning one service does not delay the others (REL-93).
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/plan/cluster.hpp"
#include "agent/plan/pacer.hpp"
#include "build.hpp"
#include "cluster_record.hpp"

namespace lb::test {
namespace {

k8s::Service named(const std::string& name, std::size_t ports, const std::string& cluster_ip) {
  auto made = service();
  made.key.name = name;
  made.cluster_ips = {address(cluster_ip)};
  made.ports.clear();
  for (std::size_t at = 0; at < ports; ++at) {
    made.ports.push_back(
        {fmt::format("p{:03}", at), k8s::Protocol::tcp, static_cast<std::uint16_t>(80 + at), 0});
  }
  return made;
}

k8s::EndpointSlice large(const std::string& of, std::size_t number, std::size_t ports,
                         std::size_t endpoints) {
  k8s::EndpointSlice made;
  made.key = {"default", fmt::format("{}-{}", of, number)};
  made.service = of;
  for (std::size_t at = 0; at < ports; ++at) {
    made.ports.push_back(
        {fmt::format("p{:03}", at), k8s::Protocol::tcp, static_cast<std::uint16_t>(8080 + at)});
  }
  for (std::size_t at = 0; at < endpoints; ++at) {
    made.endpoints.push_back(endpoint(fmt::format("10.{}.{}.{}", number, at >> 8U, at & 255U)));
  }
  return made;
}

enum class Synced : std::uint8_t { now, later };

/// Accepts the first plans in advance, if it is asked to.
class Ahead final : public agent::PlanSink {
 public:
  explicit Ahead(agent::PlanSink& sink) : sink_(sink) {}
  void apply(agent::Batch batch, std::vector<agent::PlanChange> changes) override {
    sink_.apply(batch, std::move(changes));
  }
  bool prepare(std::vector<agent::PlanChange>& changes) override {
    if (!takes) {
      return false;
    }
    most = std::max(most, changes.size());
    for (auto& change : std::exchange(changes, {})) {
      reported[change.service] = std::move(change.ports);
    }
    return true;
  }
  bool takes = false;
  std::size_t most = 0;                                 ///< most services in one call
  std::map<std::string, agent::ServicePlans> reported;  ///< the last plans reported in advance, by service

 private:
  agent::PlanSink& sink_;
};

struct Fixture {
  explicit Fixture(Synced when = Synced::now) {
    cluster.take_turns([this] { ++asked; }, {.service = 500, .turn = 500, .first = 7});
    if (when == Synced::now) {
      cluster.synced();
    }
  }
  /// The number of turns until the model requests no more.
  int turns() {
    int count = 0;
    for (; asked > 0 && count < 10'000; ++count) {
      asked = 0;
      cluster.take_turn();
    }
    return count;
  }
  Record record;
  Ahead sink{record};
  agent::Cluster cluster{"this", {}, sink, {}};
  int asked = 0;
};

TEST_CASE("what is small is planned at once, while something large has many turns") {
  Fixture bed;
  bed.cluster.upsert(named("large", 20, "10.96.0.1"));
  for (std::size_t at = 0; at < 5; ++at) {
    bed.cluster.upsert(large("large", at, 20, 200));
  }
  bed.cluster.flush();
  CHECK(bed.record.services.empty());
  CHECK(bed.asked == 1);
  bed.cluster.upsert(named("small", 1, "10.96.0.2"));
  bed.cluster.flush();
  CHECK(bed.record.services.contains("default/small"));
  CHECK_FALSE(bed.record.services.contains("default/large"));
  CHECK(bed.asked == 1);
  CHECK(bed.turns() > 20);
  REQUIRE(bed.record.services.contains("default/large"));
  CHECK(bed.record.services.at("default/large").size() == 20);
  CHECK(bed.record.services.at("default/large").back()->backends.size() == 1000);
}

TEST_CASE("two large ones share the turns: both are finished at about one time") {
  Fixture bed;
  for (const auto* name : {"one", "two"}) {
    bed.cluster.upsert(named(name, 10, name == std::string("one") ? "10.96.0.1" : "10.96.0.2"));
    for (std::size_t at = 0; at < 5; ++at) {
      bed.cluster.upsert(large(name, at, 10, 200));
    }
  }
  bed.cluster.flush();
  int first = 0;
  for (int turn = 1; bed.record.services.size() < 2; ++turn) {
    REQUIRE(turn < 10'000);
    bed.asked = 0;
    bed.cluster.take_turn();
    if (first == 0 && !bed.record.services.empty()) {
      first = turn;
    }
    if (bed.record.services.size() == 2) {
      CHECK(turn - first <= 3);
    }
  }
}

TEST_CASE("a service that goes while its plan is under way is not waited for") {
  Fixture bed;
  bed.cluster.upsert(named("large", 20, "10.96.0.1"));
  for (std::size_t at = 0; at < 5; ++at) {
    bed.cluster.upsert(large("large", at, 20, 200));
  }
  bed.cluster.flush();
  bed.cluster.erase_service({"default", "large"});
  bed.cluster.flush();
  CHECK(bed.turns() <= 3);
  CHECK(bed.record.services.empty());
  bed.cluster.upsert(named("large", 20, "10.96.0.1"));
  bed.cluster.flush();
  bed.turns();
  REQUIRE(bed.record.services.contains("default/large"));
  CHECK(bed.record.services.at("default/large").back()->backends.size() == 1000);
}

/// A start before anything is planned: 50 services with 100 endpoints each.
struct StartBed : Fixture {
  StartBed() : Fixture(Synced::later) {
    for (unsigned at = 0; at < 50; ++at) {
      const auto name = fmt::format("s{:02}", at);
      cluster.upsert(named(name, 1, fmt::format("10.96.0.{}", at + 1)));
      cluster.upsert(large(name, at, 1, 100));
    }
  }
};

TEST_CASE("the first plans are made in turns and reported together") {
  StartBed bed;
  bed.cluster.synced();
  CHECK(bed.record.batches.empty());
  CHECK(bed.turns() > 5);
  CHECK(bed.record.batches == std::vector{agent::Batch::whole});
  CHECK(bed.record.services.size() == 50);
}

TEST_CASE("what comes and goes while the first plans are made is in them, or follows them") {
  StartBed bed;
  bed.cluster.synced();
  bed.cluster.take_turn();
  bed.cluster.erase_service({"default", "s00"});
  bed.cluster.erase_slice({"default", "s00-0"});
  bed.cluster.erase_service({"default", "s49"});
  bed.cluster.erase_slice({"default", "s49-49"});
  bed.cluster.upsert(named("late", 1, "10.96.1.1"));
  bed.cluster.flush();
  bed.turns();
  CHECK(bed.record.batches.front() == agent::Batch::whole);
  CHECK(std::ranges::count(bed.record.batches, agent::Batch::whole) == 1);
  CHECK(bed.record.services.size() == 49);
  CHECK_FALSE(bed.record.services.contains("default/s00"));
  CHECK_FALSE(bed.record.services.contains("default/s49"));
  CHECK(bed.record.services.contains("default/late"));
}

TEST_CASE("changes without end do not hold the first plans up") {
  StartBed bed;
  bed.cluster.synced();
  for (unsigned turn = 0; bed.record.batches.empty(); ++turn) {
    REQUIRE(turn < 1000);
    bed.cluster.upsert(named("restless", 1, fmt::format("10.96.2.{}", turn % 250 + 1)));
    bed.cluster.take_turn();
  }
  CHECK(bed.record.batches == std::vector{agent::Batch::whole});
  CHECK(bed.record.services.size() >= 50);
}

TEST_CASE("of many first plans some are reported ahead in each turn, and the batch says the rest") {
  StartBed bed;
  bed.sink.takes = true;
  bed.cluster.synced();
  while (bed.sink.reported.empty()) {
    bed.cluster.take_turn();
  }
  const auto gone = bed.sink.reported.begin()->first;  // reported in advance, and removed before the batch
  const auto at = static_cast<unsigned>(std::stoul(gone.substr(gone.size() - 2)));
  bed.cluster.erase_service({"default", fmt::format("s{:02}", at)});
  bed.cluster.erase_slice({"default", fmt::format("s{:02}-{}", at, at)});
  bed.cluster.flush();
  CHECK(bed.record.batches.empty());
  CHECK(bed.turns() > 4);
  CHECK(bed.record.batches == std::vector{agent::Batch::whole});
  CHECK(bed.sink.most == 7);
  CHECK(bed.record.services.size() <= 7);
  auto all = bed.sink.reported;
  for (const auto& change : bed.record.last) {
    all[change.service] = change.ports;
  }
  CHECK(all.at(gone).empty());
  CHECK(std::ranges::count_if(all, [](const auto& each) { return !each.second.empty(); }) == 49);
}

TEST_CASE("reading an object's many addresses and making its claims are two turns") {
  Fixture bed;
  auto made = named("wide", 1, "10.96.0.1");
  for (unsigned at = 0; at < 3000; ++at) {
    made.external_ips.push_back(address(fmt::format("198.18.{}.{}", at >> 8U, at & 255U)));
  }
  bed.cluster.upsert(made);
  bed.cluster.flush();
  CHECK(bed.record.services.empty());
  CHECK(bed.turns() >= 2);
  CHECK(bed.record.services.at("default/wide").front()->frontends.size() == 3001);

  made.external_ips.resize(2);  // a change between the two turns is not lost
  made.external_ips.resize(3000, address("198.19.0.1"));
  bed.cluster.upsert(made);
  bed.cluster.flush();
  made.external_ips = {address("198.20.0.1")};
  bed.cluster.upsert(made);
  bed.cluster.flush();
  bed.turns();
  CHECK(bed.record.services.at("default/wide").front()->frontends.size() == 2);
}

k8s::Service wide(const std::string& name, const std::string& cluster_ip, unsigned addresses) {
  auto made = named(name, 1, cluster_ip);
  for (unsigned at = 0; at < addresses; ++at) {
    made.external_ips.push_back(address(fmt::format("198.18.{}.{}", at >> 8U, at & 255U)));
  }
  return made;
}

TEST_CASE("what is given up by many that claim the same costs turns, whoever takes it over") {
  Fixture bed;
  constexpr unsigned rivals = 20;
  for (unsigned at = 0; at < rivals; ++at) {
    auto made = wide(fmt::format("rival{:02}", at), fmt::format("10.96.0.{}", at + 1), 400);
    made.created = 1 + at;
    bed.cluster.upsert(made);
  }
  bed.cluster.upsert(wide("zz-other", "10.96.1.1", 0));
  bed.cluster.flush();
  bed.turns();
  const auto frontends = [&](const std::string& name) {
    return bed.record.services.at("default/" + name).front()->frontends.size();
  };
  CHECK(frontends("rival00") == 401);
  CHECK(frontends("rival01") == 1);
  bed.cluster.erase_service({"default", "rival00"});
  bed.cluster.flush();
  bed.turns();
  CHECK(frontends("rival01") == 401);
  for (unsigned at = 1; at < rivals; ++at) {
    bed.cluster.erase_service({"default", fmt::format("rival{:02}", at)});
  }
  bed.cluster.flush();
  CHECK(bed.turns() >= static_cast<int>(rivals / 2) - 2);  // 400 units each, of a turn's 500
  CHECK(bed.record.services.size() == 1);
  CHECK(bed.cluster.counts().lost_frontends == 0);
}

TEST_CASE("one service's claims are divided among turns, and more so where others claim the same") {
  Fixture bed;
  const auto turns_after = [&](const auto& change) {
    change();
    bed.cluster.flush();
    return bed.turns();
  };
  auto made = wide("one", "10.96.0.1", 3000);
  made.created = 1;
  CHECK(turns_after([&] { bed.cluster.upsert(made); }) >= 3000 / 500);
  const auto frontends = [&](const std::string& name) {
    return bed.record.services.at("default/" + name).front()->frontends.size();
  };
  CHECK(frontends("one") == 3001);
  auto rival = wide("rival", "10.96.0.2", 3000);
  rival.created = 2;
  CHECK(turns_after([&] { bed.cluster.upsert(rival); }) >= 4 * 3000 / 500);
  CHECK(frontends("rival") == 1);
  CHECK(turns_after([&] { bed.cluster.erase_service(made.key); }) >= 4 * 3000 / 500);
  CHECK(frontends("rival") == 3001);
  CHECK(turns_after([&] { bed.cluster.erase_service(rival.key); }) >= 3000 / 500);
  CHECK(bed.record.services.empty());
}

TEST_CASE("an object that changes while its claims are made gets these, and then those that it has now") {
  Fixture bed;
  bed.cluster.upsert(wide("one", "10.96.0.1", 3000));
  bed.cluster.flush();
  for (int turn = 0; turn < 4; ++turn) {
    bed.cluster.take_turn();
  }
  CHECK(bed.record.services.empty());
  const bool goes = GENERATE(false, true);
  if (goes) {
    bed.cluster.erase_service({"default", "one"});
  } else {
    bed.cluster.upsert(wide("one", "10.96.0.1", 2));
  }
  bed.cluster.upsert(wide("other", "10.96.0.2", 3000));
  bed.cluster.flush();
  bed.turns();
  CHECK(bed.record.services.contains("default/one") != goes);
  CHECK(bed.record.services.at("default/other").front()->frontends.size() == (goes ? 3001 : 2999));
  CHECK(bed.cluster.counts().lost_frontends == (goes ? 0 : 2));
}

TEST_CASE("a service may go after another's claims, still being made, have taken a frontend from it") {
  Fixture bed;
  auto weak = wide("weak", "10.96.0.1", 2);
  weak.created = 2;
  bed.cluster.upsert(weak);
  bed.cluster.upsert(large("weak", 0, 1, 10));
  bed.cluster.flush();
  bed.turns();
  auto strong = wide("strong", "10.0.0.3", 800);  // weak has an endpoint there, so it is planned meanwhile
  strong.created = 1;
  bed.cluster.upsert(strong);
  bed.cluster.flush();
  bed.cluster.erase_service(weak.key);
  bed.cluster.erase_slice({"default", "weak-0"});
  bed.cluster.flush();
  bed.turns();
  CHECK_FALSE(bed.record.services.contains("default/weak"));
  CHECK(bed.record.services.at("default/strong").front()->frontends.size() == 801);
}

/// A service that changes between every two turns, and whose spec takes a whole turn.
class Restless {
 public:
  explicit Restless(Fixture& bed) : bed_(bed) {}
  void take_turn() {
    bed_.asked = 0;
    bed_.cluster.upsert(wide("a-restless", fmt::format("10.96.2.{}", 1 + generation_++ % 250), 3000));
    bed_.cluster.take_turn();
  }
  /// The number of turns until `holds` returns true.
  template <class Holds>
  int turns_until(const Holds& holds) {
    int count = 0;
    for (; !holds() && count < 100; ++count) {
      take_turn();
    }
    return count;
  }

 private:
  Fixture& bed_;
  unsigned generation_ = 0;
};

TEST_CASE("one that changes without end delays no other's change for more than some turns") {
  Fixture bed;
  Restless restless(bed);
  for (int turn = 0; turn < 10; ++turn) {
    restless.take_turn();
  }
  const auto reported = [&](const std::string& name) {
    return [&bed, key = "default/" + name] { return bed.record.services.contains(key); };
  };
  bed.cluster.upsert(named("small", 1, "10.96.0.1"));
  CHECK(restless.turns_until(reported("small")) <= 6);
  bed.cluster.upsert(named("large", 20, "10.96.0.2"));
  for (std::size_t at = 0; at < 5; ++at) {
    bed.cluster.upsert(large("large", at, 20, 200));
  }
  CHECK(restless.turns_until(reported("large")) <= 80);
  CHECK(restless.turns_until(reported("a-restless")) <= 6);
  bed.cluster.upsert(large("small", 0, 1, 10));
  const auto has_backends = [&] {
    return bed.record.services.at("default/small").front()->backends.size() == 10;
  };
  CHECK(restless.turns_until(has_backends) <= 6);
  bed.turns();
  CHECK(bed.record.services.at("default/a-restless").front()->frontends.size() == 3001);
}

TEST_CASE("an endpoint whose address becomes a ClusterIP goes, while another changes without end") {
  Fixture bed;
  Restless restless(bed);
  bed.cluster.upsert(named("user", 1, "10.96.0.1"));
  bed.cluster.upsert(large("user", 0, 1, 10));
  bed.cluster.flush();
  bed.turns();
  const auto backends = [&] { return bed.record.services.at("default/user").front()->backends.size(); };
  REQUIRE(backends() == 10);
  for (int turn = 0; turn < 10; ++turn) {
    restless.take_turn();
  }
  bed.cluster.upsert(named("taker", 1, "10.0.0.3"));
  CHECK(restless.turns_until([&] { return backends() == 9; }) <= 10);
}

TEST_CASE("first plans know all first claims, also of one whose spec is a turn's work") {
  Fixture bed(Synced::later);
  auto strong = wide("z-strong", "10.96.0.1", 3000);
  strong.created = 1;
  auto weak = wide("a-weak", "10.96.0.2", 2);
  weak.created = 2;
  bed.cluster.upsert(strong);
  bed.cluster.upsert(weak);
  bed.cluster.synced();
  Restless restless(bed);
  CHECK(restless.turns_until([&] { return !bed.record.batches.empty(); }) <= 30);
  CHECK(bed.record.services.at("default/a-weak").front()->frontends.size() == 1);
  CHECK(bed.record.services.at("default/z-strong").front()->frontends.size() == 3001);
}

}  // namespace
}  // namespace lb::test
