// SPDX-License-Identifier: Apache-2.0
// The options of the agent, in groups as `sluice agent --help` shows them.
#include "agent/options/agent_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <utility>

#include "agent/options/option_text.hpp"
#include "agent/options/raw_options.hpp"
#include "k8s/client/access.hpp"
#include "k8s/objects/error.hpp"

namespace lb::agent {
namespace {

constexpr std::size_t max_device_name_length = 15;  // IFNAMSIZ without the terminating zero

/// Makes a CLI11 validator with an error message from a parser that returns an empty result for bad text.
template <class Parse>
CLI::Validator checked(Parse parse, const char* wanted) {
  return CLI::Validator(
      [parse, wanted](std::string& text) {
        return parse(text) ? std::string() : fmt::format("'{}' is not {}", text, wanted);
      },
      "", "");
}

std::string wrong_feature(const std::string& list) {
  const auto& known = optional_features();
  for (const auto& name : split(list)) {
    if (std::ranges::find(known, name) == known.end()) {
      return fmt::format("'{}' is not one of {}", name, fmt::join(known, " "));
    }
  }
  return {};
}

std::string wrong_device(const std::string& list) {
  const auto names = split(list);
  if (names.empty()) {
    return "names no device; say 'none' to serve sockets only";
  }
  const auto too_long = [](const std::string& name) { return name.size() > max_device_name_length; };
  const auto bad = std::ranges::find_if(names, too_long);
  return bad == names.end() ? std::string() : fmt::format("'{}' is too long for a device name", *bad);
}

/// A name may have the prefix '!' if devices are discovered.
std::string wrong_uplinks(const std::string& list) {
  auto words = split(list);
  const bool finds = std::ranges::find(words, found_devices) != words.end();
  for (auto& word : words) {
    if (word == "!") {
      return "'!' names no device";
    }
    if (!word.starts_with('!')) {
      continue;
    }
    if (!finds) {
      return fmt::format("'{}' leaves a device out of those that 'auto' finds; say auto, too", word);
    }
    word.erase(0, 1);
  }
  return wrong_device(fmt::format("{}", fmt::join(words, ",")));
}

std::string wrong_prefix(const std::string& list) {
  return list == no_devices || !split(list).empty() ? wrong_device(list) : "names no prefix of a device";
}

std::string wrong_api_server(const std::string& url) {
  try {
    (void)k8s::parse_api_server(url);
    return {};
  } catch (const k8s::StartError& error) {
    return error.what();
  }
}

void add_api(CLI::App& app, RawOptions& raw, CLI::Option* manifests) {
  app.add_option("--kubeconfig", raw.agent.kubeconfig,
                 "Watch the API of this kubeconfig's current context (default: the pod's service account)")
      ->type_name("FILE")
      ->excludes(manifests);
  app.add_option("--api-server", raw.agent.api_servers,
                 "Watch the API at this address instead of the kubeconfig's or the pod environment's; "
                 "repeat it for replicas of the API server")
      ->type_name("URL")
      ->excludes(manifests)
      ->expected(1)
      ->take_all()
      ->check(CLI::Validator(wrong_api_server, "", ""));
  app.add_option("--api-server-from", raw.agent.api_server_files,
                 "Without --api-server and --kubeconfig: try the server of this kubeconfig, such as "
                 "kube-proxy's, before that of the pod's environment; ignored if there is no such file")
      ->type_name("FILE")
      ->excludes(manifests)
      ->expected(1)
      ->take_all();
  app.add_option("--state", raw.agent.state,
                 "Keep the API servers' own addresses in DIR, and try them last: a later start may find the "
                 "ClusterIP of the API unserved (default: nowhere)")
      ->type_name("DIR");
  app.add_option("--startup-taint", raw.agent.startup_taint,
                 "Remove the taints with this key from the own Node once services work; needs the right to "
                 "patch nodes (default: none)")
      ->type_name("KEY")
      ->excludes(manifests)
      ->check(checked(is_taint_key, "a taint's key"));
  app.add_option("--api-encoding", raw.api_format,
                 "Ask the API for protobuf (a quarter of the bytes) or json")
      ->type_name("FORMAT")
      ->check(one_of(api_formats))
      ->capture_default_str();
  app.add_option("--service-proxy-name", raw.agent.service_proxy_name,
                 "Serve only Services whose label service.kubernetes.io/service-proxy-name is NAME (default: "
                 "those without it)")
      ->type_name("NAME")
      ->check(checked(is_label_value, "a label's value"));
  app.add_option("--slice-selector", raw.agent.slice_selector,
                 "Watch only EndpointSlices whose labels match, such as those of a zone")
      ->type_name("SELECTOR")
      ->excludes(manifests)
      ->check(checked(is_label_selector, "a label selector"));
}

void add_config(CLI::App& app, RawOptions& raw) {
  app.add_option("--config", raw.agent.config_file.path,
                 "Read this KubeProxyConfiguration as kube-proxy does, and follow its changes; options"
                 " of kube-proxy's are then ignored here")
      ->type_name("FILE");
  app.add_flag("--init-only", raw.agent.init_only, "Configure the kernel's conntrack, and exit");
  app.add_option("--oom-score-adj", raw.agent.oom_score_adj,
                 "Set the agent's oom_score_adj: lower values make the kernel spare it when memory "
                 "runs out (default: unchanged)")
      ->type_name("N")
      ->check(CLI::Range(-1000, 1000));
}

void add_inputs(CLI::App& app, RawOptions& raw) {
  auto* manifests =
      app.add_option("--manifests", raw.agent.manifests,
                     "Follow Services, EndpointSlices, Nodes and ServiceCIDRs in DIR's YAML and JSON files"
                     " instead of the API")
          ->type_name("DIR");
  add_api(app, raw, manifests);
  app.add_option("--node", raw.node, "This node's name in the objects (default: the host name)")
      ->type_name("NAME")
      ->check(checked([](const std::string& text) { return !node_name(text).empty(); }, "a node name"));
}

void add_hooks(CLI::App& app, RawOptions& raw) {
  app.add_option("--devices", raw.devices,
                 "Devices towards the network, separated by commas, or 'none'. 'auto' finds them: those of "
                 "default routes, with the Node's addresses, and tunnels; beside it NAME adds one and !NAME "
                 "leaves one out")
      ->type_name("LIST")
      ->required()
      ->check(CLI::Validator(wrong_uplinks, "", ""));
  app.add_option("--pod-devices", raw.pod_devices,
                 "Name prefixes of pods' devices (the host's ends), e.g. veth,cali, or 'none': translate "
                 "packets there that were not translated at a socket. 'auto' finds these devices by their "
                 "other ends and their routes or bridge (default: none; called as kube-proxy: auto)")
      ->type_name("LIST")
      ->check(CLI::Validator(wrong_prefix, "", ""));
  app.add_option("--pod-bridge", raw.agent.pod_bridge, "The same for all devices on this bridge")
      ->type_name("NAME")
      ->check(CLI::Validator(wrong_device, "", ""));
  app.add_option("--cgroup", raw.agent.cgroup,
                 "Serve the sockets below this cgroup v2 directory (default: all of the host's)")
      ->type_name("PATH");
  add_pins(app, raw.agent.pins);
  app.add_option("--xdp", raw.xdp, "XDP on the devices: auto, native, generic or off")
      ->type_name("MODE")
      ->check(one_of(xdp_modes))
      ->capture_default_str();
  app.add_option("--sockets", raw.sockets, "Translate connect and send of: all, host (no pods) or off")
      ->type_name("SCOPE")
      ->check(one_of(socket_scopes))
      ->capture_default_str();
  app.add_option("--forwarding", raw.forwarding,
                 "How packets of outside clients leave for backends on other nodes: redirect (past the "
                 "host's firewall) or stack (through its prerouting, forward and postrouting hooks)")
      ->type_name("MODE")
      ->check(one_of(forwarding_ways))
      ->capture_default_str();
  app.add_option("--without", raw.without,
                 fmt::format("Leave optional features of the kernel or the programs unused: {}",
                             fmt::join(optional_features(), ", ")))
      ->type_name("LIST")
      ->check(CLI::Validator(wrong_feature, "", ""));
}

void add_addresses(CLI::App& app, RawOptions& raw) {
  app.add_option("--node-port-addresses", raw.node_ports,
                 "Serve node ports on: all, primary, localhost, these CIDRs, or several of them")
      ->type_name("LIST")
      ->check(checked(parse_node_port_addresses, "all, primary, localhost or a list of CIDRs"))
      ->capture_default_str();
  app.add_option("--external-ips", raw.external_ips,
                 "Serve spec.externalIPs: all, none, or inside these CIDRs; an address that this node "
                 "holds only inside these CIDRs, one of the Node object only by its own /32 or /128")
      ->type_name("LIST")
      ->check(checked([](const std::string& text) { return text == "all" || parse_external_ips(text); },
                      "all, none or a list of CIDRs"))
      ->capture_default_str();
  app.add_option("--exclude", raw.exclude,
                 "Do not serve services' addresses inside these CIDRs (default: none)")
      ->type_name("LIST")
      ->check(
          checked([](const std::string& text) { return !parse_prefixes(text).empty(); }, "a list of CIDRs"));
  app.add_option(
         "--topology-labels", raw.topology_labels,
         "Labels that Services may name in sluice.lb/topology-keys: these, all, or none. A label beside "
         "zone and hostname has every agent watch all Nodes")
      ->type_name("LIST")
      ->capture_default_str();
  app.add_option("--source-ports", raw.source_ports, "Ports for source NAT, one or two ranges")
      ->type_name("RANGES")
      ->check(checked(parse_source_ports, "one or two ascending ranges such as 1024-29999,61000-65535"))
      ->capture_default_str();
}

void add_clients(CLI::App& app, RawOptions& raw) {
  const auto ranges =
      checked([](const std::string& text) { return !parse_prefixes(text).empty(); }, "a list of CIDRs");
  const auto ranges_or_none =
      checked([](const std::string& text) { return text.empty() || !parse_prefixes(text).empty(); },
              "a list of CIDRs");
  app.add_option("--cluster-cidr", raw.cluster_cidrs,
                 "Pods' addresses; only the first CIDR of each family is used")
      ->type_name("LIST")
      ->check(ranges_or_none);
  app.add_option("--detect-local", raw.detect_local,
                 "How pods are distinguished from other clients: auto, cluster-cidr, node-cidr (of the own "
                 "Node), bridge (--pod-bridge) or prefix (--pod-devices)")
      ->type_name("METHOD")
      ->check(one_of(pod_detectors))
      ->capture_default_str();
  app.add_flag("--masquerade-all", raw.masquerade_all,
               "Translate the source of pods' requests to ClusterIPs, too, to this node's address, "
               "where replies would not return through it otherwise");
  app.add_option("--service-cidr", raw.service_cidrs,
                 "Ranges from which ClusterIPs are allocated, in addition to those of ServiceCIDR objects")
      ->type_name("LIST")
      ->check(ranges);
  app.add_flag("--drop-unallocated", raw.drop_unallocated,
               "Drop packets to unallocated ClusterIPs; without effect beside another proxy");
  app.add_option(
         "--cluster-secret", raw.agent.cluster_secret,
         "A file with the same 16 bytes or more on every node, so that all choose the same backend for "
         "a connection, which others cannot predict")
      ->type_name("FILE");
}

void add_servers(CLI::App& app, RawOptions& raw) {
  const auto listen =
      checked([](const std::string& text) { return text == off_word || parse_listen(text).has_value(); },
              "ADDRESS:PORT or off");
  app.add_option("--health", raw.health, "Serve /healthz and /livez here, or 'off'")
      ->type_name("ADDRESS:PORT")
      ->check(listen)
      ->capture_default_str();
  app.add_option("--metrics", raw.metrics, "Serve /metrics and /proxyMode here, or 'off'")
      ->type_name("ADDRESS:PORT")
      ->check(listen)
      ->capture_default_str();
  app.add_flag("--bind-address-hard-fail", raw.bind_address_hard_fail,
               "Do not start while another process holds one of these ports (default: serve without, and try "
               "again each second)");
  app.add_option("--service-metrics", raw.agent.service_metrics,
                 "Number of service ports that have series of their own in /metrics, four at most each")
      ->type_name("N")
      ->check(CLI::Range(0U, std::uint32_t{LB_MAX_SERVICES}))
      ->capture_default_str();
  app.add_option("--log-level", raw.log_level, "debug, info, warning or error")
      ->type_name("LEVEL")
      ->check(one_of(log_levels))
      ->capture_default_str();
  app.add_option("--log-format", raw.log_format, "text or json")
      ->type_name("FORMAT")
      ->check(one_of(log_formats))
      ->capture_default_str();
}

const std::map<std::string, std::uint32_t> time_units = {{"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};

void add_sizes(CLI::App& app, RawOptions& raw) {
  auto& sizes = raw.agent.sizes;
  const auto add = [&app](const char* name, std::uint32_t& value, const char* what) {
    app.add_option(name, value, fmt::format("Maximum number of {}", what))
        ->type_name("N")
        ->check(CLI::Range(2U, max_map_entries))
        ->capture_default_str();
  };
  add("--max-frontends", sizes.frontends, "frontends");
  add("--max-ranges", sizes.ranges, "source ranges");
  add("--max-services", sizes.services, "service ports");
  add("--max-backends", sizes.backends, "backends");
  add("--max-slots", sizes.slots, "slots");
  add("--max-flows", sizes.flows,
      "flow entries of each family, when the maps are made: two a flow, four if --forwarding stack takes it "
      "to another node");
  add("--max-unassured", sizes.unassured,
      "entries of flows without an answer yet, of each family, when the maps are made");
}

/// Limits of one Service's frontends, and of the slots of consistent selection.
void add_budgets(CLI::App& app, RawOptions& raw) {
  app.add_option(
         "--max-service-frontends", raw.agent.service_frontends,
         "Frontends (addresses times ports) of one Service at most, and its source ranges; what it asks "
         "for beyond that is not served, and an Event reports it")
      ->type_name("N")
      ->check(CLI::Range(1U, max_map_entries))
      ->capture_default_str();
  app.add_option(
         "--consistent-budget", raw.agent.consistent_budget,
         "Slots of all sets of services with sluice.lb/selection: consistent together, at most a quarter for "
         "one Service; beyond that a service port chooses at random, and an Event reports it")
      ->type_name("N")
      ->check(CLI::Range(0U, max_map_entries))
      ->capture_default_str();
  app.add_option("--selection", raw.selection,
                 "How services without sluice.lb/selection choose one backend of many: random (by weights) "
                 "or consistent (also called maglev), which makes all nodes choose the same")
      ->type_name("METHOD")
      ->check(one_of(selections))
      ->capture_default_str();
}

/// Options about resizing tables, and about serving without an agent.
void add_table_changes(CLI::App& app, RawOptions& raw) {
  app.add_flag("--fixed-sizes", raw.fixed_sizes,
               "Make no table larger than this: a service that does not fit keeps what it had");
  app.add_option(
         "--orphaned-after", raw.agent.orphaned_after,
         "Leave new flows to the next proxy (kube-proxy's rules) when the agent's last heartbeat is older "
         "than this; 0: never")
      ->type_name("TIME")
      ->check(CLI::Range(0U, 1U << 30))
      ->transform(CLI::AsNumberWithUnit(time_units))
      ->default_str("0s");
  app.add_option("--shrink-after", raw.agent.shrink_after,
                 "Make the table of slots smaller, down to --max-slots, when seven eighths of it were free "
                 "for so long; 0: never")
      ->type_name("TIME")
      ->check(CLI::Range(0U, 1U << 30))
      ->transform(CLI::AsNumberWithUnit(time_units))
      ->default_str(fmt::format("{}s", raw.agent.shrink_after));
  app.add_option(
         "--consistent-slots", raw.agent.sizes.consistent_slots,
         "Slots of a set of a service with sluice.lb/selection: consistent, a prime, and a hundred times "
         "its endpoints")
      ->type_name("N")
      ->check(checked(is_consistent_size, "a prime between 251 and 131071"))
      ->capture_default_str();
}

/// Former names of options; not shown by --help.
void add_former_names(CLI::App& app, RawOptions& raw) {
  const std::string hidden;
  app.add_option("--max-young", raw.agent.sizes.unassured)
      ->check(CLI::Range(2U, max_map_entries))
      ->group(hidden);
  app.add_option("--maglev-budget", raw.agent.consistent_budget)
      ->check(CLI::Range(0U, max_map_entries))
      ->group(hidden);
  app.add_option("--maglev-slots", raw.agent.sizes.consistent_slots)
      ->check(checked(is_consistent_size, "a prime between 251 and 131071"))
      ->group(hidden);
}

void add_timeouts(CLI::App& app, FlowTimeouts& timeouts) {
  constexpr std::uint32_t max_seconds = 1U << 30;  // seconds are compared modulo 2^32
  const auto add = [&](const char* name, std::uint32_t& seconds, const char* what) {
    app.add_option(name, seconds, fmt::format("End {} after so long without a packet", what))
        ->type_name("TIME")
        ->check(CLI::Range(1U, max_seconds))
        ->transform(CLI::AsNumberWithUnit(time_units))
        ->default_str(fmt::format("{}s", seconds));
  };
  add("--tcp-established-timeout", timeouts.established, "a TCP connection");
  add("--tcp-close-wait-timeout", timeouts.close_wait, "a TCP connection that one side has closed");
  add("--tcp-closing-timeout", timeouts.closing, "a TCP connection that both sides have closed");
  add("--udp-timeout", timeouts.udp, "a UDP exchange of two seconds at most");
  add("--udp-stream-timeout", timeouts.udp_stream, "a longer UDP exchange");
  add("--sctp-timeout", timeouts.sctp, "an SCTP association");
}

void add_conntrack(CLI::App& app, RawOptions& raw) {
  constexpr std::uint32_t max_value = 1U << 30;
  auto& conntrack = raw.agent.conntrack;
  const auto add_number = [&](const char* name, std::uint32_t& value, const char* what) {
    app.add_option(name, value, what)
        ->type_name("N")
        ->check(CLI::Range(0U, max_value))
        ->capture_default_str();
  };
  const auto add_time = [&](const char* name, std::uint32_t& seconds, const char* setting) {
    app.add_option(name, seconds, fmt::format("Set {}; 0 leaves the kernel's value unchanged", setting))
        ->type_name("TIME")
        ->check(CLI::Range(0U, max_value))
        ->transform(CLI::AsNumberWithUnit(time_units))
        ->default_str(fmt::format("{}s", seconds));
  };
  add_number("--conntrack-max-per-core", conntrack.max_per_core,
             "Maximum number of conntrack entries per CPU; 0 leaves the kernel's limit unchanged");
  add_number("--conntrack-min", conntrack.min, "Minimum of that limit, whatever the number of CPUs");
  add_time("--conntrack-tcp-timeout-established", conntrack.established,
           "nf_conntrack_tcp_timeout_established");
  add_time("--conntrack-tcp-timeout-close-wait", conntrack.close_wait, "nf_conntrack_tcp_timeout_close_wait");
  add_time("--conntrack-udp-timeout", conntrack.udp, "nf_conntrack_udp_timeout");
  add_time("--conntrack-udp-timeout-stream", conntrack.udp_stream, "nf_conntrack_udp_timeout_stream");
  app.add_flag("--conntrack-tcp-be-liberal", raw.tcp_be_liberal,
               "Let conntrack accept TCP packets outside the window as valid");
  app.add_option("--conntrack-dir", conntrack.directory,
                 "Where the host's /proc/sys/net/netfilter is; a container's own is read-only")
      ->type_name("DIR")
      ->capture_default_str();
}

}  // namespace

void add_pins(CLI::App& app, std::string& pins) {
  app.add_option("--pins", pins, "Directory of pinned maps and links, on a BPF file system")
      ->type_name("DIR")
      ->check(CLI::Validator(pins_problem, "", ""))
      ->capture_default_str();
}

CLI::App* add_agent_options(CLI::App* agent, RawOptions& raw) {
  add_config(*agent, raw);
  add_inputs(*agent, raw);
  add_hooks(*agent, raw);
  add_addresses(*agent, raw);
  add_clients(*agent, raw);
  add_servers(*agent, raw);
  add_sizes(*agent, raw);
  add_budgets(*agent, raw);
  add_table_changes(*agent, raw);
  add_former_names(*agent, raw);
  add_timeouts(*agent, raw.agent.timeouts);
  add_conntrack(*agent, raw);
  return agent;
}

}  // namespace lb::agent
