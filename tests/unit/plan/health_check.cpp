// SPDX-License-Identifier: Apache-2.0
// The cost of health-check replies depends only on what has changed (REL-93).
#include "agent/plan/health_check.hpp"

#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>

#include "agent/plan/service_model.hpp"
#include "build.hpp"

namespace lb::test {
namespace {

k8s::Service checked(std::size_t addresses) {
  auto made = service();
  made.type = k8s::ServiceType::load_balancer;
  made.external_policy = k8s::TrafficPolicy::local;
  made.health_check_node_port = 31'000;
  for (std::size_t at = 0; at < addresses; ++at) {
    made.external_ips.push_back(address(fmt::format("198.18.{}.{}", at >> 8U, at & 255U)));
  }
  return made;
}

k8s::EndpointSlice here(const std::string& name, std::size_t from, std::size_t to) {
  auto made = slice(name, {});
  for (auto at = from; at < to; ++at) {
    made.endpoints.push_back(endpoint(fmt::format("10.1.{}.{} node=this", at >> 8U, at & 255U)));
  }
  return made;
}

struct Model {
  agent::AddressBlocks blocks;
  agent::ServiceModel model{"default/web", blocks};
  std::uint64_t spent = 0;

  std::size_t local() {
    agent::WorkBudget work(agent::WorkBudget::unlimited);
    model.draft_spec(node(), {});
    const auto check = model.health_check(node(), work);
    spent = work.spent();
    return check ? check->local.front().value() : 999;
  }
};

}  // namespace

TEST_CASE("a health check reads all endpoints once, and needs no spec") {
  Model bed;
  bed.model.set(checked(10'000));
  bed.model.put_slice(here("a", 0, 1000));
  bed.model.put_slice(here("b", 500, 1500));
  CHECK(bed.local() == 1500);
  CHECK(bed.spent <= 600);
  bed.model.put_slice(here("a", 0, 400));
  CHECK(bed.local() == 1400);
  CHECK(bed.spent == 0);
  bed.model.erase_slice("b");
  CHECK(bed.local() == 400);
  CHECK(bed.spent == 0);
  bed.model.put_slice(
      slice("a", {"10.1.0.1 node=this", "10.1.0.2 node=this unready", "10.1.0.3 node=that", "10.1.0.4"}));
  CHECK(bed.local() == 1);
}

TEST_CASE("SEM-58, choice I: endpoints of weight 0 are not ready here, until the weight is another") {
  Model bed;
  bed.model.set(checked(0));
  auto drains = here("a", 0, 10);
  drains.weight = 0;
  bed.model.put_slice(drains);
  CHECK(bed.local() == 0);
  bed.model.put_slice(here("b", 9, 11));  // 10.1.0.9 is in both
  CHECK(bed.local() == 2);
  drains.weight = 1;
  bed.model.put_slice(drains);
  CHECK(bed.local() == 11);
  drains.weight = 0;
  bed.model.put_slice(drains);
  CHECK(bed.local() == 2);
  bed.model.erase_slice("b");
  CHECK(bed.local() == 0);
  CHECK(bed.spent == 0);
}

TEST_CASE("SEM-58: a health check has its Service's UID, for Events") {
  Model bed;
  auto made = checked(0);
  for (const auto* uid : {"first", "second"}) {
    made.uid = uid;
    bed.model.set(made);
    agent::WorkBudget work(agent::WorkBudget::unlimited);
    bed.model.draft_spec(node(), {});
    const auto check = bed.model.health_check(node(), work);
    REQUIRE(check);
    CHECK(check->uid == uid);
  }
}

TEST_CASE("a Service that has a health check again is counted anew") {
  Model bed;
  bed.model.set(checked(0));
  bed.model.put_slice(here("a", 0, 10));
  CHECK(bed.local() == 10);
  bed.model.set(service());
  CHECK(bed.local() == 999);
  bed.model.put_slice(here("b", 10, 20));
  bed.model.set(checked(0));
  CHECK(bed.local() == 20);
}

}  // namespace lb::test
