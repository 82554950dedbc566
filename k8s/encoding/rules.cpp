// SPDX-License-Identifier: Apache-2.0
// Rules that several kinds share, and those of Nodes and ServiceCIDRs.
#include "k8s/encoding/rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

namespace lb::k8s {
namespace {

/// The cluster autoscaler's taint, with any effect (SEM-59).
constexpr std::string_view leaving_taint = "ToBeDeletedByClusterAutoscaler";

bool lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

}  // namespace

std::string_view kind_text(Kind kind) {
  switch (kind) {
    case Kind::service:
      return "Service";
    case Kind::slice:
      return "EndpointSlice";
    case Kind::node:
      return "Node";
    case Kind::service_cidr:
      return "ServiceCIDR";
    case Kind::other:
      break;
  }
  return "object";
}

std::optional<ObjectKey> identify(Kind kind, const wire::Metadata& metadata, Origin origin,
                                  Problems& problems) {
  const Problems::Step step(problems, "metadata");
  ObjectKey key{std::string(metadata.name_space), std::string(metadata.name)};
  if (!rules::object_name(key.name)) {
    problems.add("name",
                 key.name.empty() ? "is missing" : rules::quoted(key.name) + " is not an object name");
    return std::nullopt;
  }
  if (kind == Kind::node || kind == Kind::service_cidr) {
    key.name_space.clear();
    return key;
  }
  if (key.name_space.empty() && origin == Origin::manifest) {
    key.name_space = "default";
  }
  if (!rules::object_name(key.name_space)) {
    problems.add("namespace", rules::quoted(key.name_space) + " is not a namespace");
    return std::nullopt;
  }
  return key;
}

void NodeRules::address(const wire::NodeAddress& address) {
  const bool internal = address.type == "InternalIP";
  if (!internal && address.type != "ExternalIP") {
    return;
  }
  const auto parsed = Address::parse(address.address);
  if (!parsed || parsed->unspecified()) {
    problems_.add("address", rules::quoted(address.address) + " is not an address");
    return;
  }
  (internal ? node_.internal_ips : node_.external_ips).push_back(*parsed);
}

void NodeRules::pod_cidr(std::string_view text) {
  if (const auto prefix = Prefix::parse(text)) {
    node_.pod_cidrs.push_back(*prefix);
  } else {
    problems_.add(rules::quoted(text) + " is not an address range");
  }
}

void NodeRules::taint(const wire::Taint& taint) {
  node_.leaving = node_.leaving || taint.key == leaving_taint;
}

Node NodeRules::finish(ObjectKey key, const wire::Metadata& metadata, std::string_view pod_cidr) {
  if (node_.pod_cidrs.empty() && !pod_cidr.empty()) {
    const Problems::Step spec(problems_, "spec");
    const Problems::Step field(problems_, "podCIDR");
    this->pod_cidr(pod_cidr);
  }
  node_.name = std::move(key.name);
  node_.leaving = node_.leaving || !metadata.deleted.empty();
  std::map<std::string_view, std::string_view> sorted;
  for (const auto& [name, value] : metadata.labels) {
    sorted[name] = value;  // the last of equal keys counts, as in the API server's decoder
  }
  node_.labels.assign(sorted.begin(), sorted.end());
  return std::move(node_);
}

void ServiceCidrRules::range(std::string_view text) {
  if (const auto prefix = Prefix::parse(text)) {
    cidr_.ranges.push_back(*prefix);
  } else {
    problems_.add(rules::quoted(text) + " is not an address range");
  }
}

ServiceCidr ServiceCidrRules::finish(ObjectKey key) {
  cidr_.name = std::move(key.name);
  return std::move(cidr_);
}

namespace rules {

std::uint64_t version_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && stop == end ? number : 0;
}

bool object_name(std::string_view text) {
  return !text.empty() && text.size() <= 253 && lower_or_digit(text.front()) && lower_or_digit(text.back()) &&
         std::ranges::all_of(text, [](char c) { return lower_or_digit(c) || c == '-' || c == '.'; });
}

std::optional<std::string_view> find(const wire::Pairs& pairs, std::string_view key, Problems& problems) {
  std::optional<std::string_view> found;
  for (const auto& [name, value] : pairs) {
    if (name == key) {
      if (found) {
        problems.add(fmt::format("{} is given twice; the last one counts", key));
      }
      found = value;
    }
  }
  return found;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view space = " \t\r\n";
  const auto first = text.find_first_not_of(space);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(space) - first + 1);
}

std::optional<Protocol> protocol(std::string_view text, Problems& problems) {
  if (text.empty() || text == "TCP") {
    return Protocol::tcp;
  }
  if (text == "UDP") {
    return Protocol::udp;
  }
  if (text == "SCTP") {
    return Protocol::sctp;
  }
  problems.add("protocol", quoted(text) + " is not TCP, UDP or SCTP; the port is skipped");
  return std::nullopt;
}

std::optional<std::uint16_t> port_number(std::optional<std::int64_t> number, Problems& problems) {
  if (number && *number >= 1 && *number <= 65535) {
    return static_cast<std::uint16_t>(*number);
  }
  problems.add("port", number ? fmt::format("{} is not in 1 to 65535; the port is skipped", *number)
                              : "is missing; the port is skipped");
  return std::nullopt;
}

bool port_name(std::string_view text) {
  return text.empty() || (text.size() <= 63 && object_name(text) && text.find('.') == text.npos);
}

bool plain(std::string_view text) {
  return text.size() <= 253 && std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

std::string quoted(std::string_view text) {
  return fmt::format("\"{}\"{}", start_of(text, 64), text.size() > 64 ? "..." : "");
}

}  // namespace rules
}  // namespace lb::k8s
