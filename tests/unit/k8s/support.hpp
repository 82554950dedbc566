// SPDX-License-Identifier: Apache-2.0
// Shared by the k8s tests: a sink that records what is reported to it, one line each.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "k8s/objects/source.hpp"

namespace lb::k8s::testing {

inline std::string joined(const std::vector<Address>& addresses) {
  std::string out;
  for (const auto& address : addresses) {
    out += (out.empty() ? "" : ",") + address.text();
  }
  return out;
}

class RecordingSink final : public Sink {
 public:
  void upsert(Service service) override {
    std::string ports;
    for (const auto& port : service.ports) {
      ports += fmt::format(" {}", port.port);
    }
    add(fmt::format("+Service {} {}{}", service.key.text(), joined(service.cluster_ips), ports));
  }
  void arrived() override { ++arrivals; }
  void upsert(EndpointSlice slice) override {
    last_triggers = slice.triggers;
    std::string endpoints;
    for (const auto& endpoint : slice.endpoints) {
      endpoints += " " + endpoint.address.text();
    }
    add(fmt::format("+EndpointSlice {} of {}{}", slice.key.text(), slice.service, endpoints));
  }
  void upsert(Node node) override {
    std::string labels;
    for (const auto& [key, value] : node.labels) {
      labels += fmt::format(" {}={}", key, value);
    }
    add(fmt::format("+Node {}{}{}", node.name, node.leaving ? " leaving" : "", labels));
  }
  void upsert(ServiceCidr cidr) override {
    std::string ranges;
    for (const auto& range : cidr.ranges) {
      ranges += " " + range.text();
    }
    add(fmt::format("+ServiceCIDR {}{}", cidr.name, ranges));
  }
  void erase_service(const ObjectKey& key) override { add("-Service " + key.text()); }
  void erase_slice(const ObjectKey& key) override { add("-EndpointSlice " + key.text()); }
  void erase_node(const std::string& name) override { add("-Node " + name); }
  void erase_service_cidr(const std::string& name) override { add("-ServiceCIDR " + name); }
  void complain(Complaint complaint) override {
    complaints.push_back(fmt::format("{}|{}|{}", complaint.object, complaint.where, complaint.reason));
  }
  void labels_known(const LabelKeys& keys) override {
    std::string text;
    for (const auto& key : keys) {
      text += " " + key;
    }
    add("labels known:" + text);
  }
  void flush() override { add("flush"); }
  void synced() override { add("synced"); }

  /// The lines recorded since the last call.
  std::vector<std::string> take() { return std::exchange(lines, {}); }
  std::vector<std::string> take_complaints() { return std::exchange(complaints, {}); }

  std::vector<std::string> lines;
  std::vector<std::string> complaints;
  std::size_t arrivals = 0;
  std::vector<std::int64_t> last_triggers;

 private:
  void add(std::string line) { lines.push_back(std::move(line)); }
};

inline std::string service_yaml(const std::string& name, const std::string& cluster_ip, int port = 80) {
  return fmt::format(
      "apiVersion: v1\nkind: Service\nmetadata: {{name: {}}}\nspec:\n  clusterIP: {}\n  ports: [{{port: "
      "{}}}]\n",
      name, cluster_ip, port);
}

inline std::string slice_yaml(const std::string& name, const std::string& service,
                              const std::string& address) {
  return fmt::format(
      "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
      "metadata: {{name: {}, labels: {{kubernetes.io/service-name: {}}}}}\naddressType: IPv4\n"
      "ports: [{{port: 8080}}]\nendpoints: [{{addresses: [{}]}}]\n",
      name, service, address);
}

}  // namespace lb::k8s::testing
