// SPDX-License-Identifier: Apache-2.0
// Objects as they are on the wire, before any rule: passed by a walker of JSON or protobuf to the rules.
// Texts are views of the decoder's buffer, valid until its next object.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace lb::k8s::wire {

using Pairs = std::vector<std::pair<std::string_view, std::string_view>>;

struct Metadata {
  std::string_view name;
  std::string_view name_space;
  std::string_view uid;
  std::string_view created;  ///< RFC 3339
  std::string_view deleted;  ///< RFC 3339; empty: deletion was not requested
  std::string_view version;  ///< resourceVersion
  Pairs labels;
  Pairs annotations;
};

struct ServicePort {
  std::string_view name;
  std::string_view protocol;
  std::optional<std::int64_t> port;
  std::optional<std::int64_t> node_port;
};

struct Ingress {
  std::string_view address;
  std::string_view mode;
};

struct Service {
  std::string_view type;
  std::optional<std::string_view> cluster_ip;
  std::vector<std::string_view> cluster_ips;
  std::vector<std::string_view> families;
  std::vector<std::string_view> topology_keys;
  std::string_view internal_policy;
  std::string_view external_policy;
  std::string_view affinity;
  std::optional<std::int64_t> affinity_seconds;
  std::optional<std::int64_t> health_check_node_port;
};

struct SlicePort {
  std::optional<std::string_view> name;
  std::string_view protocol;
  std::optional<std::int64_t> port;
};

struct Endpoint {
  std::optional<std::string_view> address;  ///< the first address
  std::optional<bool> ready;
  std::optional<bool> serving;
  std::optional<bool> terminating;
  std::string_view node_name;
  std::string_view zone;
  std::vector<std::string_view> hint_zones;
  std::vector<std::string_view> hint_nodes;
  Pairs topology;       ///< deprecatedTopology (v1)
  Pairs beta_topology;  ///< topology (v1beta1)
};

struct Taint {
  std::string_view key;
};

struct NodeAddress {
  std::string_view type;
  std::string_view address;
};

}  // namespace lb::k8s::wire
