// SPDX-License-Identifier: Apache-2.0
// The plans of a service between its spec and the planning that follows.
#include "agent/plan/service_model.hpp"

#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>

#include "build.hpp"

namespace lb::test {
namespace {

struct Model {
  agent::AddressBlocks blocks;
  agent::Frontends frontends;
  agent::ServiceModel model{"default/web", blocks};

  void spec() {
    agent::WorkBudget work(agent::WorkBudget::unlimited);
    CHECK(model.spec(node(), {}, frontends, work) == std::set<std::string>{});
  }
  agent::Change replan() {
    agent::WorkBudget work(agent::WorkBudget::unlimited);
    return model.replan(node(), frontends, work).value();
  }
};

}  // namespace

TEST_CASE("REL-93: the plans are those of the last planning, whatever ports the object has since") {
  Model bed;
  bed.model.set(service());
  bed.spec();
  CHECK(bed.model.plans().ports.empty());
  CHECK(bed.replan() == agent::Change::some);
  const auto before = bed.model.plans().ports;
  REQUIRE(before.size() == 1);

  auto two = service();
  two.ports.push_back({"dns", k8s::Protocol::udp, 53, 0});
  bed.model.set(two);
  bed.spec();
  CHECK(bed.model.plans().ports == before);
  CHECK(bed.replan() == agent::Change::some);
  CHECK(bed.model.plans().ports.size() == 2);

  bed.model.unset();
  bed.spec();
  CHECK(bed.model.plans().ports.size() == 2);
  CHECK_FALSE(bed.model.is_empty());
  CHECK(bed.replan() == agent::Change::some);
  CHECK(bed.model.is_empty());
  CHECK(bed.replan() == agent::Change::none);
}

TEST_CASE("SEM-87: a port that goes and comes again between two plannings is no change") {
  Model bed;
  bed.model.set(service());
  bed.spec();
  CHECK(bed.replan() == agent::Change::some);
  bed.model.unset();
  bed.spec();
  bed.model.set(service());
  bed.spec();
  CHECK(bed.replan() == agent::Change::none);
}

}  // namespace lb::test
