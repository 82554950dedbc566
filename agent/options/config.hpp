// SPDX-License-Identifier: Apache-2.0
// The options of the command line, validated and with defaults. Does not use the command-line library.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/options/check_options.hpp"
#include "agent/options/drain_options.hpp"
#include "k8s/objects/model.hpp"
#include "k8s/objects/peer_labels.hpp"
#include "maps/abi/abi.h"

namespace lb::agent {

enum class Command : std::uint8_t { agent, check, status, services, backends, flows, cleanup, alive, drain };
enum class XdpMode : std::uint8_t { automatic, native, generic, off };
enum class SocketScope : std::uint8_t { all, host, off };
enum class NodePortScope : std::uint8_t { all, primary, ranges };
/// How a pod is distinguished from other clients (SEM-32). automatic: by cluster CIDRs if configured, else by
/// the pods' devices if configured, else by the own Node's pod CIDRs.
enum class PodDetector : std::uint8_t { automatic, cluster_cidr, node_cidr, bridge, prefix };
/// The clients whose requests to ClusterIPs get this node's source address if the reply would otherwise
/// bypass this node: those that are not pods, or all.
enum class Masquerade : std::uint8_t { as_needed, all };
/// The path of packets between external clients and backends on other nodes: redirected by our programs, or
/// forwarded by the stack, whose hooks (prerouting, forward, postrouting) and routing rules then see client
/// and backend.
enum class Forwarding : std::uint8_t { redirect, stack };
/// The verdict for packets to a ClusterIP that no service has.
enum class Unallocated : std::uint8_t { pass, drop };
/// What a start does if another process holds its ports: kube-proxy's bindAddressHardFail.
enum class BindFailure : std::uint8_t { retry, fatal };
/// Whether devices are discovered, in addition to named ones.
enum class Discovery : std::uint8_t { off, automatic };
enum class LogFormat : std::uint8_t { text, json };
enum class LogLevel : std::uint8_t { debug, info, warning, error };
enum class Output : std::uint8_t { table, json };

/// The address and port of a server; an IPv6 address is written in brackets.
struct Listen {
  std::string address;
  std::uint16_t port = 0;
  bool operator==(const Listen&) const = default;
};

/// An inclusive range of ports.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  bool operator==(const PortRange&) const = default;
};

/// The node addresses that serve node ports (SEM-34).
struct NodePortAddresses {
  NodePortScope scope = NodePortScope::all;
  std::vector<k8s::Prefix> ranges;  ///< with NodePortScope::ranges; with primary: additional ranges
  bool operator==(const NodePortAddresses&) const = default;
};

/// Maximum entries of each map. Sizes of flow tables apply only when a map is created; other tables that are
/// smaller are recreated.
struct Sizes {
  std::uint32_t frontends = LB_MAX_FRONTENDS;
  std::uint32_t ranges = LB_MAX_RANGES;
  std::uint32_t services = LB_MAX_SERVICES;
  std::uint32_t backends = LB_MAX_BACKENDS;
  std::uint32_t slots = LB_MAX_SLOTS;
  std::uint32_t flows = LB_MAX_FLOWS;          ///< entries for each family
  std::uint32_t unassured = LB_MAX_UNASSURED;  ///< entries for each family
  std::uint32_t consistent_slots = 16381;      ///< slots of a set of consistent selection; a prime
  bool operator==(const Sizes&) const = default;
};

/// Maximum entries that options or growth may give a map: the kernel's array sizes are in bytes.
inline constexpr std::uint32_t max_map_entries = 1U << 28U;

/// Frontends of one Service: its object of 1.5 MB could request millions (addresses times ports).
inline constexpr std::uint32_t default_service_frontends = 10000;

/// Slots of all sets with consistent selection: 16 MB.
inline constexpr std::uint32_t default_consistent_budget = 1U << 22U;

/// Whether a table that is too small for the plan is enlarged (SEM-81).
enum class Growth : std::uint8_t { when_short, off };

