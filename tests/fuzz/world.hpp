// SPDX-License-Identifier: Apache-2.0
// A small cluster into which a decoded object is added, planned, and from which it is removed again.
#pragma once

#include <map>
#include <string>

#include "agent/plan/cluster.hpp"
#include "k8s/encoding/decode.hpp"
#include "tests/unit/plan/cluster_record.hpp"

namespace lb::fuzz {

/// A node, a service and its slice.
struct Base {
  k8s::Node node;
  k8s::Service service;
  k8s::EndpointSlice slice;
};

class World {
 public:
  /// Adds the objects that the object refers to: a service's slice, a slice's service, or a node's own agent.
  explicit World(const k8s::Object& object);

  /// Oracles: while the object exists, the cluster's plan equals one made from scratch; afterwards the plan
  /// is the previous one.
  void visit(const k8s::Object& object);

 private:
  void put_base();
  void put(const k8s::Object& object);
  void take(const k8s::Object& object);
  void compare_with_plan() const;

  Base base_;
  test::Record record_;
  agent::Cluster cluster_;
  std::map<k8s::ObjectKey, k8s::Service> services_;
  std::map<k8s::ObjectKey, k8s::EndpointSlice> slices_;
};

}  // namespace lb::fuzz
