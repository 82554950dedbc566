// SPDX-License-Identifier: Apache-2.0
// Reads recordings of kube-proxy's rules, and shows the services found in them as lines of text.
#pragma once

#include <linux/netlink.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "agent/kube_proxy/iptables_rules.hpp"
#include "agent/kube_proxy/ipvs_services.hpp"
#include "agent/kube_proxy/nftables_rules.hpp"
#include "agent/kube_proxy/proxy_rules.hpp"
#include "agent/netlink/netlink.hpp"
#include "agent/netlink/nf_dump.hpp"
#include "k8s/objects/host_port.hpp"
#include "tests/lib/content_of.hpp"
#include "tests/lib/paths.hpp"

namespace lb::test {

using Blob = std::vector<std::byte>;
using Lines = std::vector<std::string>;

/// A file below tests/corpus.
[[nodiscard]] inline Blob recorded(const std::string& name) {
  const auto text = content_of(source_path("tests/corpus/" + name));
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// Calls `take` with each message's header and body.
template <class Take>
void for_each_message(agent::netlink::Bytes bytes, Take take) {
  while (const auto head = agent::netlink::read<nlmsghdr>(bytes)) {
    if (head->nlmsg_len < sizeof(nlmsghdr) || head->nlmsg_len > bytes.size()) {
      break;
    }
    take(*head, bytes.subspan(sizeof(nlmsghdr), head->nlmsg_len - sizeof(nlmsghdr)));
    bytes = agent::netlink::after(bytes, head->nlmsg_len);
  }
}

[[nodiscard]] inline agent::NfDump dump_of(agent::netlink::Bytes bytes, std::string_view table) {
  agent::NfDump dump(table);
  for_each_message(bytes, [&](const auto& head, agent::netlink::Bytes body) { dump.take(head, body); });
  return dump;
}

/// `addresses`: those of kube-ipvs0.
[[nodiscard]] inline agent::ServedFrontends from_ipvs(agent::netlink::Bytes bytes,
                                                      std::vector<k8s::Address> addresses) {
  std::ranges::sort(addresses);
  agent::IpvsDump dump(std::move(addresses));
  for_each_message(bytes, [&](const auto&, agent::netlink::Bytes body) { dump.take(body); });
  return dump.frontends();
}

/// The endpoints as text; "drop" or "reject" if there are none.
[[nodiscard]] inline std::string text(const agent::EndpointSet& set) {
  if (set.endpoints.empty()) {
    return set.verdict_if_empty == agent::EmptyVerdict::drop ? "drop" : "reject";
  }
  std::string text;
  for (const auto& each : set.endpoints) {
    text += (text.empty() ? "" : ",") + k8s::host_port(each.address.text(), each.port);
  }
  return text;
}

/// A line for each frontend, sorted.
[[nodiscard]] inline Lines lines_of(const agent::ServedFrontends& frontends) {
  Lines lines;
  for (const auto& [id, frontend] : frontends) {
    const auto* protocol = id.protocol == LB_UDP ? " udp " : id.protocol == LB_SCTP ? " sctp " : " tcp ";
    auto line = frontend.service + protocol + k8s::host_port(id.address.text(), id.port) + " " +
                text(frontend.outside);
    if (frontend.inside != frontend.outside) {
      line += " inside " + text(frontend.inside);
    }
    if (frontend.affinity_seconds != 0) {
      line += " affinity " + std::to_string(frontend.affinity_seconds);
    }
    if (frontend.clients == agent::Clients::limited) {
      line += " limited";
    }
    lines.push_back(std::move(line));
  }
  std::ranges::sort(lines);
  return lines;
}

}  // namespace lb::test