/// Seconds without a packet, in either direction, after which a flow ends; the defaults are kube-proxy's and
/// conntrack's.
struct FlowTimeouts {
  std::uint32_t established = 86400;  ///< TCP
  std::uint32_t close_wait = 3600;    ///< TCP after one side has closed
  std::uint32_t closing = 60;         ///< TCP closed by both sides, SCTP closed by one: keeps its port
  std::uint32_t udp = 30;             ///< a flow of two seconds at most
  std::uint32_t udp_stream = 180;     ///< a longer flow
  std::uint32_t sctp = 210;
  bool operator==(const FlowTimeouts&) const = default;
};

/// How conntrack treats TCP packets outside of the window.
enum class TcpWindow : std::uint8_t { as_it_is, liberal };

/// Settings of the kernel's connection tracking (SEM-55); 0: unchanged.
struct ConntrackSettings {
  std::uint32_t max_per_core = 32768;
  std::uint32_t min = 131072;
  std::uint32_t established = 86400;  ///< seconds, like the following ones
  std::uint32_t close_wait = 3600;
  std::uint32_t udp = 0;
  std::uint32_t udp_stream = 0;
  TcpWindow window = TcpWindow::as_it_is;
  std::string directory = "/proc/sys/net/netfilter";  ///< directory of its sysctls
  bool operator==(const ConntrackSettings&) const = default;
};

/// The encoding in which the API server sends objects.
enum class ApiFormat : std::uint8_t { protobuf, json };

/// A message about the source of options, logged once at the start.
struct ConfigRemark {
  LogLevel level = LogLevel::info;
  std::string text;
  bool operator==(const ConfigRemark&) const = default;
};

/// kube-proxy's configuration file, and the data needed to derive the options again when it changes.
struct ConfigFile {
  std::string path;                    ///< empty: no file
  std::string text;                    ///< its content
  std::vector<std::string> arguments;  ///< arguments of the command line
  std::string host_name;
  std::string refused;  ///< a later text with which no agent could start; `refusal` has the reason
  std::string refusal;
  bool operator==(const ConfigFile&) const = default;
};

struct AgentOptions {
  std::string manifests;                 ///< directory to follow; empty: watch the API
  std::string kubeconfig;                ///< empty: use the pod's service account
  std::string startup_taint;             ///< key of the taint to remove; empty: none
  std::vector<std::string> api_servers;  ///< URLs; empty: from the kubeconfig or the environment
  /// kubeconfigs, such as kube-proxy's, whose servers precede the environment's; missing files are ignored.
  std::vector<std::string> api_server_files;
  std::string state;  ///< directory for data that a later start needs; empty: nothing is stored
  ApiFormat api_format = ApiFormat::protobuf;
  std::string service_proxy_name;    ///< only Services with this label value; empty: those without the label
  std::string slice_selector;        ///< label selector for slices; empty: all slices
  std::string node;                  ///< this node's name, trimmed and in lower case (SEM-85)
  std::vector<std::string> devices;  ///< named uplinks; if none are found either: sockets only
  Discovery uplink_discovery = Discovery::off;
  std::vector<std::string> excluded_devices;  ///< never served, even if discovered
  /// Name prefixes of the host ends of pods' devices ("veth", "cali"), and their bridge.
  std::vector<std::string> pod_devices;
  std::string pod_bridge;
  Discovery pod_discovery = Discovery::off;
  std::string cgroup;  ///< empty: the cgroup v2 root found in /proc/mounts
  std::string pins;
  XdpMode xdp = XdpMode::automatic;
  SocketScope sockets = SocketScope::all;
  Forwarding forwarding = Forwarding::redirect;
  std::vector<std::string> without;  ///< optional kernel features to leave unused
  NodePortAddresses node_port_addresses;
  /// Ranges in which spec.externalIPs are served; nullopt: all, an empty list: none (REL-51).
  std::optional<std::vector<k8s::Prefix>> external_ips;
  std::vector<k8s::Prefix> exclude;  ///< addresses that are not load-balanced, whatever objects say
  /// Labels that Services may use as topology keys; nullopt: all.
  k8s::AllowedLabels topology_labels;
  std::uint32_t consistent_budget = default_consistent_budget;  ///< slots of all such sets
  std::uint32_t service_frontends = default_service_frontends;  ///< limit for one Service
  std::vector<PortRange> source_ports;                          ///< one or two, ascending
  std::vector<k8s::Prefix> cluster_cidrs;                       ///< of pods; the first of each family is used
  PodDetector detect_local = PodDetector::automatic;
  Masquerade masquerade = Masquerade::as_needed;
  std::vector<k8s::Prefix> service_cidrs;  ///< in addition to those that the source reports
  Unallocated unallocated = Unallocated::pass;
  std::string cluster_secret;     ///< a file whose content all nodes share; empty: none
  std::optional<Listen> health;   ///< nullopt: off
  std::optional<Listen> metrics;  ///< nullopt: off
  BindFailure bind_failure = BindFailure::retry;
  std::uint32_t service_metrics = 0;  ///< maximum number of service ports with their own metrics
  Sizes sizes;
  Growth growth = Growth::when_short;
  FlowTimeouts timeouts;
  ConntrackSettings conntrack;
  std::map<std::string, std::string> flags;  ///< every option without dashes, with its given or default value
  LogLevel log_level = LogLevel::info;
  LogFormat log_format = LogFormat::text;
  /// Seconds for which most slots must be free before lb_slots is made smaller; 0: never.
  std::uint32_t shrink_after = 600;
  /// Seconds without a heartbeat of the agent after which programs pass new flows to the next proxy; 0:
  /// never.
  std::uint32_t orphaned_after = 0;
  std::optional<std::int32_t> oom_score_adj;          ///< of the agent's process; nullopt: unchanged
  k8s::Selection selection = k8s::Selection::random;  ///< for Services that do not specify one
  bool init_only = false;                             ///< only configures the kernel's conntrack, then ends
  ConfigFile config_file;
  std::vector<ConfigRemark> remarks;
  bool operator==(const AgentOptions&) const = default;

