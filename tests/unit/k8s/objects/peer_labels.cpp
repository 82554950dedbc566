// SPDX-License-Identifier: Apache-2.0
// Which labels of other Nodes Services ask for (choice H, REL-96).
#include "k8s/objects/peer_labels.hpp"

#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

using namespace lb::k8s;

namespace {

Service asking(const std::string& name, std::vector<std::string> keys) {
  Service service;
  service.key = {"a", name};
  service.topology_keys = std::move(keys);
  return service;
}

std::string text(const LabelKeys& keys) { return fmt::format("{}", fmt::join(keys, " ")); }

}  // namespace

TEST_CASE("choice H: slices tell host name and zone, Nodes everything else") {
  CHECK(text(peer_labels(asking("web", {}))).empty());
  CHECK(text(peer_labels(asking("web", {"kubernetes.io/hostname", "topology.kubernetes.io/zone", "*"})))
            .empty());
  CHECK(text(peer_labels(asking("web", {"topology.kubernetes.io/region", "kubernetes.io/hostname", "rack",
                                        "*"}))) == "rack topology.kubernetes.io/region");
}

TEST_CASE("choice H: a Service that is not programmed asks for nothing") {
  auto headless = asking("web", {"rack"});
  headless.headless = true;
  CHECK(peer_labels(headless).empty());
  auto external = asking("web", {"rack"});
  external.type = ServiceType::external_name;
  CHECK(peer_labels(external).empty());
}

TEST_CASE("choice H: a label is asked for as long as some Service has it as a key") {
  AskedLabels asked;
  CHECK(asked.all().empty());
  asked.set(asking("one", {"rack", "row"}));
  asked.set(asking("two", {"rack"}));
  CHECK(text(asked.all()) == "rack row");
  asked.set(asking("one", {"room"}));
  CHECK(text(asked.all()) == "rack room");
  asked.erase({"a", "two"});
  asked.erase({"b", "one"});
  CHECK(text(asked.all()) == "room");
  asked.set(asking("one", {}));
  CHECK(asked.all().empty());
}

TEST_CASE("labels that the operator does not allow are no topology keys and have no Node watched") {
  const AllowedLabels allowed = LabelKeys{"row", "topology.kubernetes.io/zone"};
  auto service = asking("one", {"rack", "row", "room", "*"});
  AskedLabels asked(allowed);
  asked.set(service);
  CHECK(text(asked.all()) == "row");
  asked.set(asking("one", {"rack"}));
  CHECK(asked.all().empty());
  refuse_topology_keys(service, std::nullopt);
  CHECK(service.refused_topology_keys.empty());
  refuse_topology_keys(service, allowed);
  CHECK(service.topology_keys == std::vector<std::string>{"row", "*"});
  CHECK(service.refused_topology_keys == std::vector<std::string>{"rack", "room"});
}

TEST_CASE("choice H: of a Node only those labels are kept") {
  Node node;
  node.labels = {{"a", "1"}, {"b", "2"}, {"c", "3"}};
  keep_labels(node, {"a", "c", "d"});
  CHECK(node.labels == std::vector<std::pair<std::string, std::string>>{{"a", "1"}, {"c", "3"}});
}
