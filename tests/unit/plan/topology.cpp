// SPDX-License-Identifier: Apache-2.0
// Cases of hints and topology keys that no scenario of tests/golden covers.
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "build.hpp"

namespace lb::test {
namespace {

std::size_t chosen(const std::vector<std::string>& endpoints, const agent::NodeView& view,
                   const std::vector<std::string>& keys = {}) {
  auto web = service();
  web.topology_keys = keys;
  const std::vector<k8s::EndpointSlice> slices = {slice("one", endpoints)};
  std::size_t count = 0;
  const auto plans = test::whole_plan(web, slices, view, {});
  for (const auto& backend : plans.front().backends) {
    count += backend.in_cluster ? 1U : 0U;
  }
  return count;
}

TEST_CASE("a hint without a name is not for a node without a zone (SEM-21)") {
  auto nowhere = node();
  nowhere.zone.clear();
  CHECK(chosen({"10.1.0.1 for-zone=", "10.1.0.2 for-zone=zone-b"}, nowhere) == 2);
}

TEST_CASE("an endpoint without a zone is not in the zone of a node without one") {
  auto nowhere = node();
  nowhere.zone.clear();
  CHECK(chosen({"10.1.0.1"}, nowhere, {"topology.kubernetes.io/zone"}) == 0);
}

TEST_CASE("the sixteenth key counts, the seventeenth does not (choice H)") {
  std::vector<std::string> keys(15, "example.com/nobody-has-it");
  keys.emplace_back("*");
  CHECK(chosen({"10.1.0.1"}, node(), keys) == 1);
  keys.insert(keys.begin(), "example.com/nobody-has-it");
  CHECK(chosen({"10.1.0.1"}, node(), keys) == 0);
}

TEST_CASE("an earlier key wins although a later one has more endpoints (choice H)") {
  const std::vector<std::string> endpoints = {"10.1.0.1 node=this", "10.1.0.2 zone=zone-a",
                                              "10.1.0.3 zone=zone-a"};
  CHECK(chosen(endpoints, node(), {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}) == 1);
  CHECK(chosen(endpoints, node(), {"topology.kubernetes.io/zone", "kubernetes.io/hostname"}) == 3);
}

TEST_CASE("what the slice says of an endpoint wins over its Node object (choice H)") {
  auto view = node();
  view.labels = {{"example.com/rack", "r1"}};
  view.peers["peer"] = {{"example.com/rack", "r1"}};
  CHECK(chosen({"10.1.0.1 node=peer"}, view, {"example.com/rack"}) == 1);
  CHECK(chosen({"10.1.0.1 node=peer label=example.com/rack:r2"}, view, {"example.com/rack"}) == 0);
  CHECK(chosen({"10.1.0.1 node=this"}, view, {"example.com/rack"}) == 1);
  CHECK(chosen({"10.1.0.1 node=stranger"}, view, {"example.com/rack"}) == 0);
}

}  // namespace
}  // namespace lb::test
