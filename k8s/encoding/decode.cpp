// SPDX-License-Identifier: Apache-2.0
// JSON by simdjson: tables of the members that are read. The rules interpret them. The only user of simdjson.
#include "k8s/encoding/decode.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <array>

#include "k8s/encoding/json_walk.hpp"
#include "k8s/encoding/text_position.hpp"
#include "k8s/objects/wire.hpp"

namespace lb::k8s {
namespace {

using namespace json;  // NOLINT(google-build-using-namespace): ours, and made for this file

constexpr std::size_t max_bytes = 64U << 20U;
constexpr std::size_t first_capacity = 64U << 10U;
constexpr std::size_t max_depth = 100;

// ---- All kinds. ----

struct Head {
  std::string_view kind;
  std::string_view api_version;
  wire::Metadata metadata;
};

using M = wire::Metadata;
constexpr std::array<Member<M>, 8> metadata_members = {{
    {"name", leaf<&M::name, M>},
    {"namespace", leaf<&M::name_space, M>},
    {"uid", leaf<&M::uid, M>},
    {"creationTimestamp", leaf<&M::created, M>},
    {"deletionTimestamp", leaf<&M::deleted, M>},
    {"resourceVersion", leaf<&M::version, M>},
    {"labels", leaf<&M::labels, M>},
    {"annotations", leaf<&M::annotations, M>},
}};

constexpr std::array<Member<Head>, 3> head_members = {{
    {"kind", leaf<&Head::kind, Head>},
    {"apiVersion", leaf<&Head::api_version, Head>},
    {"metadata", inner<&Head::metadata, metadata_members, Head>},
}};

// ---- Service. ----

struct ServiceWalk {
  wire::Service wire;
  ServiceRules rules;
};

using P = wire::ServicePort;
constexpr std::array<Member<P>, 4> service_port_members = {{
    {"name", leaf<&P::name, P>},
    {"protocol", leaf<&P::protocol, P>},
    {"port", leaf<&P::port, P>},
    {"nodePort", leaf<&P::node_port, P>},
}};

using I = wire::Ingress;
constexpr std::array<Member<I>, 2> ingress_members = {{
    {"ip", leaf<&I::address, I>},
    {"ipMode", leaf<&I::mode, I>},
}};

template <auto Field>
Read service_field(dom::element value, ServiceWalk& walk, Problems& problems) {
  return read(value, walk.wire.*Field, problems);
}

using S = wire::Service;
using W = ServiceWalk;

constexpr std::array<Member<S>, 1> client_ip_members = {{{"timeoutSeconds", leaf<&S::affinity_seconds, S>}}};
constexpr std::array<Member<S>, 1> affinity_members = {{
    {"clientIP", nested<client_ip_members, S>},
}};

constexpr std::array<Member<W>, 13> service_spec_members = {{
    {"type", service_field<&S::type>},
    {"clusterIP", service_field<&S::cluster_ip>},
    {"clusterIPs", service_field<&S::cluster_ips>},
    {"ipFamilies", service_field<&S::families>},
    {"topologyKeys", service_field<&S::topology_keys>},
    {"internalTrafficPolicy", service_field<&S::internal_policy>},
    {"externalTrafficPolicy", service_field<&S::external_policy>},
    {"healthCheckNodePort", service_field<&S::health_check_node_port>},
    {"sessionAffinity", service_field<&S::affinity>},
    {"sessionAffinityConfig", inner<&W::wire, affinity_members, W>},
    {"ports", object_list<P, service_port_members, &ServiceRules::port, W>},
    {"externalIPs", text_list<&ServiceRules::external_ip, W>},
    {"loadBalancerSourceRanges", text_list<&ServiceRules::source_range, W>},
}};

constexpr std::array<Member<W>, 1> load_balancer_members = {{
    {"ingress", object_list<I, ingress_members, &ServiceRules::ingress, W>},
}};
constexpr std::array<Member<W>, 1> service_status_members = {{
    {"loadBalancer", nested<load_balancer_members, W>},
}};
constexpr std::array<Member<W>, 2> service_members = {{
    {"spec", nested<service_spec_members, W>},
    {"status", nested<service_status_members, W>},
}};

// ---- EndpointSlice. ----

struct SliceWalk {
  std::string_view address_type;
  wire::Endpoint endpoint;  ///< reused: its vectors keep their memory
  SliceRules rules;
};

using E = wire::Endpoint;
using L = SliceWalk;

void clear(E& endpoint) {
  E cleared;
  cleared.hint_zones.swap(endpoint.hint_zones);
  cleared.hint_nodes.swap(endpoint.hint_nodes);
  cleared.topology.swap(endpoint.topology);
  cleared.beta_topology.swap(endpoint.beta_topology);
  cleared.hint_zones.clear();
  cleared.hint_nodes.clear();
  cleared.topology.clear();
  cleared.beta_topology.clear();
  endpoint = std::move(cleared);
}

Read first_address(dom::element value, E& endpoint, Problems& problems) {
  dom::array array;
  if (value.get(array) != simdjson::SUCCESS) {
    return wrong_type(value, "a list", problems);
  }
  for (const auto element : array) {
    return read(element, endpoint.address, problems);
  }
  return Read::good;
}

struct Hint {
  std::string_view name;
};
constexpr std::array<Member<Hint>, 1> hint_members = {{{"name", leaf<&Hint::name, Hint>}}};

template <auto Field>
Read hints(dom::element value, E& endpoint, Problems& problems) {
  return read_list(value, problems, [&](dom::element element) {
    Hint hint;
    if (read_object(element, hint_members, hint, problems) == Read::good) {
      (endpoint.*Field).push_back(hint.name);
    }
  });
}

constexpr std::array<Member<E>, 2> hints_members = {{
    {"forZones", hints<&E::hint_zones>},
    {"forNodes", hints<&E::hint_nodes>},
}};
constexpr std::array<Member<E>, 3> condition_members = {{
    {"ready", leaf<&E::ready, E>},
    {"serving", leaf<&E::serving, E>},
    {"terminating", leaf<&E::terminating, E>},
}};
constexpr std::array<Member<E>, 7> endpoint_members = {{
    {"addresses", first_address},
    {"conditions", nested<condition_members, E>},
    {"nodeName", leaf<&E::node_name, E>},
    {"zone", leaf<&E::zone, E>},
    {"hints", nested<hints_members, E>},
    {"deprecatedTopology", leaf<&E::topology, E>},
    {"topology", leaf<&E::beta_topology, E>},
}};

using Q = wire::SlicePort;
constexpr std::array<Member<Q>, 3> slice_port_members = {{
    {"name", leaf<&Q::name, Q>},
    {"protocol", leaf<&Q::protocol, Q>},
    {"port", leaf<&Q::port, Q>},
}};

Read read_endpoints(dom::element value, L& walk, Problems& problems) {
  return read_list(value, problems, [&](dom::element element) {
    clear(walk.endpoint);
    if (read_object(element, endpoint_members, walk.endpoint, problems) == Read::good) {
      walk.rules.endpoint(walk.endpoint);
    }
  });
}

constexpr std::array<Member<L>, 3> slice_members = {{
    {"addressType", leaf<&L::address_type, L>},
    {"ports", object_list<Q, slice_port_members, &SliceRules::port, L>},
    {"endpoints", read_endpoints},
}};

// ---- Node. ----

struct NodeWalk {
  std::string_view pod_cidr;
  NodeRules rules;
};

using N = NodeWalk;
using A = wire::NodeAddress;
constexpr std::array<Member<A>, 2> node_address_members = {{
    {"type", leaf<&A::type, A>},
    {"address", leaf<&A::address, A>},
}};
using T = wire::Taint;
constexpr std::array<Member<T>, 1> taint_members = {{{"key", leaf<&T::key, T>}}};
constexpr std::array<Member<N>, 3> node_spec_members = {{
    {"podCIDR", leaf<&N::pod_cidr, N>},
    {"podCIDRs", text_list<&NodeRules::pod_cidr, N>},
    {"taints", object_list<T, taint_members, &NodeRules::taint, N>},
}};
constexpr std::array<Member<N>, 1> node_status_members = {{
    {"addresses", object_list<A, node_address_members, &NodeRules::address, N>},
}};
constexpr std::array<Member<N>, 2> node_members = {{
    {"spec", nested<node_spec_members, N>},
    {"status", nested<node_status_members, N>},
}};

// ---- ServiceCIDR. ----

struct ServiceCidrWalk {
  ServiceCidrRules rules;
};

using C = ServiceCidrWalk;
constexpr std::array<Member<C>, 1> service_cidr_spec_members = {{
    {"cidrs", text_list<&ServiceCidrRules::range, C>},
}};
constexpr std::array<Member<C>, 1> service_cidr_members = {{
    {"spec", nested<service_cidr_spec_members, C>},
}};

// ---- The decoder. ----

Kind kind_of(const Head& head, Kind expected) {
  if (head.kind.empty() && head.api_version.empty()) {
    return expected;
  }
  if (head.kind == "PartialObjectMetadata" && expected == Kind::node) {
    return expected;  // as requested
  }
  const bool core = head.api_version == "v1";
  if (head.kind == "Service" && core) {
    return Kind::service;
  }
  if (head.kind == "Node" && core) {
    return Kind::node;
  }
  if (head.kind == "ServiceCIDR") {
    const bool networking =
        head.api_version == "networking.k8s.io/v1" || head.api_version == "networking.k8s.io/v1beta1";
    return networking ? Kind::service_cidr : Kind::other;
  }
  const bool discovery =
      head.api_version == "discovery.k8s.io/v1" || head.api_version == "discovery.k8s.io/v1beta1";
  return head.kind == "EndpointSlice" && discovery ? Kind::slice : Kind::other;
}

std::string foreign_reason(const Head& head) {
  if (head.kind.empty()) {
    return "states no kind: ignored";
  }
  return fmt::format(
      "kind {} of apiVersion {} is not read: ignored (Service and Node of v1, EndpointSlice of "
      "discovery.k8s.io/v1, ServiceCIDR of networking.k8s.io/v1 are)",
      rules::quoted(head.kind), rules::quoted(head.api_version));
}

class JsonDecoder final : public Decoder {
 public:
  explicit JsonDecoder(Origin origin) : origin_(origin), parser_(max_bytes) {
    // Only a lack of memory can fail here; the parser then reports it at its first object.
    [[maybe_unused]] const auto error = parser_.allocate(first_capacity, max_depth);
  }

