// SPDX-License-Identifier: Apache-2.0
// Helpers that make the objects of planning tests.
#pragma once

#include <initializer_list>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "agent/plan/endpoints.hpp"
#include "agent/plan/plan.hpp"
#include "k8s/objects/model.hpp"
#include "tests/lib/plan_lines.hpp"
#include "tests/lib/whole_plan.hpp"

namespace lb::test {

inline k8s::Address address(std::string_view text) {
  const auto parsed = k8s::Address::parse(text);
  if (!parsed) {
    throw std::invalid_argument("not an address: " + std::string(text));
  }
  return *parsed;
}

inline k8s::Prefix prefix(std::string_view text) {
  const auto parsed = k8s::Prefix::parse(text);
  if (!parsed) {
    throw std::invalid_argument("not a range: " + std::string(text));
  }
  return *parsed;
}

inline std::string after(std::string_view word, std::string_view mark) {
  return std::string(word.substr(mark.size()));
}

/// "10.1.0.1 unready serving terminating node=n zone=z for-zone=a for-node=n label=key:value"; ready and
/// serving unless it says `unready` or `unserving`.
inline k8s::Endpoint endpoint(const std::string& text) {
  std::istringstream words(text);
  std::string word;
  words >> word;
  k8s::Endpoint made;
  made.address = address(word);
  while (words >> word) {
    if (word == "unready") {
      made.ready = false;
    } else if (word == "unserving") {
      made.serving = false;
    } else if (word == "terminating") {
      made.terminating = true;
    } else if (word.starts_with("node=")) {
      made.node_name = after(word, "node=");
    } else if (word.starts_with("zone=")) {
      made.zone = after(word, "zone=");
    } else if (word.starts_with("for-zone=")) {
      made.hint_zones.push_back(after(word, "for-zone="));
    } else if (word.starts_with("for-node=")) {
      made.hint_nodes.push_back(after(word, "for-node="));
    } else if (word.starts_with("label=")) {
      const auto label = after(word, "label=");
      made.topology.emplace_back(label.substr(0, label.find(':')), label.substr(label.find(':') + 1));
    } else {
      throw std::invalid_argument("unknown word: " + word);
    }
  }
  return made;
}

/// A slice of default/web with the unnamed TCP port 8080, of the family of its first endpoint.
inline k8s::EndpointSlice slice(const std::string& name, const std::vector<std::string>& endpoints) {
  k8s::EndpointSlice made;
  made.key = {"default", name};
  made.service = "web";
  made.ports = {{"", k8s::Protocol::tcp, 8080}};
  for (const auto& text : endpoints) {
    made.endpoints.push_back(endpoint(text));
  }
  if (!made.endpoints.empty()) {
    made.family = made.endpoints.front().address.family();
  }
  return made;
}

/// default/web with the ClusterIP 10.96.0.10 and the unnamed TCP port 80.
inline k8s::Service service() {
  k8s::Service made;
  made.key = {"default", "web"};
  made.cluster_ips = {address("10.96.0.10")};
  made.ports = {{"", k8s::Protocol::tcp, 80, 0}};
  return made;
}

/// The node "this" in zone "zone-a".
inline agent::NodeView node() {
  agent::NodeView made;
  made.name = "this";
  made.zone = "zone-a";
  made.labels = {{"topology.kubernetes.io/zone", "zone-a"}};
  return made;
}

inline std::vector<std::string> planned(const k8s::Service& service,
                                        const std::vector<k8s::EndpointSlice>& slices,
                                        const agent::NodeView& view = node(),
                                        const agent::PlanOptions& options = {}) {
  std::vector<std::string> all;
  for (const auto& plan : test::whole_plan(service, slices, view, options)) {
    for (auto& line : test::plan_lines(plan)) {
      all.push_back(std::move(line));
    }
  }
  return all;
}

}  // namespace lb::test