  [[nodiscard]] bool serves_uplinks() const {
    return !devices.empty() || uplink_discovery == Discovery::automatic;
  }
  [[nodiscard]] bool serves_pods() const {
    return !pod_devices.empty() || !pod_bridge.empty() || pod_discovery == Discovery::automatic;
  }
};

/// Whether to show backends whose endpoints are gone and whose ids wait until no flow refers to them.
enum class Gone : std::uint8_t { hide, show };

struct ShowOptions {
  std::string pins;
  Output output = Output::table;
  std::string service;      ///< "namespace/name[:port]" or a prefix of it; empty: all
  std::uint32_t limit = 0;  ///< rows; 0: all
  Gone gone = Gone::hide;
};

struct AliveOptions {
  std::string pins;
  std::string textfile;     ///< file for the result, for node_exporter; empty: only the exit code
  std::uint32_t every = 0;  ///< seconds between two writes; 0: once
};

/// Whose leftovers `sluice cleanup` removes.
enum class CleanupTarget : std::uint8_t { sluice, kube_proxy };
enum class CleanupMode : std::uint8_t { remove, dry_run };
/// What happens after a clean-up: a pod of a DaemonSet must not end.
enum class AfterCleanup : std::uint8_t { end, stay };
/// Whether kube-proxy's rules may be removed while no Sluice serves instead.
enum class Replacement : std::uint8_t { required, any };

struct CleanupOptions {
  std::string pins;
  CleanupTarget target = CleanupTarget::sluice;
  CleanupMode mode = CleanupMode::remove;
  AfterCleanup after = AfterCleanup::end;
  Replacement replacement = Replacement::required;
};

struct Options {
  Command command = Command::agent;
  AgentOptions agent;  ///< for `agent` and `check`
  ShowOptions show;
  AliveOptions alive;
  CleanupOptions cleanup;
  DrainOptions drain;
  CheckOptions check;
};

/// The result of a command line that only requests a text (help, version), or is invalid.
struct Finished {
  int exit_code = 0;
  std::string text;
};

/// Parses the command line; `host_name` is the default of --node. Every error becomes a Finished with exit
/// code 2 (an invalid configuration file: 1, with `check --against` 2) and a message.
[[nodiscard]] std::variant<Options, Finished> parse_command_line(std::vector<std::string> arguments,
                                                                 std::string_view host_name);

/// Parses the same command line with another text of its configuration file. Pure.
[[nodiscard]] std::variant<Options, Finished> parse_with_config(const ConfigFile& file, std::string text);

/// The names of optional kernel features for --without.
[[nodiscard]] const std::vector<std::string>& optional_features();

}  // namespace lb::agent
