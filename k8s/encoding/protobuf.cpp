// SPDX-License-Identifier: Apache-2.0
// Field numbers are those of Kubernetes' generated.proto; the rules interpret the fields.
#include "k8s/encoding/protobuf.hpp"

#include <fmt/format.h>

#include <string>

#include "k8s/encoding/protobuf_walk.hpp"

namespace lb::k8s {
namespace {

using namespace protobuf;  // NOLINT(google-build-using-namespace): ours, and made for this file

constexpr std::size_t max_bytes = std::size_t{64} << 20U;

struct ServiceWalk {
  ServiceRules rules;
  Problems& problems;
  wire::Service wire;
  std::size_t ports = 0;
  std::size_t external_ips = 0;
  std::size_t source_ranges = 0;

  /// Calls act() at list[index], so that its problems get that position.
  template <typename Act>
  void element(std::string_view list, std::size_t& index, Act act) {
    const Problems::Step field(problems, list);
    const Problems::Step step(problems, index++);
    act();
  }
  /// Reads fields that are copied; false for any other.
  bool plain(Message& message);
  void spec(std::string_view bytes);
  void status(std::string_view bytes);
};

bool ServiceWalk::plain(Message& message) {
  switch (message.tag()) {
    case 3:
      wire.cluster_ip = message.bytes();
      return true;
    case 4:
      wire.type = message.bytes();
      return true;
    case 7:
      wire.affinity = message.bytes();
      return true;
    case 11:
      wire.external_policy = message.bytes();
      return true;
    case 12:
      wire.health_check_node_port = message.number();
      return true;
    case 14:
      read_affinity(message.bytes(), wire);
      return true;
    case 18:
      wire.cluster_ips.push_back(message.bytes());
      return true;
    case 19:
      wire.families.push_back(message.bytes());
      return true;
    case 22:
      wire.internal_policy = message.bytes();
      return true;
    default:
      return false;
  }
}

void ServiceWalk::spec(std::string_view bytes) {
  const Problems::Step step(problems, "spec");
  for (Message message(bytes); message.next();) {
    switch (message.tag()) {
      case 1: {
        const auto port = read_service_port(message.bytes());
        element("ports", ports, [&] { rules.port(port); });
        break;
      }
      case 5: {
        const auto text = message.bytes();
        element("externalIPs", external_ips, [&] { rules.external_ip(text); });
        break;
      }
      case 9: {
        const auto text = message.bytes();
        element("loadBalancerSourceRanges", source_ranges, [&] { rules.source_range(text); });
        break;
      }
      default:
        if (!plain(message)) {
          message.skip();
        }
    }
  }
}

/// ServiceStatus{loadBalancer{ingress...}}: both are field 1.
void ServiceWalk::status(std::string_view bytes) {
  const Problems::Step step(problems, "status");
  const Problems::Step balancer_step(problems, "loadBalancer");
  std::size_t ingresses = 0;
  for (Message status(bytes); status.next();) {
    if (status.tag() != 1) {
      status.skip();
      continue;
    }
    for (Message balancer(status.bytes()); balancer.next();) {
      if (balancer.tag() == 1) {
        const auto ingress = read_ingress(balancer.bytes());
        element("ingress", ingresses, [&] { rules.ingress(ingress); });
      } else {
        balancer.skip();
      }
    }
  }
}

// ---- The decoder. ----

Kind kind_of(const Envelope& envelope, Kind expected) {
  if (envelope.kind.empty() && envelope.api_version.empty()) {
    return expected;
  }
  if (envelope.kind == "PartialObjectMetadata" && expected == Kind::node) {
    return expected;  // as requested
  }
  if (envelope.api_version == "v1") {
    return envelope.kind == "Service" ? Kind::service : envelope.kind == "Node" ? Kind::node : Kind::other;
  }
  if (envelope.kind == "ServiceCIDR") {
    const bool networking =
        envelope.api_version == "networking.k8s.io/v1" || envelope.api_version == "networking.k8s.io/v1beta1";
    return networking ? Kind::service_cidr : Kind::other;
  }
  // v1beta1 has other field numbers, and no supported API server sends it.
  const bool slice = envelope.kind == "EndpointSlice" && envelope.api_version == "discovery.k8s.io/v1";
  return slice ? Kind::slice : Kind::other;
}

class ProtobufDecoder final : public Decoder {
 public:
  explicit ProtobufDecoder(Origin origin) : origin_(origin) {}

  Decoded decode(std::string_view bytes, Kind expected) override;

