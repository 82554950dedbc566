// SPDX-License-Identifier: Apache-2.0
// Random objects of a small cluster in which they often conflict: few names, few addresses, few ports.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "build.hpp"

namespace lb::test {

/// Draws objects; the same seed draws the same ones.
class RandomObjects {
 public:
  explicit RandomObjects(std::uint32_t seed) : random_(seed) {}

  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
  template <class Value>
  Value pick(const std::vector<Value>& from) {
    return from.at(below(static_cast<std::uint32_t>(from.size())));
  }
  std::string pick(std::initializer_list<const char*> from) {
    return std::data(from)[below(static_cast<std::uint32_t>(from.size()))];
  }

  std::string service_name() { return pick({"a", "b", "c"}); }
  std::string slice_name() { return pick({"s1", "s2", "s3", "s4", "s5"}); }

  k8s::Service service_named(const std::string& name) {
    auto made = service();
    made.key.name = name;
    made.created = below(3);
    made.headless = below(8) == 0;
    made.cluster_ips = {address("10.96.0." + std::to_string(below(3)))};
    if (below(2) == 0) {
      made.cluster_ips.push_back(address("fd96::1"));
    }
    if (below(2) == 0) {
      made.load_balancer_ips = {address("192.0.2." + std::to_string(below(2)))};
    }
    if (below(2) == 0) {
      made.external_ips = {address("192.0.2." + std::to_string(below(3)))};
    }
    if (below(3) == 0) {
      made.source_ranges = {prefix("192.0.2.1/32"), prefix("198.51.100.0/24")};
    }
    if (below(3) == 0) {
      made.internal_policy = k8s::TrafficPolicy::local;
    }
    if (below(2) == 0) {
      made.external_policy = k8s::TrafficPolicy::local;
    }
    if (below(4) == 0) {
      made.topology_keys = {"topology.kubernetes.io/region", pick({"*", "kubernetes.io/hostname"})};
    }
    made.ports = {{"http", k8s::Protocol::tcp, 80, static_cast<std::uint16_t>(30080 * below(2))}};
    if (below(2) == 0) {
      made.ports.push_back({"dns", k8s::Protocol::udp, 53, 0});
    }
    return made;
  }

  k8s::EndpointSlice slice_named(const std::string& name) {
    k8s::EndpointSlice made;
    made.key = {"default", name};
    made.service = pick({"a", "b", "c", ""});
    made.family = below(3) == 0 ? k8s::Family::ipv6 : k8s::Family::ipv4;
    made.weight = static_cast<std::uint8_t>(below(3));
    made.ports = {{"http", k8s::Protocol::tcp, pick(std::vector<std::uint16_t>{80, 8080, 8081})}};
    if (below(2) == 0) {
      made.ports.push_back({"dns", k8s::Protocol::udp, 53});
    }
    const bool hints = below(2) == 0;
    for (auto left = below(6); left > 0; --left) {
      made.endpoints.push_back(endpoint_of(made.family, hints));
    }
    return made;
  }

  k8s::Node node() {
    k8s::Node made;
    made.name = pick({"this", "peer"});
    made.labels = {{"topology.kubernetes.io/region", pick({"north", "south"})}};
    if (below(3) != 0) {
      made.labels.emplace_back("topology.kubernetes.io/zone", pick({"zone-a", "zone-b"}));
    }
    made.internal_ips = {address("192.0.2." + std::to_string(below(3)))};
    return made;
  }

 private:
  k8s::Endpoint endpoint_of(k8s::Family family, bool hints) {
    auto text = family == k8s::Family::ipv4 ? pick({"10.1.0.", "10.1.0.", "10.96.0.", "192.0.2."})
                                            : pick({"fd01::", "fd01::", "fd96::"});
    text += std::to_string(below(12));
    text += pick({"", "", " unready", " unready terminating", " terminating", " unready unserving"});
    text += pick({"", " node=this", " node=peer"});
    text += pick({"", " zone=zone-a", " zone=zone-b"});
    text += pick({"", " label=topology.kubernetes.io/region:north"});
    if (hints) {
      text += pick({" for-zone=zone-a", " for-zone=zone-b", " for-zone=zone-a for-node=this"});
    }
    return endpoint(text);
  }

  std::mt19937 random_;
};

}  // namespace lb::test
