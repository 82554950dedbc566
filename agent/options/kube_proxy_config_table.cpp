// SPDX-License-Identifier: Apache-2.0
// The table. Types and defaults are those of Kubernetes 1.37 (and 1.36, which has the same fields).
#include "agent/options/kube_proxy_config_table.hpp"

#include <algorithm>
#include <array>

namespace lb::agent {
namespace {

using enum FieldType;
using enum FieldUse;

constexpr std::string_view no_marks = "no packet is marked for source NAT";
constexpr std::string_view no_period =
    "changes are written as they come, and what is written is checked each hour";
constexpr std::string_view no_ipvs = "nothing of IPVS is used";
constexpr std::string_view no_windows = "concerns Windows";
constexpr std::string_view own_pace = "the agent watches a few lists and waits longer after each failure";
constexpr std::string_view no_routing = "each line of the log is written at once, to standard error";
constexpr std::string_view kernels_if_zero = "0 leaves the kernel's";

constexpr auto fields = std::to_array<ConfigField>({
    {"apiVersion", text, read, "", "", "must be kubeproxy.config.k8s.io/v1alpha1"},
    {"kind", text, read, "", "", "must be KubeProxyConfiguration"},
    {"featureGates", booleans, mapped, "", "--external-ips",
     "AllowServiceExternalIPs=false is none; other gates are without effect"},

    {"clientConnection.kubeconfig", text, mapped, "", "--kubeconfig", "empty: the pod's service account"},
    {"clientConnection.acceptContentTypes", text, no_effect, "", "", "follows from contentType"},
    {"clientConnection.contentType", text, mapped, "application/vnd.kubernetes.protobuf", "--api-encoding",
     "application/json is json, all else protobuf"},
    {"clientConnection.qps", float32, no_effect, "5", "", own_pace},
    {"clientConnection.burst", int32, no_effect, "10", "", own_pace},

    {"logging.format", text, mapped, "text", "--log-format", "text or json"},
    {"logging.flushFrequency", log_duration, no_effect, "5s", "", no_routing},
    {"logging.verbosity", uint32, mapped, "", "--log-level", "4 and more is debug, less is info"},
    {"logging.vmodule[].filePattern", text, no_effect, "", "", "there is one level for all of the agent"},
    {"logging.vmodule[].verbosity", uint32, no_effect, "", "", "there is one level for all of the agent"},
    {"logging.options.text.splitStream", boolean, no_effect, "", "", no_routing},
    {"logging.options.text.infoBufferSize", quantity, no_effect, "0", "", no_routing},
    {"logging.options.json.splitStream", boolean, no_effect, "", "", no_routing},
    {"logging.options.json.infoBufferSize", quantity, no_effect, "0", "", no_routing},

    {"hostnameOverride", text, mapped, "", "--node", "empty: the host name"},
    {"bindAddress", text, read, "0.0.0.0", "",
     "its family is that of the two addresses below where they are not given; the Node object says the rest"},
    {"healthzBindAddress", text, mapped, "0.0.0.0:10256", "--health", "the port may be left out"},
    {"metricsBindAddress", text, mapped, "127.0.0.1:10249", "--metrics", "the port may be left out"},
    {"bindAddressHardFail", boolean, mapped, "", "--bind-address-hard-fail", ""},
    {"enableProfiling", boolean, no_effect, "", "", "there is no Go runtime to profile; use perf"},
    {"showHiddenMetricsForVersion", text, no_effect, "", "", "no metric is hidden"},

    {"mode", text, read, "iptables", "",
     "says which of the sections below counts; services are served by eBPF in any case"},
    {"iptables.masqueradeBit", int32, no_effect, "14", "", no_marks},
    {"iptables.masqueradeAll", boolean, mapped, "", "--masquerade-all", "in the modes iptables and ipvs"},
    {"iptables.localhostNodePorts", boolean, mapped, "true", "--node-port-addresses",
     "false, in the mode iptables: not on 127.0.0.0/8"},
    {"iptables.syncPeriod", duration, no_effect, "30s", "", no_period},
    {"iptables.minSyncPeriod", duration, no_effect, "1s", "", no_period},
    {"ipvs.syncPeriod", duration, no_effect, "30s", "", no_period},
    {"ipvs.minSyncPeriod", duration, no_effect, "", "", no_period},
    {"ipvs.scheduler", text, mapped, "rr", "--selection",
     "in the mode ipvs: rr and wrr are random (with weights), sh and mh consistent; least connections (lc, "
     "wlc, sed, nq) and the others are lost: random is used, and a warning says so"},
    {"ipvs.excludeCIDRs", texts, no_effect, "", "", no_ipvs},
    {"ipvs.strictARP", boolean, no_effect, "", "", "no device holds the services' addresses"},
    {"ipvs.tcpTimeout", duration, mapped, "", "--tcp-established-timeout",
     "in the mode ipvs; 0: the default"},
    {"ipvs.tcpFinTimeout", duration, mapped, "", "--tcp-closing-timeout", "in the mode ipvs; 0: the default"},
    {"ipvs.udpTimeout", duration, mapped, "", "--udp-timeout",
     "in the mode ipvs, and --udp-stream-timeout; 0: the default"},
    {"nftables.masqueradeBit", int32, no_effect, "14", "", no_marks},
    {"nftables.masqueradeAll", boolean, mapped, "", "--masquerade-all", "in the mode nftables"},
    {"nftables.syncPeriod", duration, no_effect, "30s", "", no_period},
    {"nftables.minSyncPeriod", duration, no_effect, "1s", "", no_period},
    {"winkernel.networkName", text, no_effect, "", "", no_windows},
    {"winkernel.sourceVip", text, no_effect, "", "", no_windows},
    {"winkernel.enableDSR", boolean, no_effect, "", "", no_windows},
    {"winkernel.rootHnsEndpointName", text, no_effect, "", "", no_windows},
    {"winkernel.forwardHealthCheckVip", boolean, no_effect, "", "", no_windows},

    {"detectLocalMode", text, mapped, "", "--detect-local",
     "ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix; empty: by clusterCIDR where there is "
     "one, else auto"},
    {"detectLocal.bridgeInterface", text, mapped, "", "--pod-bridge", "with detectLocalMode BridgeInterface"},
    {"detectLocal.interfaceNamePrefix", text, mapped, "", "--pod-devices",
     "with detectLocalMode InterfaceNamePrefix"},
    {"clusterCIDR", text, mapped, "", "--cluster-cidr", ""},
    {"nodePortAddresses", texts, mapped, "", "--node-port-addresses",
     "empty: primary in the mode nftables, all in the others"},

    {"oomScoreAdj", int32, mapped, "-999", "--oom-score-adj", "a warning where the agent may not"},
    {"conntrack.maxPerCore", int32, mapped, "32768", "--conntrack-max-per-core", kernels_if_zero},
    {"conntrack.min", int32, mapped, "131072", "--conntrack-min", ""},
    {"conntrack.tcpEstablishedTimeout", duration, mapped, "24h0m0s", "--conntrack-tcp-timeout-established",
     kernels_if_zero},
    {"conntrack.tcpCloseWaitTimeout", duration, mapped, "1h0m0s", "--conntrack-tcp-timeout-close-wait",
     kernels_if_zero},
    {"conntrack.tcpBeLiberal", boolean, mapped, "", "--conntrack-tcp-be-liberal", ""},
    {"conntrack.udpTimeout", duration, mapped, "", "--conntrack-udp-timeout", kernels_if_zero},
    {"conntrack.udpStreamTimeout", duration, mapped, "", "--conntrack-udp-timeout-stream", kernels_if_zero},
    {"configSyncPeriod", duration, no_effect, "15m0s", "", "watches report every change"},
    {"portRange", text, no_effect, "", "", "kube-proxy does not use it any more either"},
    {"windowsRunAsService", boolean, no_effect, "", "", no_windows},
});

}  // namespace

std::span<const ConfigField> kube_proxy_fields() { return fields; }

const ConfigField* find_field(std::string_view path) {
  const auto found = std::ranges::find(fields, path, &ConfigField::path);
  return found == fields.end() ? nullptr : &*found;
}

bool is_section(std::string_view path) {
  return std::ranges::any_of(fields, [path](const auto& field) {
    const auto rest = field.path.size() > path.size() ? field.path.substr(path.size()) : std::string_view();
    return field.path.starts_with(path) && (rest.starts_with('.') || rest.starts_with('['));
  });
}

std::string_view type_text(FieldType type) {
  switch (type) {
    case text:
      return "a text";
    case boolean:
      return "true or false";
    case int32:
      return "a whole number";
    case uint32:
      return "a whole number of at least 0";
    case float32:
      return "a number";
    case duration:
      return "a duration such as 30s";
    case log_duration:
      return "a duration such as 5s, or nanoseconds";
    case quantity:
      return "a quantity such as 4Ki";
    case texts:
      return "a list of texts";
    case booleans:
      break;
  }
  return "true or false by name";
}

}  // namespace lb::agent
