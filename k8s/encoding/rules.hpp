// SPDX-License-Identifier: Apache-2.0
// Converts wire structs to the model: defaults, filters and validation, equal for every encoding. No JSON. A
// walker calls a method at the position of a field, so that a problem gets this position; the order of calls
// does not matter.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "k8s/encoding/problem.hpp"
#include "k8s/objects/model.hpp"
#include "k8s/objects/wire.hpp"

namespace lb::k8s {

/// The source of an object. The API server has applied defaults and validation; the author of a manifest has
/// not: its objects get the API server's defaults here, and spec.topologyKeys is read.
enum class Origin : std::uint8_t { api_server, manifest };

enum class Kind : std::uint8_t { other, service, slice, node, service_cidr };

/// "Service", "EndpointSlice", "Node", "ServiceCIDR"; "object" for others.
[[nodiscard]] std::string_view kind_text(Kind kind);

/// The object's key; nullopt (with a problem) if it has no valid one.
[[nodiscard]] std::optional<ObjectKey> identify(Kind kind, const wire::Metadata& metadata, Origin origin,
                                                Problems& problems);

/// A Service (SEM-1, 9, 14, 16, 20, 37, 38, 83; REL-51).
class ServiceRules {
 public:
  ServiceRules(Origin origin, Problems& problems) : origin_(origin), problems_(problems) {}

  void port(const wire::ServicePort& wire);
  void external_ip(std::string_view text);
  void source_range(std::string_view text);
  void ingress(const wire::Ingress& ingress);
  /// Returns the Service; call once, at the object's root, after all other methods.
  [[nodiscard]] Service finish(ObjectKey key, const wire::Metadata& metadata, const wire::Service& wire);

 private:
  void addresses(const wire::Service& wire);
  void cluster_ip(std::string_view text, std::optional<Family> family, std::size_t index);
  void policies(const wire::Service& wire);
  void affinity(const wire::Service& wire);
  void topology(const wire::Metadata& metadata, const wire::Service& wire);
  void topology_key(std::string_view text);
  void selection(const wire::Metadata& metadata);

  Origin origin_;
  Problems& problems_;
  Service service_;
};

/// An EndpointSlice (SEM-2, 4; REL-36, 52).
class SliceRules {
 public:
  SliceRules(Origin origin, Problems& problems) : origin_(origin), problems_(problems) {}

  void port(const wire::SlicePort& wire);
  void endpoint(const wire::Endpoint& wire);
  /// The slice; nullopt if it must be ignored: headless, FQDN, or without a service.
  [[nodiscard]] std::optional<EndpointSlice> finish(ObjectKey key, const wire::Metadata& metadata,
                                                    std::string_view address_type);

 private:
  [[nodiscard]] std::optional<Address> address(const wire::Endpoint& wire);
  void topology(const wire::Endpoint& wire, Endpoint& endpoint);
  void family(Family family);
  void weight(const wire::Metadata& metadata);
  void trigger(const wire::Metadata& metadata);

  Origin origin_;
  Problems& problems_;
  EndpointSlice slice_;
};

/// A Node: labels, addresses, pod ranges, whether it is leaving (SEM-59).
class NodeRules {
 public:
  explicit NodeRules(Problems& problems) : problems_(problems) {}

  void address(const wire::NodeAddress& address);
  void pod_cidr(std::string_view text);
  void taint(const wire::Taint& taint);
  [[nodiscard]] Node finish(ObjectKey key, const wire::Metadata& metadata, std::string_view pod_cidr);

 private:
  Problems& problems_;
  Node node_;
};

/// A ServiceCIDR (SEM-17).
class ServiceCidrRules {
 public:
  explicit ServiceCidrRules(Problems& problems) : problems_(problems) {}

  void range(std::string_view text);
  [[nodiscard]] ServiceCidr finish(ObjectKey key);

 private:
  Problems& problems_;
  ServiceCidr cidr_;
};

namespace rules {

/// Parses metadata.resourceVersion for comparison (KEP-5504); 0 for anything but a decimal number.
[[nodiscard]] std::uint64_t version_number(std::string_view text);

/// Limit of an object's ports, because each port is compared with the others; further ones are ignored.
inline constexpr std::size_t max_ports = 4096;

/// Whether the text is roughly a DNS subdomain: the API server checks more; here names must be safe to print
/// and to compare.
[[nodiscard]] bool object_name(std::string_view text);
/// The last value of a key, as in the API server's own decoder; a problem if there are several.
[[nodiscard]] std::optional<std::string_view> find(const wire::Pairs& pairs, std::string_view key,
                                                   Problems& problems);
[[nodiscard]] std::string_view trimmed(std::string_view text);
/// nullopt (with a problem at the current position) for anything but TCP, UDP, SCTP; an empty text means TCP.
[[nodiscard]] std::optional<Protocol> protocol(std::string_view text, Problems& problems);
/// A number from 1 to 65535; else nullopt, with a problem.
[[nodiscard]] std::optional<std::uint16_t> port_number(std::optional<std::int64_t> number,
                                                       Problems& problems);
/// Whether the text is a DNS label of at most 63 characters, or empty.
[[nodiscard]] bool port_name(std::string_view text);
/// Whether the text is valid as a zone, a node's name or a label's value: printable ASCII, at most 253
/// characters.
[[nodiscard]] bool plain(std::string_view text);
/// The text in quotes, truncated, for a problem's reason.
[[nodiscard]] std::string quoted(std::string_view text);

}  // namespace rules
}  // namespace lb::k8s
