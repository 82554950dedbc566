// The options of the command line, validated and with defaults. No command-line library here.
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
/// How a pod is distinguished from other clients (SEM-32). automatic: by cluster CIDRs where some are given,
/// else by the pods' devices where those are, else by the own Node's pod CIDRs.
enum class PodDetector : std::uint8_t { automatic, cluster_cidr, node_cidr, bridge, prefix };
/// Whose requests to ClusterIPs get this node's address, where the reply would not come back by itself.
enum class Masquerade : std::uint8_t { outsiders, all };
/// How packets of clients outside get to backends on other nodes, and back: sent on by us at once, or
/// forwarded by the stack, whose hooks (prerouting, forward, postrouting) and routing rules see client and
/// backend.
enum class Forwarding : std::uint8_t { redirect, stack };
/// What happens to packets for a ClusterIP that no service has.
enum class Unallocated : std::uint8_t { pass, drop };
/// What becomes of a start whose ports another process holds: kube-proxy's bindAddressHardFail.
enum class BindFailure : std::uint8_t { retry, fatal };
/// Are devices looked for, beside those that are named?
enum class Discovery : std::uint8_t { off, automatic };
enum class LogFormat : std::uint8_t { text, json };
enum class LogLevel : std::uint8_t { debug, info, warning, error };
enum class Output : std::uint8_t { table, json };

/// Where a server listens; an IPv6 address is written in brackets.
struct Listen {
  std::string address;
  std::uint16_t port = 0;
  bool operator==(const Listen&) const = default;
};

/// Both ends belong to it.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  bool operator==(const PortRange&) const = default;
};

/// Which of the node's addresses serve node ports (SEM-34).
struct NodePortAddresses {
  NodePortScope scope = NodePortScope::all;
  std::vector<k8s::Prefix> ranges;  ///< with NodePortScope::ranges; with primary: beside those
  bool operator==(const NodePortAddresses&) const = default;
};

/// Maximum entries of each map. Those of flows apply when a map is made; smaller tables of others are
/// recreated.
struct Sizes {
  std::uint32_t frontends = LB_MAX_FRONTENDS;
  std::uint32_t ranges = LB_MAX_RANGES;
  std::uint32_t services = LB_MAX_SERVICES;
  std::uint32_t backends = LB_MAX_BACKENDS;
  std::uint32_t slots = LB_MAX_SLOTS;
  std::uint32_t flows = LB_MAX_FLOWS;          ///< of each family
  std::uint32_t unassured = LB_MAX_UNASSURED;  ///< of each family
  std::uint32_t consistent_slots = 16381;      ///< slots of a set of consistent selection; a prime
  bool operator==(const Sizes&) const = default;
};

/// More than this no option gives a map, and no growth: the kernel's array sizes are in bytes.
inline constexpr std::uint32_t most_map_entries = 1U << 28U;

/// Frontends of one Service: its object of 1.5 MB could ask for millions (addresses times ports).
inline constexpr std::uint32_t default_service_frontends = 10000;

/// Slots of all sets of consistent selection: 16 MB.
inline constexpr std::uint32_t default_consistent_budget = 1U << 22U;

/// What becomes of a table that is too small for the plan (SEM-81).
enum class Growth : std::uint8_t { when_short, off };

/// Seconds without a packet, in either direction, after which a flow ends; kube-proxy's and conntrack's.
struct FlowTimeouts {
  std::uint32_t established = 86400;  ///< TCP
  std::uint32_t close_wait = 3600;    ///< TCP that one side has closed
  std::uint32_t closing = 60;         ///< TCP that both sides have closed, SCTP that one has: keeps its port
  std::uint32_t udp = 30;             ///< an exchange of two seconds at most
  std::uint32_t udp_stream = 180;     ///< any longer one
  std::uint32_t sctp = 210;
  bool operator==(const FlowTimeouts&) const = default;
};

/// What the kernel's conntrack thinks of TCP packets outside of the window.
enum class TcpWindow : std::uint8_t { as_it_is, liberal };

/// The kernel's connection tracking (SEM-55); 0: left as it is.
struct ConntrackSettings {
  std::uint32_t max_per_core = 32768;
  std::uint32_t min = 131072;
  std::uint32_t established = 86400;  ///< seconds, as all that follow
  std::uint32_t close_wait = 3600;
  std::uint32_t udp = 0;
  std::uint32_t udp_stream = 0;
  TcpWindow window = TcpWindow::as_it_is;
  std::string directory = "/proc/sys/net/netfilter";  ///< where the kernel shows it
  bool operator==(const ConntrackSettings&) const = default;
};

/// How objects come from an API server.
enum class ApiFormat : std::uint8_t { protobuf, json };

/// What the log says once, at the start, of where options come from.
struct ConfigRemark {
  LogLevel level = LogLevel::info;
  std::string text;
  bool operator==(const ConfigRemark&) const = default;
};

/// kube-proxy's configuration file, and what is needed to derive the options again when it changes.
struct ConfigFile {
  std::string path;                    ///< empty: there is none
  std::string text;                    ///< what it held
  std::vector<std::string> arguments;  ///< of the command line
  std::string host_name;
  std::string refused;  ///< a later text of which no agent could be made; only with `refusal`, which says why
  std::string refusal;
  bool operator==(const ConfigFile&) const = default;
};

