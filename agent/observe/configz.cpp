// SPDX-License-Identifier: Apache-2.0
// Field names, and durations in Go's format.
#include "agent/observe/configz.hpp"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdint>
#include <string_view>

#include "agent/observe/http.hpp"

namespace lb::agent {
namespace {

namespace json = boost::json;

/// Formats like Go's time.Duration: "24h0m0s", "1m30s", "30s".
std::string duration_text(std::uint32_t seconds) {
  auto rest = fmt::format("{}s", seconds % 60);
  const auto minutes = seconds / 60;
  if (minutes == 0) {
    return rest;
  }
  return minutes < 60 ? fmt::format("{}m{}", minutes, rest)
                      : fmt::format("{}h{}m{}", minutes / 60, minutes % 60, rest);
}

std::string listen_or_empty(const std::optional<Listen>& listen) {
  return listen ? listen_text(*listen) : std::string();
}

std::string prefixes_text(const std::vector<k8s::Prefix>& prefixes) {
  std::string text;
  for (const auto& prefix : prefixes) {
    text += (text.empty() ? "" : ",") + prefix.text();
  }
  return text;
}

json::value node_port_addresses(const NodePortAddresses& addresses) {
  json::array ranges;
  switch (addresses.scope) {
    case NodePortScope::all:
      return nullptr;
    case NodePortScope::primary:
      ranges.emplace_back("primary");
      break;
    case NodePortScope::ranges:
      break;
  }
  for (const auto& range : addresses.ranges) {
    ranges.emplace_back(range.text());
  }
  return ranges;
}

std::string_view detector_text(PodDetector detector) {
  switch (detector) {
    case PodDetector::cluster_cidr:
      return "ClusterCIDR";
    case PodDetector::node_cidr:
      return "NodeCIDR";
    case PodDetector::bridge:
      return "BridgeInterface";
    case PodDetector::prefix:
      return "InterfaceNamePrefix";
    case PodDetector::automatic:
      break;
  }
  return "";
}

json::object client_connection(const AgentOptions& options) {
  const bool plain = options.api_format == ApiFormat::json;
  return {{"kubeconfig", options.kubeconfig},
          {"acceptContentTypes", ""},
          {"contentType", plain ? "application/json" : "application/vnd.kubernetes.protobuf"}};
}

json::object conntrack(const ConntrackSettings& settings) {
  return {{"maxPerCore", settings.max_per_core},
          {"min", settings.min},
          {"tcpEstablishedTimeout", duration_text(settings.established)},
          {"tcpCloseWaitTimeout", duration_text(settings.close_wait)},
          {"tcpBeLiberal", settings.window == TcpWindow::liberal},
          {"udpTimeout", duration_text(settings.udp)},
          {"udpStreamTimeout", duration_text(settings.udp_stream)}};
}

}  // namespace

std::string configz(const AgentOptions& options) {
  const json::object config = {
      {"kind", "KubeProxyConfiguration"},
      {"apiVersion", "kubeproxy.config.k8s.io/v1alpha1"},
      {"mode", "sluice"},
      {"hostnameOverride", options.node},
      {"clientConnection", client_connection(options)},
      {"healthzBindAddress", listen_or_empty(options.health)},
      {"metricsBindAddress", listen_or_empty(options.metrics)},
      {"bindAddressHardFail", options.bind_failure == BindFailure::fatal},
      {"clusterCIDR", prefixes_text(options.cluster_cidrs)},
      {"detectLocalMode", detector_text(options.detect_local)},
      {"detectLocal",
       {{"bridgeInterface", options.pod_bridge},
        {"interfaceNamePrefix", options.pod_devices.empty() ? "" : options.pod_devices.front()}}},
      {"nodePortAddresses", node_port_addresses(options.node_port_addresses)},
      {"conntrack", conntrack(options.conntrack)},
  };
  return json::serialize(json::object{{"kubeproxy.config.k8s.io", config}}) + "\n";
}

}  // namespace lb::agent