  Decoded decode(std::string_view bytes, Kind expected) override {
    Decoded decoded;
    dom::element root;
    const auto error = parser_.parse(bytes.data(), bytes.size()).get(root);
    if (error != simdjson::SUCCESS) {
      decoded.problems.push_back({"", syntax_reason(error)});
      decoded.broken_at = syntax_error_at(bytes);
      return decoded;
    }
    decoded.result = walk(root, expected, decoded);
    decoded.problems = problems_.take();
    return decoded;
  }

 private:
  static std::string syntax_reason(simdjson::error_code error);

  DecodeResult walk(dom::element root, Kind expected, Decoded& decoded);
  DecodeResult service(dom::element root, const Head& head, Decoded& decoded);
  DecodeResult slice(dom::element root, const Head& head, Decoded& decoded);
  DecodeResult node(dom::element root, const Head& head, Decoded& decoded);
  DecodeResult service_cidr(dom::element root, Decoded& decoded);

  Origin origin_;
  dom::parser parser_;
  Problems problems_;
};

DecodeResult JsonDecoder::walk(dom::element root, Kind expected, Decoded& decoded) {
  Head head;
  if (read_object(root, head_members, head, problems_) == Read::refused) {
    return DecodeResult::refused;
  }
  decoded.kind = kind_of(head, expected);
  decoded.version = rules::version_number(head.metadata.version);
  if (decoded.kind == Kind::other) {
    problems_.add(foreign_reason(head));
    return DecodeResult::foreign;
  }
  auto key = identify(decoded.kind, head.metadata, origin_, problems_);
  if (!key) {
    return DecodeResult::refused;
  }
  decoded.key = std::move(*key);
  switch (decoded.kind) {
    case Kind::service:
      return service(root, head, decoded);
    case Kind::slice:
      return slice(root, head, decoded);
    case Kind::service_cidr:
      return service_cidr(root, decoded);
    default:
      return node(root, head, decoded);
  }
}

DecodeResult JsonDecoder::service(dom::element root, const Head& head, Decoded& decoded) {
  ServiceWalk walk{{}, ServiceRules(origin_, problems_)};
  if (read_object(root, service_members, walk, problems_) == Read::refused) {
    return DecodeResult::refused;
  }
  decoded.object = walk.rules.finish(decoded.key, head.metadata, walk.wire);
  return DecodeResult::object;
}

DecodeResult JsonDecoder::slice(dom::element root, const Head& head, Decoded& decoded) {
  SliceWalk walk{{}, {}, SliceRules(origin_, problems_)};
  if (read_object(root, slice_members, walk, problems_) == Read::refused) {
    return DecodeResult::refused;
  }
  auto slice = walk.rules.finish(decoded.key, head.metadata, walk.address_type);
  if (!slice) {
    return DecodeResult::absent;
  }
  decoded.object = std::move(*slice);
  return DecodeResult::object;
}

DecodeResult JsonDecoder::node(dom::element root, const Head& head, Decoded& decoded) {
  NodeWalk walk{{}, NodeRules(problems_)};
  if (read_object(root, node_members, walk, problems_) == Read::refused) {
    return DecodeResult::refused;
  }
  decoded.object = walk.rules.finish(decoded.key, head.metadata, walk.pod_cidr);
  return DecodeResult::object;
}

DecodeResult JsonDecoder::service_cidr(dom::element root, Decoded& decoded) {
  ServiceCidrWalk walk{ServiceCidrRules(problems_)};
  if (read_object(root, service_cidr_members, walk, problems_) == Read::refused) {
    return DecodeResult::refused;
  }
  decoded.object = walk.rules.finish(decoded.key);
  return DecodeResult::object;
}

std::string JsonDecoder::syntax_reason(simdjson::error_code error) {
  switch (error) {
    case simdjson::CAPACITY:
      return "is larger than 64 MiB";
    case simdjson::DEPTH_ERROR:
      return "is nested more than 100 levels deep";
    case simdjson::EMPTY:
      return "is empty";
    case simdjson::MEMALLOC:
      return "does not fit into memory";
    default:
      return fmt::format("is not valid JSON: {}", simdjson::error_message(error));
  }
}

}  // namespace

std::unique_ptr<Decoder> json_decoder(Origin origin) { return std::make_unique<JsonDecoder>(origin); }

Kind item_kind(std::string_view list_kind) {
  if (list_kind == "ServiceList") {
    return Kind::service;
  }
  if (list_kind == "EndpointSliceList") {
    return Kind::slice;
  }
  if (list_kind == "ServiceCIDRList") {
    return Kind::service_cidr;
  }
  return list_kind == "NodeList" ? Kind::node : Kind::other;
}

bool valid_utf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

}  // namespace lb::k8s
