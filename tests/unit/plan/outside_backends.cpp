// SPDX-License-Identifier: Apache-2.0
// Which backends may serve external clients, in parts between which services change (REL-99).
#include "agent/plan/outside_backends.hpp"

#include <catch2/catch_test_macros.hpp>
#include <map>
#include <string>
#include <vector>

#include "build.hpp"

namespace lb::test {
namespace {

using agent::BackendPlan;
using agent::OutsideBackends;
using agent::PlanChange;
using agent::ServicePortPlan;
using agent::WorkBudget;

enum class Where : std::uint8_t { here, elsewhere };

BackendPlan backend(const char* text, Where where = Where::elsewhere) {
  BackendPlan made;
  made.address = address(text);
  made.port = 8080;
  made.locality = where == Where::here ? LB_SAME_NODE : LB_ELSEWHERE;
  made.in_cluster = true;
  return made;
}

ServicePortPlan port(lb_kind kind, lb_scope external, const std::vector<BackendPlan>& backends) {
  ServicePortPlan made;
  made.frontends = {{address("10.96.0.1"), 80, LB_CLUSTER_IP}, {address("10.0.0.10"), 30080, kind}};
  made.policy.external = external;
  made.backends = backends;
  return made;
}

class Plans {
 public:
  void put(const std::string& service, const std::vector<ServicePortPlan>& ports) {
    auto& plans = services_[service];
    plans = {service, {}};
    for (const auto& each : ports) {
      plans.ports.push_back(std::make_shared<const ServicePortPlan>(each));
    }
  }
  void erase(const std::string& service) { services_.erase(service); }
  [[nodiscard]] OutsideBackends backends() const {
    return OutsideBackends([this](const std::string& after) {
      const auto next = services_.upper_bound(after);
      return next == services_.end() ? std::nullopt : std::optional(next->second);
    });
  }

 private:
  std::map<std::string, PlanChange> services_;
};

std::vector<std::string> all(OutsideBackends backends) {
  std::vector<std::string> texts;
  WorkBudget budget(WorkBudget::unlimited);
  while (const auto next = backends.next(budget)) {
    texts.push_back(next->service + " " + next->address.text() +
                    (next->place == agent::BackendPlace::this_node ? " here" : ""));
  }
  CHECK(backends.is_at_end());
  return texts;
}

using Texts = std::vector<std::string>;

TEST_CASE("REL-99: only what clients outside may get, each address of a service once") {
  Plans plans;
  const auto far = backend("10.244.2.10");
  auto drained = backend("10.244.2.12");
  drained.in_cluster = false;
  plans.put("a/cluster-ip", {port(LB_CLUSTER_IP, LB_CLUSTER, {far})});
  auto near = backend("10.244.1.11", Where::here);
  near.in_local = true;
  plans.put("a/local", {port(LB_EXTERNAL_IP, LB_LOCAL, {near, far})});
  plans.put("a/unplanned", {});
  plans.put("b/web", {port(LB_EXTERNAL_IP, LB_CLUSTER, {backend("10.244.1.10", Where::here), far, drained}),
                      port(LB_EXTERNAL_IP, LB_CLUSTER, {far, backend("10.244.3.10")})});
  plans.put("c/web", {port(LB_EXTERNAL_IP, LB_CLUSTER, {far})});
  CHECK(all(plans.backends()) == Texts{"a/local 10.244.1.11 here", "b/web 10.244.1.10 here",
                                       "b/web 10.244.2.10", "b/web 10.244.3.10", "c/web 10.244.2.10"});
  CHECK(all(Plans().backends()).empty());
}

TEST_CASE("REL-99: it goes on where a budget ended, and services may go meanwhile") {
  Plans plans;
  for (const auto* name : {"a", "b", "c"}) {
    plans.put(name, {port(LB_EXTERNAL_IP, LB_CLUSTER, {backend("10.244.2.10"), backend("10.244.3.10")})});
  }
  auto backends = plans.backends();
  Texts texts;
  while (!backends.is_at_end()) {
    WorkBudget budget(1);
    if (const auto next = backends.next(budget)) {
      texts.push_back(next->service);
    }
    if (texts.size() == 1) {
      plans.erase("a");
    }
    if (texts.size() == 3) {
      plans.erase("c");
    }
  }
  CHECK(texts == Texts{"a", "a", "b", "b"});
}

}  // namespace
}  // namespace lb::test