 private:
  DecodeResult walk(std::string_view bytes, Kind expected, Decoded& decoded);
  [[nodiscard]] wire::Metadata metadata(std::string_view message);
  [[nodiscard]] bool readable(const wire::Metadata& metadata);
  DecodeResult service(std::string_view message, const wire::Metadata& metadata, Decoded& decoded);
  DecodeResult slice(std::string_view message, const wire::Metadata& metadata, Decoded& decoded);
  DecodeResult node(std::string_view message, const wire::Metadata& metadata, Decoded& decoded);
  DecodeResult service_cidr(std::string_view message, Decoded& decoded);
  void node_status(std::string_view bytes, NodeRules& rules);
  std::string_view node_spec(std::string_view bytes, NodeRules& rules);

  Origin origin_;
  Problems problems_;
  Times times_;
  wire::Endpoint endpoint_;  ///< reused: its vectors keep their memory
};

Decoded ProtobufDecoder::decode(std::string_view bytes, Kind expected) {
  Decoded decoded;
  try {
    decoded.result = walk(bytes, expected, decoded);
  } catch (const protozero::exception& error) {
    decoded.result = DecodeResult::refused;
    decoded.object.reset();
    problems_.add(fmt::format("is not protobuf: {}", error.what()));
  }
  decoded.problems = problems_.take();
  return decoded;
}

DecodeResult ProtobufDecoder::walk(std::string_view bytes, Kind expected, Decoded& decoded) {
  if (bytes.size() > max_bytes) {
    problems_.add("is larger than 64 MiB");
    return DecodeResult::refused;
  }
  const auto envelope = open_envelope(bytes);
  if (!envelope) {
    problems_.add("is not protobuf: its envelope is broken");
    return DecodeResult::refused;
  }
  decoded.kind = kind_of(*envelope, expected);
  const auto head = metadata(envelope->message);
  decoded.version = rules::version_number(head.version);
  if (decoded.kind == Kind::other) {
    problems_.add(fmt::format("kind {} of apiVersion {} is not read: ignored", rules::quoted(envelope->kind),
                              rules::quoted(envelope->api_version)));
    return DecodeResult::foreign;
  }
  auto key = readable(head) ? identify(decoded.kind, head, origin_, problems_) : std::nullopt;
  if (!key) {
    return DecodeResult::refused;
  }
  decoded.key = std::move(*key);
  switch (decoded.kind) {
    case Kind::service:
      return service(envelope->message, head, decoded);
    case Kind::slice:
      return slice(envelope->message, head, decoded);
    case Kind::service_cidr:
      return service_cidr(envelope->message, decoded);
    default:
      return node(envelope->message, head, decoded);
  }
}

/// In all kinds the metadata are field 1.
wire::Metadata ProtobufDecoder::metadata(std::string_view message) {
  wire::Metadata metadata;
  for (Message object(message); object.next();) {
    if (object.tag() == 1) {
      read_metadata(object.bytes(), metadata, times_);
    } else {
      object.skip();
    }
  }
  return metadata;
}

/// JSON with bad UTF-8 is rejected as a whole; in protobuf only the fields that are kept unchanged can do
/// harm.
bool ProtobufDecoder::readable(const wire::Metadata& metadata) {
  bool good = valid_utf8(metadata.uid);
  for (const auto* pairs : {&metadata.labels, &metadata.annotations}) {
    for (const auto& [key, value] : *pairs) {
      good = good && valid_utf8(key) && valid_utf8(value);
    }
  }
  if (!good) {
    problems_.add("metadata", "holds text that is not UTF-8");
  }
  return good;
}

DecodeResult ProtobufDecoder::service(std::string_view message, const wire::Metadata& metadata,
                                      Decoded& decoded) {
  ServiceWalk walk{ServiceRules(origin_, problems_), problems_, {}};
  for (Message object(message); object.next();) {
    switch (object.tag()) {
      case 2:
        walk.spec(object.bytes());
        break;
      case 3:
        walk.status(object.bytes());
        break;
      default:
        object.skip();
    }
  }
  decoded.object = walk.rules.finish(decoded.key, metadata, walk.wire);
  return DecodeResult::object;
}

DecodeResult ProtobufDecoder::slice(std::string_view message, const wire::Metadata& metadata,
                                    Decoded& decoded) {
  SliceRules rules(origin_, problems_);
  std::string_view address_type;
  std::size_t endpoints = 0;
  std::size_t ports = 0;
  for (Message object(message); object.next();) {
    if (object.tag() == 2) {
      clear(endpoint_);
      read_endpoint(object.bytes(), endpoint_);
      const Problems::Step list(problems_, "endpoints");
      const Problems::Step step(problems_, endpoints++);
      rules.endpoint(endpoint_);
    } else if (object.tag() == 3) {
      const auto port = read_slice_port(object.bytes());
      const Problems::Step list(problems_, "ports");
      const Problems::Step step(problems_, ports++);
      rules.port(port);
    } else if (object.tag() == 4) {
      address_type = object.bytes();
    } else {
      object.skip();
    }
  }
  auto slice = rules.finish(decoded.key, metadata, address_type);
  if (!slice) {
    return DecodeResult::absent;
  }
  decoded.object = std::move(*slice);
  return DecodeResult::object;
}

std::string_view ProtobufDecoder::node_spec(std::string_view bytes, NodeRules& rules) {
  const Problems::Step spec(problems_, "spec");
  std::string_view single;
  std::size_t ranges = 0;
  for (Message message(bytes); message.next();) {
    if (message.tag() == 1) {
      single = message.bytes();
    } else if (message.tag() == 5) {
      rules.taint(read_taint(message.bytes()));
    } else if (message.tag() == 7) {
      const auto range = message.bytes();
      const Problems::Step list(problems_, "podCIDRs");
      const Problems::Step step(problems_, ranges++);
      rules.pod_cidr(range);
    } else {
      message.skip();
    }
  }
  return single;
}

void ProtobufDecoder::node_status(std::string_view bytes, NodeRules& rules) {
  const Problems::Step status(problems_, "status");
  std::size_t addresses = 0;
  for (Message message(bytes); message.next();) {
    if (message.tag() != 5) {
      message.skip();
      continue;
    }
    wire::NodeAddress address;
    for (Message field(message.bytes()); field.next();) {
      switch (field.tag()) {
        case 1:
          address.type = field.bytes();
          break;
        case 2:
          address.address = field.bytes();
          break;
        default:
          field.skip();
      }
    }
    const Problems::Step list(problems_, "addresses");
    const Problems::Step step(problems_, addresses++);
    rules.address(address);
  }
}

/// ServiceCIDR{metadata, spec{cidrs...}}.
DecodeResult ProtobufDecoder::service_cidr(std::string_view message, Decoded& decoded) {
  ServiceCidrRules rules(problems_);
  const Problems::Step spec_step(problems_, "spec");
  const Problems::Step list(problems_, "cidrs");
  std::size_t ranges = 0;
  for (Message object(message); object.next();) {
    if (object.tag() != 2) {
      object.skip();
      continue;
    }
    for (Message spec(object.bytes()); spec.next();) {
      if (spec.tag() == 1) {
        const Problems::Step step(problems_, ranges++);
        rules.range(spec.bytes());
      } else {
        spec.skip();
      }
    }
  }
  decoded.object = rules.finish(decoded.key);
  return DecodeResult::object;
}

DecodeResult ProtobufDecoder::node(std::string_view message, const wire::Metadata& metadata,
                                   Decoded& decoded) {
  NodeRules rules(problems_);
  std::string_view pod_cidr;
  for (Message object(message); object.next();) {
    switch (object.tag()) {
      case 2:
        pod_cidr = node_spec(object.bytes(), rules);
        break;
      case 3:
        node_status(object.bytes(), rules);
        break;
      default:
        object.skip();
    }
  }
  decoded.object = rules.finish(decoded.key, metadata, pod_cidr);
  return DecodeResult::object;
}

}  // namespace

/// runtime.Unknown{typeMeta{apiVersion, kind}, raw}.
std::optional<Envelope> open_envelope(std::string_view bytes) {
  if (!bytes.starts_with(protobuf_magic)) {
    return Envelope{{}, {}, bytes};
  }
  try {
    Envelope envelope;
    for (Message unknown(bytes.substr(protobuf_magic.size())); unknown.next();) {
      if (unknown.tag() == 2) {
        envelope.message = unknown.bytes();
      } else if (unknown.tag() == 1) {
        for (Message meta(unknown.bytes()); meta.next();) {
          switch (meta.tag()) {
            case 1:
              envelope.api_version = meta.bytes();
              break;
            case 2:
              envelope.kind = meta.bytes();
              break;
            default:
              meta.skip();
          }
        }
      } else {
        unknown.skip();
      }
    }
    return envelope;
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
}

std::unique_ptr<Decoder> protobuf_decoder(Origin origin) { return std::make_unique<ProtobufDecoder>(origin); }

}  // namespace lb::k8s