struct AgentOptions {
  std::string manifests;                 ///< directory to follow; empty: the API is watched
  std::string kubeconfig;                ///< empty: what the kubelet gave this pod
  std::string startup_taint;             ///< key; empty: none is removed
  std::vector<std::string> api_servers;  ///< URLs; empty: what kubeconfig or environment say
  /// kubeconfigs, as kube-proxy's, whose servers come before the environment's; those that are absent do not
  /// count.
  std::vector<std::string> api_server_files;
  std::string state;  ///< directory of what a later start needs; empty: nothing is kept
  ApiFormat api_format = ApiFormat::protobuf;
  std::string service_proxy_name;    ///< Services with this label value only; empty: those without the label
  std::string slice_selector;        ///< label selector for slices; empty: all
  std::string node;                  ///< this node's name, trimmed and in lower case (SEM-85)
  std::vector<std::string> devices;  ///< uplinks that are named; with none found either: sockets only
  Discovery uplink_discovery = Discovery::off;
  std::vector<std::string> excluded_devices;  ///< never served, whatever finds them
  /// How the host's ends of pods' devices are called ("veth", "cali"), and the bridge that they are on.
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
  /// Where spec.externalIPs are served; nothing: anywhere, an empty list: nowhere (REL-51).
  std::optional<std::vector<k8s::Prefix>> external_ips;
  std::vector<k8s::Prefix> exclude;  ///< addresses that are not balanced, whatever objects say
  /// Labels that Services may have as topology keys; nothing: any.
  k8s::AllowedLabels topology_labels;
  std::uint32_t consistent_budget = default_consistent_budget;  ///< slots of all sets of consistent selection
  std::uint32_t service_frontends = default_service_frontends;  ///< of one Service, at most
  std::vector<PortRange> source_ports;                          ///< one or two, in ascending order
  std::vector<k8s::Prefix> cluster_cidrs;                       ///< of pods; the first of each family counts
  PodDetector detect_local = PodDetector::automatic;
  Masquerade masquerade = Masquerade::outsiders;
  std::vector<k8s::Prefix> service_cidrs;  ///< beside those that the source reports
  Unallocated unallocated = Unallocated::pass;
  std::string cluster_secret;     ///< a file whose content all nodes share; empty: none
  std::optional<Listen> health;   ///< nothing: off
  std::optional<Listen> metrics;  ///< nothing: off
  BindFailure bind_failure = BindFailure::retry;
  std::uint32_t service_metrics = 0;  ///< service ports of which a scrape shows one by one, at most
  Sizes sizes;
  Growth growth = Growth::when_short;
  FlowTimeouts timeouts;
  ConntrackSettings conntrack;
  std::map<std::string, std::string>
      flags;  ///< every option without its dashes, as it was given or is by default
  LogLevel log_level = LogLevel::info;
  LogFormat log_format = LogFormat::text;
  /// Seconds for which the table of slots is mostly free before it is made smaller; 0: it never is.
  std::uint32_t shrink_after = 600;
  /// Seconds without a heartbeat of the agent after which programs leave new flows to others; 0: never.
  std::uint32_t orphaned_after = 0;
  std::optional<std::int32_t> oom_score_adj;          ///< of the agent's process; nothing: as it is
  k8s::Selection selection = k8s::Selection::random;  ///< for Services that do not say one
  bool init_only = false;                             ///< sets the kernel's conntrack, and ends
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

/// Backends whose endpoints are gone and whose ids wait until no flow can name them.
enum class Gone : std::uint8_t { hide, show };

struct ShowOptions {
  std::string pins;
  Output output = Output::table;
  std::string service;      ///< "namespace/name[:port]" or the start of it; empty: all
  std::uint32_t limit = 0;  ///< rows; 0: all
  Gone gone = Gone::hide;
};

struct AliveOptions {
  std::string pins;
  std::string textfile;     ///< where the answer is written, for node_exporter; empty: the exit code says it
  std::uint32_t every = 0;  ///< seconds from one writing to the next; 0: once
};

/// Whose leftovers `sluice cleanup` removes.
enum class CleanupTarget : std::uint8_t { sluice, kube_proxy };
enum class CleanupMode : std::uint8_t { remove, dry_run };
/// What follows a clean-up: a pod of a DaemonSet must not end.
enum class AfterCleanup : std::uint8_t { end, stay };
/// Whether kube-proxy's rules may go while nothing of Sluice serves in their place.
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
  AgentOptions agent;  ///< of `agent` and `check`
  ShowOptions show;
  AliveOptions alive;
  CleanupOptions cleanup;
  DrainOptions drain;
  CheckOptions check;
};

/// The command line asked for nothing but this text (help, version), or was wrong.
struct Finished {
  int exit_code = 0;
  std::string text;
};

/// Reads the command line; `host_name` is the default of --node. Every mistake becomes a Finished with
/// exit code 2 (1: a configuration file that is refused) and one sentence.
[[nodiscard]] std::variant<Options, Finished> parse_command_line(std::vector<std::string> arguments,
                                                                 std::string_view host_name);

/// The same command line with another text of its configuration file. Pure.
[[nodiscard]] std::variant<Options, Finished> parse_with_config(const ConfigFile& file, std::string text);

/// The names of optional kernel features that --without takes.
[[nodiscard]] const std::vector<std::string>& optional_features();

}  // namespace lb::agent
