// SPDX-License-Identifier: Apache-2.0
// Converts text to values.
#include "agent/options/raw_options.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "agent/options/option_text.hpp"

namespace lb::agent {

const std::map<std::string, XdpMode> xdp_modes = {{"auto", XdpMode::automatic},
                                                  {"native", XdpMode::native},
                                                  {"generic", XdpMode::generic},
                                                  {"off", XdpMode::off}};
const std::map<std::string, k8s::Selection> selections = {{"consistent", k8s::Selection::consistent},
                                                          {"maglev", k8s::Selection::consistent},
                                                          {"random", k8s::Selection::random}};
const std::map<std::string, SocketScope> socket_scopes = {
    {"all", SocketScope::all}, {"host", SocketScope::host}, {"off", SocketScope::off}};
const std::map<std::string, Forwarding> forwarding_ways = {{"redirect", Forwarding::redirect},
                                                           {"stack", Forwarding::stack}};
const std::map<std::string, ApiFormat> api_formats = {{"protobuf", ApiFormat::protobuf},
                                                      {"json", ApiFormat::json}};
const std::map<std::string, LogLevel> log_levels = {{"debug", LogLevel::debug},
                                                    {"info", LogLevel::info},
                                                    {"warning", LogLevel::warning},
                                                    {"error", LogLevel::error}};
const std::map<std::string, PodDetector> pod_detectors = {{"auto", PodDetector::automatic},
                                                          {"cluster-cidr", PodDetector::cluster_cidr},
                                                          {"node-cidr", PodDetector::node_cidr},
                                                          {"bridge", PodDetector::bridge},
                                                          {"prefix", PodDetector::prefix}};
const std::map<std::string, LogFormat> log_formats = {{"text", LogFormat::text}, {"json", LogFormat::json}};
const std::map<std::string, Output> outputs = {{"table", Output::table}, {"json", Output::json}};

namespace {

std::optional<Listen> listen_or_off(const std::string& text) {
  return text == off_word ? std::nullopt : parse_listen(text);
}

/// Parses "auto,wg0,!eth1": discover devices, also serve wg0, and never eth1.
void convert_devices(const std::string& words, AgentOptions& options) {
  for (auto& word : split(words == no_devices ? "" : words)) {
    if (word == found_devices) {
      options.uplink_discovery = Discovery::automatic;
    } else if (word.starts_with('!')) {
      options.excluded_devices.push_back(word.substr(1));
    } else {
      options.devices.push_back(std::move(word));
    }
  }
}

void convert_pod_devices(const std::string& words, AgentOptions& options) {
  options.pod_devices = words == no_devices ? std::vector<std::string>{} : split(words);
  if (std::erase(options.pod_devices, found_devices) > 0) {
    options.pod_discovery = Discovery::automatic;
  }
}

}  // namespace

AgentOptions convert_agent(const RawOptions& raw, std::string_view host_name) {
  AgentOptions options = raw.agent;
  options.node = node_name(raw.node.empty() ? host_name : raw.node);
  convert_devices(raw.devices, options);
  convert_pod_devices(raw.pod_devices, options);
  options.without = split(raw.without);
  options.xdp = xdp_modes.at(raw.xdp);
  options.selection = selections.at(raw.selection);
  options.sockets = socket_scopes.at(raw.sockets);
  options.forwarding = forwarding_ways.at(raw.forwarding);
  options.node_port_addresses = parse_node_port_addresses(raw.node_ports).value_or(NodePortAddresses{});
  options.external_ips = parse_external_ips(raw.external_ips);
  options.exclude = parse_prefixes(raw.exclude);
  options.topology_labels = parse_topology_labels(raw.topology_labels);
  options.source_ports = parse_source_ports(raw.source_ports).value_or(std::vector<PortRange>{});
  options.cluster_cidrs = parse_prefixes(raw.cluster_cidrs);
  options.detect_local = pod_detectors.at(raw.detect_local);
  options.masquerade = raw.masquerade_all ? Masquerade::all : Masquerade::as_needed;
  options.service_cidrs = parse_prefixes(raw.service_cidrs);
  options.growth = raw.fixed_sizes ? Growth::off : Growth::when_short;
  options.unallocated = raw.drop_unallocated ? Unallocated::drop : Unallocated::pass;
  options.conntrack.window = raw.tcp_be_liberal ? TcpWindow::liberal : TcpWindow::as_it_is;
  options.health = listen_or_off(raw.health);
  options.metrics = listen_or_off(raw.metrics);
  options.bind_failure = raw.bind_address_hard_fail ? BindFailure::fatal : BindFailure::retry;
  options.api_format = api_formats.at(raw.api_format);
  options.log_level = log_levels.at(raw.log_level);
  options.log_format = log_formats.at(raw.log_format);
  return options;
}

CleanupOptions convert_cleanup(const RawOptions& raw) {
  CleanupOptions options = raw.cleanup;
  options.target = raw.cleanup_kube_proxy ? CleanupTarget::kube_proxy : CleanupTarget::sluice;
  options.mode = raw.dry_run ? CleanupMode::dry_run : CleanupMode::remove;
  options.after = raw.stay ? AfterCleanup::stay : AfterCleanup::end;
  options.replacement = raw.cleanup_force ? Replacement::any : Replacement::required;
  return options;
}

std::string missing_option(const AgentOptions& options) {
  if (options.node.empty()) {
    return "the host has no name; give this node's name with --node";
  }
  if (options.detect_local == PodDetector::bridge && options.pod_bridge.empty()) {
    return "--detect-local bridge needs the pods' bridge; name it with --pod-bridge";
  }
  if (options.detect_local == PodDetector::prefix && options.pod_devices.empty() &&
      options.pod_discovery == Discovery::off) {
    return "--detect-local prefix needs to know how pods' devices are called; say it with --pod-devices";
  }
  return {};
}

}  // namespace lb::agent
