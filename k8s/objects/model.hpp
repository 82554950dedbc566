// SPDX-License-Identifier: Apache-2.0
// The Kubernetes objects, decoded and compact, with only the fields that a service proxy reads. No I/O, no
// JSON.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lb::k8s {

enum class Family : std::uint8_t { ipv4 = 4, ipv6 = 6 };
enum class Protocol : std::uint8_t { tcp = 6, udp = 17, sctp = 132 };

/// 16 bytes in network order; IPv4 as ::ffff:a.b.c.d, as in the maps.
struct Address {
  std::array<std::uint8_t, 16> bytes{};

  /// Parses like older releases of the API server: leading zeros are decimal, `::ffff:a.b.c.d` is IPv4
  /// (SEM-4, SEM-89). nullopt for anything else.
  [[nodiscard]] static std::optional<Address> parse(std::string_view text);
  [[nodiscard]] Family family() const noexcept;
  [[nodiscard]] bool unspecified() const noexcept;
  [[nodiscard]] bool loopback() const noexcept;
  [[nodiscard]] bool link_local() const noexcept;
  [[nodiscard]] bool multicast() const noexcept;
  /// 255.255.255.255; a subnet's broadcast address does not look like one.
  [[nodiscard]] bool broadcast() const noexcept;
  /// Canonical text (RFC 5952).
  [[nodiscard]] std::string text() const;
  auto operator<=>(const Address&) const = default;
};

/// An address range, for source ranges and cluster CIDRs.
struct Prefix {
  Address address;
  std::uint8_t length = 0;  ///< 0 to 128, in the 16-byte form: IPv4's /8 is 104

  [[nodiscard]] static std::optional<Prefix> parse(std::string_view text);
  [[nodiscard]] bool contains(const Address& other) const noexcept;
  [[nodiscard]] std::string text() const;
  auto operator<=>(const Prefix&) const = default;
};

/// Labels of Nodes that Sluice uses.
inline constexpr std::string_view hostname_label = "kubernetes.io/hostname";
inline constexpr std::string_view zone_label = "topology.kubernetes.io/zone";
inline constexpr std::string_view region_label = "topology.kubernetes.io/region";
/// The topology key that every endpoint shares.
inline constexpr std::string_view any_topology = "*";

using LabelKeys = std::set<std::string, std::less<>>;

/// "namespace/name"; cluster-wide objects have an empty namespace.
struct ObjectKey {
  std::string name_space;
  std::string name;

  [[nodiscard]] std::string text() const;
  auto operator<=>(const ObjectKey&) const = default;
};

enum class ServiceType : std::uint8_t { cluster_ip, node_port, load_balancer, external_name };
enum class TrafficPolicy : std::uint8_t { cluster, local };
/// How a backend is selected; unsaid: by the agent's options.
enum class Selection : std::uint8_t { unsaid, random, consistent };

struct ServicePort {
  std::string name;  ///< empty for a service's only port
  Protocol protocol = Protocol::tcp;
  std::uint16_t port = 0;
  std::uint16_t node_port = 0;  ///< 0: none
  auto operator<=>(const ServicePort&) const = default;
};

struct Service {
  ObjectKey key;
  std::string uid;
  std::int64_t created = 0;  ///< Unix seconds, 0 if unknown
  ServiceType type = ServiceType::cluster_ip;
  bool headless = false;                   ///< spec.clusterIP is "" or "None"
  bool other_proxy = false;                ///< label service.kubernetes.io/service-proxy-name (SEM-1)
  std::string proxy_name;                  ///< that label's value
  std::vector<Address> cluster_ips;        ///< only of a stated or implied family (SEM-9)
  std::vector<Address> external_ips;       ///< spec.externalIPs
  std::vector<Address> load_balancer_ips;  ///< from status, with ipMode VIP or none (SEM-14)
  std::vector<Prefix> source_ranges;       ///< spec.loadBalancerSourceRanges
  TrafficPolicy internal_policy = TrafficPolicy::cluster;
  TrafficPolicy external_policy = TrafficPolicy::cluster;
  std::uint16_t health_check_node_port = 0;
  std::uint32_t affinity_seconds = 0;      ///< 0: no session affinity
  std::vector<std::string> topology_keys;  ///< annotation sluice.lb/topology-keys or spec.topologyKeys
  std::vector<std::string> refused_topology_keys;  ///< keys that the operator does not allow
  Selection selection = Selection::unsaid;         ///< annotation sluice.lb/selection
  std::vector<ServicePort> ports;
  bool operator==(const Service&) const = default;
};

struct Endpoint {
  Address address;
  bool ready = true;
  bool serving = true;
  bool terminating = false;
  std::string node_name;  ///< empty: none
  std::string zone;       ///< empty: none
  std::vector<std::string> hint_zones;
  std::vector<std::string> hint_nodes;
  /// Topology labels other than host name and zone, from deprecatedTopology.
  std::vector<std::pair<std::string, std::string>> topology;
  bool operator==(const Endpoint&) const = default;
};

struct EndpointPort {
  std::string name;
  Protocol protocol = Protocol::tcp;
  std::uint16_t port = 0;
  bool operator==(const EndpointPort&) const = default;
};

struct EndpointSlice {
  ObjectKey key;
  std::string service;  ///< label kubernetes.io/service-name
  Family family = Family::ipv4;
  std::uint8_t weight = 1;  ///< annotation sluice.lb/weight, 0 to 100 (docs/semantics.md, choice I)
  std::vector<EndpointPort> ports;
  std::vector<Endpoint> endpoints;
  /// Trigger times, in Unix nanoseconds: annotation endpoints.kubernetes.io/last-change-trigger-time. Several
  /// if several updates are reported as one, the latest last (SEM-88).
  std::vector<std::int64_t> triggers;
  bool operator==(const EndpointSlice&) const = default;
};

struct Node {
  std::string name;
  std::vector<std::pair<std::string, std::string>> labels;  ///< sorted by key
  std::vector<Address> internal_ips;
  std::vector<Address> external_ips;
  std::vector<Prefix> pod_cidrs;
  /// Being deleted, or tainted by the cluster autoscaler: no new connections from outside (SEM-59).
  bool leaving = false;
  bool operator==(const Node&) const = default;
};

/// Ranges from which ClusterIPs are allocated; those of an object that is not ready are included (SEM-17).
struct ServiceCidr {
  std::string name;
  std::vector<Prefix> ranges;
  bool operator==(const ServiceCidr&) const = default;
};

}  // namespace lb::k8s
