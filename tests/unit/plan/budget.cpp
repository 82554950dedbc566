// SPDX-License-Identifier: Apache-2.0
// Which part of an object that exceeds the limits is planned: the same on every node, in time limited by the
// object's size (REL-93).
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "agent/plan/cluster.hpp"
#include "build.hpp"
#include "cluster_record.hpp"

namespace lb::test {
namespace {

k8s::Address external(std::size_t number) {
  return address(fmt::format("198.{}.{}.{}", 18 + (number >> 16U), (number >> 8U) & 255U, number & 255U));
}

k8s::Service asking(std::size_t addresses, std::size_t ports) {
  auto made = service();
  for (std::size_t at = 0; at < addresses; ++at) {
    made.external_ips.push_back(external(at));
  }
  made.ports.clear();
  for (std::size_t at = 0; at < ports; ++at) {
    made.ports.push_back(
        {fmt::format("p{:04}", at), k8s::Protocol::tcp, static_cast<std::uint16_t>(1000 + at), 0});
  }
  return made;
}

std::size_t frontends(const agent::ServiceSpec& spec) {
  std::size_t count = 0;
  for (const auto& port : spec.ports) {
    count += port.plan.frontends.size();
  }
  return count;
}

TEST_CASE("two million frontends are ten thousand: ClusterIPs, then whole addresses in order") {
  const auto spec = agent::spec(asking(70'000, 30), node(), {});
  CHECK(spec.ports.size() == 30);
  CHECK(frontends(spec) == agent::default_service_frontends);
  for (const auto& port : spec.ports) {
    CHECK(port.plan.frontends.front().kind == LB_CLUSTER_IP);
    CHECK(port.plan.frontends.at(332).address == external(331));
  }
  REQUIRE(spec.complaints.size() == 1);
  CHECK(spec.complaints.front() ==
        "asks for 2090040 frontends (addresses times ports) more than the 10000 that a Service may have: "
        "198.18.1.76 and the addresses after it are not served; raise --max-service-frontends");
  CHECK(spec.over_limit == spec.complaints);
}

TEST_CASE("what exceeds the limit is reported by an Event, once; what is refused is not") {
  std::vector<k8s::Complaint> told;
  Record record;
  agent::PlanOptions options;
  options.max_frontends = 3;
  options.external_ip_ranges = {{prefix("198.18.0.0/16")}};
  agent::Cluster cluster("this", options, record, [&](const auto& complaint) { told.push_back(complaint); });
  auto made = asking(4, 1);
  made.external_ips.push_back(address("203.0.113.1"));
  made.uid = "u-1";
  cluster.upsert(made);
  cluster.synced();
  cluster.flush();
  REQUIRE(told.size() == 2);
  for (const auto& complaint : told) {
    CHECK(complaint.object == "Service default/web");
    CHECK(complaint.uid == "u-1");
    const bool is_limit = complaint.reason.starts_with("asks for ");
    CHECK(complaint.event == (is_limit ? agent::too_many_frontends : ""));
  }
}

TEST_CASE("service ports beyond the budget have no number and no backends") {
  auto made = asking(3, 20);
  made.cluster_ips.push_back(address("fd96::1"));
  agent::PlanOptions options;
  options.max_frontends = 25;
  const auto spec = agent::spec(made, node(), options);
  CHECK(spec.ports.size() == 25);
  CHECK(frontends(spec) == 25);
  CHECK(std::ranges::is_sorted(spec.ports, {}, [](const auto& port) { return port.plan.key; }));
  CHECK(std::ranges::count(spec.ports, LB_IPV6, [](const auto& port) { return port.plan.key.family; }) == 5);
  REQUIRE(spec.complaints.size() == 2);
  CHECK(spec.complaints.back().starts_with("service port default/web:p0005 and 14 more are not served"));
  CHECK(spec.over_limit.size() == 2);
}

TEST_CASE("several refused addresses of a Service are one message with a number") {
  agent::PlanOptions options;
  options.external_ip_ranges.emplace();
  const auto spec = agent::spec(asking(10'000, 1), node(), options);
  CHECK(spec.complaints ==
        std::vector<std::string>{
            "external IP 198.18.0.0 and 9999 more are refused: it is in no range that is allowed"});
  CHECK(agent::spec(asking(1, 1), node(), options).complaints ==
        std::vector<std::string>{"external IP 198.18.0.0 is refused: it is in no range that is allowed"});
}

TEST_CASE("source ranges beyond the budget admit no client") {
  auto made = asking(0, 4);
  made.load_balancer_ips = {address("192.0.2.1")};
  for (std::size_t at = 0; at < 1000; ++at) {
    made.source_ranges.push_back({external(at), 128});
  }
  agent::PlanOptions options;
  options.max_frontends = 400;
  const auto spec = agent::spec(made, node(), options);
  for (const auto& port : spec.ports) {
    CHECK(port.plan.source_ranges.size() == 100);
    CHECK(port.plan.policy.source_ranges == LB_YES);
  }
  CHECK(spec.complaints.size() == 1);
}

}  // namespace
}  // namespace lb::test
