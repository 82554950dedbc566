// SPDX-License-Identifier: Apache-2.0
// The command line as written, and its conversion to options. Does not use the command-line library.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "agent/options/config.hpp"

namespace lb::agent {

inline constexpr const char* off_word = "off";
inline constexpr const char* no_devices = "none";
inline constexpr const char* found_devices = "auto";

/// Filled by the command-line library; separate so that the conversion is ours and tested.
struct RawOptions {
  AgentOptions agent;
  ShowOptions show;
  AliveOptions alive;
  CleanupOptions cleanup;
  DrainOptions drain;
  CheckOptions check;
  std::string devices;
  std::string pod_devices;
  std::string without;
  std::string node;
  std::string xdp = "auto";
  std::string selection = "random";
  std::string sockets = "all";
  std::string forwarding = "redirect";
  std::string node_ports = "all";
  std::string external_ips = "all";
  std::string exclude;
  std::string topology_labels =
      "topology.kubernetes.io/zone,topology.kubernetes.io/region,kubernetes.io/hostname";
  std::string health = "0.0.0.0:10256";
  std::string metrics = "127.0.0.1:10249";
  std::string source_ports = "1024-29999,61000-65535";
  std::string cluster_cidrs;
  std::string detect_local = "auto";
  bool masquerade_all = false;
  std::string service_cidrs;
  bool drop_unallocated = false;
  bool tcp_be_liberal = false;
  bool fixed_sizes = false;
  bool bind_address_hard_fail = false;
  bool cleanup_kube_proxy = false;
  bool cleanup_force = false;
  bool dry_run = false;
  bool gone_too = false;
  bool stay = false;
  std::string api_format = "protobuf";
  std::string log_level = "info";
  std::string log_format = "text";
  std::string output = "table";
};

/// The words that options accept.
extern const std::map<std::string, XdpMode> xdp_modes;
extern const std::map<std::string, k8s::Selection> selections;
extern const std::map<std::string, SocketScope> socket_scopes;
extern const std::map<std::string, Forwarding> forwarding_ways;
extern const std::map<std::string, ApiFormat> api_formats;
extern const std::map<std::string, LogLevel> log_levels;
extern const std::map<std::string, PodDetector> pod_detectors;
extern const std::map<std::string, LogFormat> log_formats;
extern const std::map<std::string, Output> outputs;

/// Converts options that passed the checks; `host_name` is the default of the node's name.
[[nodiscard]] AgentOptions convert_agent(const RawOptions& raw, std::string_view host_name);

[[nodiscard]] CleanupOptions convert_cleanup(const RawOptions& raw);

/// The option that another one needs and that is missing; empty: none.
[[nodiscard]] std::string missing_option(const AgentOptions& options);

}  // namespace lb::agent
