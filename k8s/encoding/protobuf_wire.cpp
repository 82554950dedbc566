// SPDX-License-Identifier: Apache-2.0
// Reads messages into wire structs, field by field: numbers are those of Kubernetes' generated.proto.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <string>

#include "k8s/encoding/protobuf_walk.hpp"

namespace lb::k8s::protobuf {

static std::int64_t read_seconds(std::string_view bytes) {
  std::int64_t seconds = 0;
  for (Message time(bytes); time.next();) {
    if (time.tag() == 1) {
      seconds = time.number();
    } else {
      time.skip();
    }
  }
  return seconds;
}

/// Formats a time by RFC 3339, like JSON; empty for an invalid time.
static std::string time_text(std::int64_t seconds) {
  constexpr std::int64_t year_9999 = 253'402'300'799;
  if (seconds <= 0 || seconds > year_9999) {
    return {};
  }
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

/// ObjectMeta.
void read_metadata(std::string_view bytes, wire::Metadata& metadata, Times& times) {
  for (Message message(bytes); message.next();) {
    switch (message.tag()) {
      case 1:
        metadata.name = message.bytes();
        break;
      case 3:
        metadata.name_space = message.bytes();
        break;
      case 5:
        metadata.uid = message.bytes();
        break;
      case 6:
        metadata.version = message.bytes();
        break;
      case 8:
        times.created = time_text(read_seconds(message.bytes()));
        metadata.created = times.created;
        break;
      case 9:
        times.deleted = time_text(read_seconds(message.bytes()));
        metadata.deleted = times.deleted;
        break;
      case 11:
        read_pair(message.bytes(), metadata.labels);
        break;
      case 12:
        read_pair(message.bytes(), metadata.annotations);
        break;
      default:
        message.skip();
    }
  }
}

wire::ServicePort read_service_port(std::string_view bytes) {
  wire::ServicePort port;
  for (Message message(bytes); message.next();) {
    switch (message.tag()) {
      case 1:
        port.name = message.bytes();
        break;
      case 2:
        port.protocol = message.bytes();
        break;
      case 3:
        port.port = message.number();
        break;
      case 5:
        port.node_port = message.number();
        break;
      default:
        message.skip();
    }
  }
  return port;
}

/// ClientIPConfig{timeoutSeconds}.
static void read_client_ip(std::string_view bytes, wire::Service& wire) {
  for (Message client(bytes); client.next();) {
    if (client.tag() == 1) {
      wire.affinity_seconds = client.number();
    } else {
      client.skip();
    }
  }
}

/// SessionAffinityConfig{clientIP}.
void read_affinity(std::string_view bytes, wire::Service& wire) {
  for (Message config(bytes); config.next();) {
    if (config.tag() == 1) {
      read_client_ip(config.bytes(), wire);
    } else {
      config.skip();
    }
  }
}

wire::Ingress read_ingress(std::string_view bytes) {
  wire::Ingress ingress;
  for (Message message(bytes); message.next();) {
    switch (message.tag()) {
      case 1:
        ingress.address = message.bytes();
        break;
      case 3:
        ingress.mode = message.bytes();
        break;
      default:
        message.skip();
    }
  }
  return ingress;
}

wire::Taint read_taint(std::string_view bytes) {
  wire::Taint taint;
  for (Message message(bytes); message.next();) {
    if (message.tag() == 1) {
      taint.key = message.bytes();
    } else {
      message.skip();
    }
  }
  return taint;
}

wire::SlicePort read_slice_port(std::string_view bytes) {
  wire::SlicePort port;
  for (Message message(bytes); message.next();) {
    switch (message.tag()) {
      case 1:
        port.name = message.bytes();
        break;
      case 2:
        port.protocol = message.bytes();
        break;
      case 3:
        port.port = message.number();
        break;
      default:
        message.skip();
    }
  }
  return port;
}

static void read_conditions(std::string_view bytes, wire::Endpoint& endpoint) {
  for (Message message(bytes); message.next();) {
    switch (message.tag()) {
      case 1:
        endpoint.ready = message.boolean();
        break;
      case 2:
        endpoint.serving = message.boolean();
        break;
      case 3:
        endpoint.terminating = message.boolean();
        break;
      default:
        message.skip();
    }
  }
}

/// ForZone and ForNode: a name.
static void read_hint(std::string_view bytes, std::vector<std::string_view>& out) {
  auto& name = out.emplace_back();
  for (Message message(bytes); message.next();) {
    if (message.tag() == 1) {
      name = message.bytes();
    } else {
      message.skip();
    }
  }
}

static void read_hints(std::string_view bytes, wire::Endpoint& endpoint) {
  for (Message message(bytes); message.next();) {
    switch (message.tag()) {
      case 1:
        read_hint(message.bytes(), endpoint.hint_zones);
        break;
      case 2:
        read_hint(message.bytes(), endpoint.hint_nodes);
        break;
      default:
        message.skip();
    }
  }
}

void read_endpoint(std::string_view bytes, wire::Endpoint& endpoint) {
  for (Message message(bytes); message.next();) {
    switch (message.tag()) {
      case 1: {
        const auto address = message.bytes();
        endpoint.address = endpoint.address.value_or(address);
        break;
      }
      case 2:
        read_conditions(message.bytes(), endpoint);
        break;
      case 5:
        read_pair(message.bytes(), endpoint.topology);
        break;
      case 6:
        endpoint.node_name = message.bytes();
        break;
      case 7:
        endpoint.zone = message.bytes();
        break;
      case 8:
        read_hints(message.bytes(), endpoint);
        break;
      default:
        message.skip();
    }
  }
}

void clear(wire::Endpoint& endpoint) {
  auto zones = std::move(endpoint.hint_zones);
  auto nodes = std::move(endpoint.hint_nodes);
  auto topology = std::move(endpoint.topology);
  zones.clear();
  nodes.clear();
  topology.clear();
  endpoint = {};
  endpoint.hint_zones = std::move(zones);
  endpoint.hint_nodes = std::move(nodes);
  endpoint.topology = std::move(topology);
}

}  // namespace lb::k8s::protobuf
