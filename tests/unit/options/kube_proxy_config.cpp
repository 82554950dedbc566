// SPDX-License-Identifier: Apache-2.0
// kube-proxy's configuration file as tables: what each field sets, the error messages, and a file that
// changes while the agent runs (SEM-68).
#include "tests/unit/options/kube_proxy_config.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "agent/datapath/config_reconciler.hpp"
#include "agent/observe/configz.hpp"
#include "agent/options/config.hpp"
#include "agent/options/kube_proxy_config_file.hpp"
#include "agent/options/kube_proxy_config_table.hpp"

namespace {

using namespace lb::config_test;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("SEM-68: kube-proxy's defaults, where the file says nothing") {
  const auto options = agent("");
  CHECK(options.node == "host");
  CHECK(options.kubeconfig.empty());
  CHECK(options.api_format == ApiFormat::protobuf);
  CHECK(options.health == Listen{"0.0.0.0", 10256});
  CHECK(options.metrics == Listen{"127.0.0.1", 10249});
  CHECK(options.bind_failure == BindFailure::retry);
  CHECK(options.node_port_addresses == NodePortAddresses{});
  CHECK(options.detect_local == PodDetector::automatic);
  CHECK(options.cluster_cidrs.empty());
  CHECK(options.masquerade == Masquerade::as_needed);
  CHECK(options.oom_score_adj == -999);
  CHECK(options.conntrack == ConntrackSettings{});
  CHECK(options.log_level == LogLevel::info);
  CHECK(options.selection == lb::k8s::Selection::random);
  CHECK(options.remarks.empty());
}

TEST_CASE("SEM-68: fields become options") {
  const auto options = agent(R"(
clientConnection: {kubeconfig: /k, contentType: application/json}
hostnameOverride: Node-7
bindAddress: "::"
bindAddressHardFail: true
clusterCIDR: 10.1.0.0/16,fd00:1::/48
nodePortAddresses: [10.0.0.0/8, localhost]
oomScoreAdj: 12
iptables: {masqueradeAll: true}
conntrack: {maxPerCore: 0, min: 5, tcpEstablishedTimeout: 2h, tcpCloseWaitTimeout: 90s, tcpBeLiberal: true, udpTimeout: 1m, udpStreamTimeout: 1m30s}
logging: {format: json, verbosity: 4}
)");
  CHECK(options.kubeconfig == "/k");
  CHECK(options.api_format == ApiFormat::json);
  CHECK(options.node == "node-7");
  CHECK(options.health == Listen{"::", 10256});
  CHECK(options.metrics == Listen{"::1", 10249});
  CHECK(options.bind_failure == BindFailure::fatal);
  CHECK(prefixes(options.cluster_cidrs) == std::vector<std::string>{"10.1.0.0/16", "fd00:1::/48"});
  CHECK(options.detect_local == PodDetector::cluster_cidr);
  CHECK(prefixes(options.node_port_addresses.ranges) ==
        std::vector<std::string>{"10.0.0.0/8", "127.0.0.0/8", "::1/128"});
  CHECK(options.oom_score_adj == 12);
  CHECK(options.masquerade == Masquerade::all);
  CHECK(options.conntrack == ConntrackSettings{.max_per_core = 0,
                                               .min = 5,
                                               .established = 7200,
                                               .close_wait = 90,
                                               .udp = 60,
                                               .udp_stream = 90,
                                               .window = TcpWindow::liberal});
  CHECK(options.log_format == LogFormat::json);
  CHECK(options.log_level == LogLevel::debug);
}

TEST_CASE("SEM-68: who is a pod") {
  CHECK(agent("detectLocalMode: ClusterCIDR\n").detect_local == PodDetector::cluster_cidr);
  const auto by_node = agent("detectLocalMode: NodeCIDR\nclusterCIDR: 10.1.0.0/16\n");
  CHECK(by_node.detect_local == PodDetector::node_cidr);
  CHECK(by_node.cluster_cidrs.empty());
  const auto bridge = agent("detectLocalMode: BridgeInterface\ndetectLocal: {bridgeInterface: cni0}\n");
  CHECK(bridge.detect_local == PodDetector::bridge);
  CHECK(bridge.pod_bridge == "cni0");
  const auto prefix =
      agent("detectLocalMode: InterfaceNamePrefix\ndetectLocal: {interfaceNamePrefix: cali}\n");
  CHECK(prefix.detect_local == PodDetector::prefix);
  CHECK(prefix.pod_devices == std::vector<std::string>{"cali"});
}

TEST_CASE("SEM-68, SEM-92: the mode says which section counts, and node ports' default") {
  CHECK(agent("mode: nftables\n").node_port_addresses == NodePortAddresses{NodePortScope::primary, {}});
  CHECK(agent("mode: ipvs\n").node_port_addresses == NodePortAddresses{});
  CHECK(agent("mode: nftables\nnftables: {masqueradeAll: true}\n").masquerade == Masquerade::all);
  const auto other = agent("mode: nftables\niptables: {masqueradeAll: true}\n");
  CHECK(other.masquerade == Masquerade::as_needed);
  CHECK(says(other, LogLevel::info, "iptables.masqueradeAll is of another mode than nftables"));
  const auto ipvs = agent("mode: ipvs\niptables: {masqueradeAll: true}\n");
  CHECK(ipvs.masquerade == Masquerade::all);
  CHECK(ipvs.remarks.empty());
  const auto mixed = agent("nodePortAddresses: [primary, 192.0.2.0/24]\n").node_port_addresses;
  CHECK(mixed.scope == NodePortScope::primary);
  CHECK(prefixes(mixed.ranges) == std::vector<std::string>{"192.0.2.0/24"});
  CHECK(agent("nodePortAddresses: [all, primary]\n").node_port_addresses == NodePortAddresses{});
}

TEST_CASE("SEM-68: node ports not on localhost") {
  const auto of = [](const std::string& list) {
    return prefixes(agent("iptables: {localhostNodePorts: false}\n" + list).node_port_addresses.ranges);
  };
  const std::vector<std::string> all_but = {"0.0.0.0/2",   "64.0.0.0/3",  "96.0.0.0/4",  "112.0.0.0/5",
                                            "120.0.0.0/6", "124.0.0.0/7", "126.0.0.0/8", "128.0.0.0/1"};
  CHECK(of("") == all_but);
  CHECK(of("nodePortAddresses: [0.0.0.0/0]\n") == all_but);
  CHECK(of("nodePortAddresses: [10.0.0.0/8, 127.0.0.0/8]\n") == std::vector<std::string>{"10.0.0.0/8"});
  const std::string no_host = "255.255.255.255/32";
  CHECK(of("nodePortAddresses: [127.0.0.1/32]\n") == std::vector{no_host});
  CHECK(of("nodePortAddresses: [127.0.0.0/8, '::1/128']\n") == std::vector<std::string>{"::1/128", no_host});
  CHECK(of("nodePortAddresses: [127.0.0.0/8, 'fd00:1::/64']\n") ==
        std::vector<std::string>{"fd00:1::/64", no_host});
  CHECK(of("nodePortAddresses: [localhost]\n") == std::vector<std::string>{"::1/128", no_host});
  auto ipv6_and_all_but = all_but;
  ipv6_and_all_but.insert(ipv6_and_all_but.begin(), "fd00:1::/64");
  CHECK(of("nodePortAddresses: ['fd00:1::/64']\n") == ipv6_and_all_but);
  CHECK(of("mode: nftables\n").empty());
}

TEST_CASE("SEM-68: IPVS's schedulers and timeouts") {
  using lb::k8s::Selection;
  for (const auto& [name, selection, lost] : {std::tuple{"rr", Selection::random, false},
                                              {"wrr", Selection::random, false},
                                              {"sh", Selection::consistent, false},
                                              {"mh", Selection::consistent, false},
                                              {"lc", Selection::random, true},
                                              {"wlc", Selection::random, true},
                                              {"sed", Selection::random, true},
                                              {"nq", Selection::random, true}}) {
    INFO(name);
    const auto options = agent(fmt::format("mode: ipvs\nipvs: {{scheduler: {}}}\n", name));
    CHECK(options.selection == selection);
    CHECK(says(options, LogLevel::warning, fmt::format("ipvs.scheduler is '{}', which is lost", name)) ==
          lost);
  }
  const auto options = agent("mode: ipvs\nipvs: {tcpTimeout: 10m, tcpFinTimeout: 500ms, udpTimeout: 90s}\n");
  CHECK(options.timeouts.established == 600);
  CHECK(options.timeouts.closing == 1);
  CHECK(options.timeouts.udp == 90);
  CHECK(options.timeouts.udp_stream == 90);
  CHECK(agent("ipvs: {scheduler: mh, tcpTimeout: 10m}\n").timeouts == FlowTimeouts{});
}

TEST_CASE("SEM-68, REL-51: without the gate AllowServiceExternalIPs no external IP is served") {
  const std::vector<lb::k8s::Prefix> none;
  const auto off = agent("featureGates: {AllowServiceExternalIPs: false}\n");
  CHECK(off.external_ips == none);
  CHECK(off.flags.at("external-ips") == "none");
  CHECK(off.remarks.empty());
  CHECK_FALSE(agent("featureGates: {AllowServiceExternalIPs: true}\n").external_ips.has_value());
  CHECK_FALSE(agent("").external_ips.has_value());
  const auto explicitly =
      agent("featureGates: {AllowServiceExternalIPs: false}\n", {"--external-ips", "192.0.2.0/24"});
  REQUIRE(explicitly.external_ips.has_value());
  CHECK(prefixes(*explicitly.external_ips) == std::vector<std::string>{"192.0.2.0/24"});
  // The gate is GA in kube-proxy, and so in neither group.
  CHECK_FALSE(agent("featureGates: {AllAlpha: false, AllBeta: false}\n").external_ips.has_value());
  const auto groups =
      agent("featureGates: {AllAlpha: true, AllowServiceExternalIPs: false, AllBeta: true}\n");
  CHECK(groups.external_ips == none);
  CHECK(says(groups, LogLevel::info, ":3: featureGates is without effect for AllAlpha,AllBeta: "));
}

TEST_CASE("SEM-68: pods' devices that a file names are not replaced by those that are found") {
  const std::string file = "detectLocalMode: InterfaceNamePrefix\ndetectLocal: {interfaceNamePrefix: cali}\n";
  const auto named = agent(file, {"--pod-devices", "auto"});
  CHECK(named.pod_devices == std::vector<std::string>{"cali"});
  CHECK(named.pod_discovery == Discovery::off);
  CHECK(named.remarks.empty());
  CHECK(agent(file, {"--pod-devices", "veth"}).pod_devices == std::vector<std::string>{"veth"});
  const auto both = agent(file, {"--pod-devices", "auto,tap"});
  CHECK(both.pod_devices == std::vector<std::string>{"tap"});
  CHECK(both.pod_discovery == Discovery::automatic);
  CHECK(agent("", {"--pod-devices", "auto"}).pod_discovery == Discovery::automatic);
}

TEST_CASE("SEM-68: what does nothing here is said once, where it would do something in kube-proxy") {
  const auto options = agent(R"(
configSyncPeriod: 1m
enableProfiling: true
iptables: {syncPeriod: 10s, masqueradeBit: 14, minSyncPeriod: 0s}
featureGates: {NFTablesNetlink: false}
winkernel: {enableDSR: false, sourceVip: 10.0.0.1}
)");
  CHECK(options.remarks.size() == 5);
  for (const auto* text :
       {"configSyncPeriod is without effect", "enableProfiling is without effect",
        "iptables.syncPeriod is without effect", "featureGates is without effect for NFTablesNetlink",
        "winkernel.sourceVip is without effect: concerns Windows"}) {
    INFO(text);
    CHECK(says(options, LogLevel::info, text));
  }
}

TEST_CASE("SEM-68: unknown fields and fields given twice are warnings, as in kube-proxy") {
  const TemporaryFile file(head + "mode: nftables\nmod: ipvs\nconntrack:\n  min: 1\n  min: 2\n");
  const auto options = good(with_file(file.path()));
  CHECK(options.conntrack.min == 2);
  CHECK(says(options, LogLevel::warning, file.path() + ":4: mod is not a field of kube-proxy's"));
  CHECK(says(options, LogLevel::warning, file.path() + ":7: conntrack.min is given twice"));
}

struct Refusal {
  const char* lines;
  const char* message;
};

TEST_CASE("SEM-68: what kube-proxy refuses is refused with file, line, field and what to do") {
  const Refusal refusals[] = {
      {"mode: kernelspace\n", ":3: mode is 'kernelspace'; write iptables, ipvs or nftables"},
      {"mode: [iptables]\n", ":3: mode is a list; write a text"},
      {"bindAddressHardFail: yes\n", ":3: bindAddressHardFail is 'yes'; write true or false"},
      {"conntrack: 5\n", ":3: conntrack is a number"},
      {"conntrack:\n  maxPerCore: -1\n", ":4: conntrack.maxPerCore is out of range: at least 0"},
      {"conntrack:\n  maxPerCore: 5000000000\n", ":4: conntrack.maxPerCore is a number out of its range"},
      {"conntrack: {udpTimeout: 30}\n", ":3: conntrack.udpTimeout is a number"},
      {"conntrack: {udpTimeout: -1s}\n", ":3: conntrack.udpTimeout is out of range"},
      {"configSyncPeriod: -1s\n", ":3: configSyncPeriod is out of range: more than 0"},
      {"iptables: {syncPeriod: 1s, minSyncPeriod: 2s}\n",
       ":3: iptables.minSyncPeriod is out of range: at most"},
      {"iptables: {masqueradeBit: 32}\n", ":3: iptables.masqueradeBit is out of range: 0 to 31"},
      {"oomScoreAdj: 1001\n", ":3: oomScoreAdj is out of range: -1000 to 1000"},
      {"clusterCIDR: 10.0.0.0/8,10.1.0.0/16\n",
       ":3: clusterCIDR is '10.0.0.0/8,10.1.0.0/16'; write one CIDR"},
      {"clusterCIDR: pods\n", ":3: clusterCIDR is 'pods'"},
      {"nodePortAddresses: [primary, primary]\n", ":3: nodePortAddresses has 'primary' twice"},
      {"nodePortAddresses: [eth0]\n",
       ":3: nodePortAddresses has 'eth0'; write CIDRs, primary, localhost or all"},
      {"nodePortAddresses: primary\n", ":3: nodePortAddresses is 'primary'; write a list of texts"},
      {"healthzBindAddress: somewhere:1\n", ":3: healthzBindAddress is 'somewhere:1'; write an IP address"},
      {"metricsBindAddress: 0.0.0.0:0\n", ":3: metricsBindAddress is '0.0.0.0:0'"},
      {"bindAddress: localhost\n", ":3: bindAddress is 'localhost'; write an IP address"},
      {"detectLocalMode: Bridge\n", ":3: detectLocalMode is 'Bridge'; write ClusterCIDR"},
      {"detectLocalMode: BridgeInterface\n", ": detectLocal.bridgeInterface is ''"},
      {"logging: {format: yaml}\n", ":3: logging.format is 'yaml'; write text or json"},
      {"logging: {verbosity: -1}\n", ":3: logging.verbosity is a number"},
      {"clientConnection: {burst: -1}\n", ":3: clientConnection.burst is out of range"},
      {"featureGates: {A: 1}\n", ":3: featureGates is a mapping; write true or false by name"},
      {"hostnameOverride: \" \"\n", ":3: hostnameOverride is blank"},
      {"mode: ipvs\nipvs: {excludeCIDRs: [x]}\n", ":4: ipvs.excludeCIDRs has 'x'"},
      {"mode: {\n", " is not valid YAML: "},
      {"---\nkind: Other\n", " holds a second document"},
  };
  for (const auto& [lines, message] : refusals) {
    INFO(lines);
    const TemporaryFile file(head + lines);
    CHECK_THAT(refused(with_file(file.path())), ContainsSubstring(file.path()) && ContainsSubstring(message));
  }
}

TEST_CASE("SEM-68: files of other kinds, and none at all") {
  const auto of = [](const std::string& text) {
    const TemporaryFile file(text);
    return refused(with_file(file.path()));
  };
  CHECK_THAT(of("kind: KubeProxyConfiguration\n"),
             ContainsSubstring(":1: apiVersion is missing; write kubeproxy.config"));
  CHECK_THAT(of("apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeletConfiguration\n"),
             ContainsSubstring(
                 ":2: kind is 'KubeletConfiguration', which cannot be read; write KubeProxyConfiguration"));
  CHECK_THAT(of("apiVersion: v1\nkind: ConfigMap\n"), ContainsSubstring(":1: apiVersion is 'v1'"));
  CHECK_THAT(of(""), ContainsSubstring("is not a mapping"));
  CHECK_THAT(of("{\"kind\": \"KubeProxyConfiguration\",\n \"mode\" 1}"),
             ContainsSubstring(":2 is not valid JSON"));
  CHECK_THAT(of("{} {}"), ContainsSubstring(":1 is not valid JSON"));
  CHECK_THAT(refused(with_file("/nonexistent/config.conf")),
             ContainsSubstring("/nonexistent/config.conf cannot be read (No such file or directory)"));
  CHECK_THAT(refused(with_file("/")), ContainsSubstring("/ cannot be read"));
}

TEST_CASE("SEM-68: JSON is read, with its lines") {
  const TemporaryFile file(
      "{\"apiVersion\": \"kubeproxy.config.k8s.io/v1alpha1\",\n \"kind\": \"KubeProxyConfiguration\",\n"
      "\t\"mode\": \"nftables\", \"oomScoreAdj\": -1,\n \"modes\": 1}\n");
  const auto options = good(with_file(file.path()));
  CHECK(options.oom_score_adj == -1);
  CHECK(options.node_port_addresses.scope == NodePortScope::primary);
  CHECK(says(options, LogLevel::warning, ":4: modes is not a field"));
}

TEST_CASE("SEM-68: beside a file flags of kube-proxy's are ignored, and the agent's own count") {
  const auto options =
      agent("clusterCIDR: 10.1.0.0/16\nhostnameOverride: of-the-file\nconntrack: {min: 7}\n",
            {"--cluster-cidr", "10.2.0.0/16", "--conntrack-min", "9", "--masquerade-all", "--node", "given",
             "--health", "127.0.0.1:1", "--log-level", "error", "--max-slots", "4096", "--xdp", "off"});
  CHECK(prefixes(options.cluster_cidrs) == std::vector<std::string>{"10.1.0.0/16"});
  CHECK(options.conntrack.min == 7);
  CHECK(options.masquerade == Masquerade::as_needed);
  CHECK(says(options, LogLevel::warning, "--cluster-cidr is ignored"));
  CHECK(says(options, LogLevel::warning, "--masquerade-all is ignored"));
  CHECK(options.node == "given");
  CHECK(options.health == Listen{"127.0.0.1", 1});
  CHECK(options.log_level == LogLevel::error);
  CHECK(options.sizes.slots == 4096);
  CHECK(options.xdp == XdpMode::off);
  CHECK(options.flags.at("cluster-cidr") == "10.1.0.0/16");
  CHECK(agent("", {"--cluster-cidr", "10.2.0.0/16"}).cluster_cidrs.empty());
  const auto files = agent("clientConnection: {kubeconfig: /k}\n", {"--manifests", "/m"});
  CHECK(files.manifests == "/m");
  CHECK(files.kubeconfig.empty());
  const auto other = agent("clientConnection: {kubeconfig: /k}\n", {"--kubeconfig", "/other"});
  CHECK(other.kubeconfig == "/k");
}

TEST_CASE("a changed file: what changes at once, and what with the next agent") {
  const TemporaryFile file(head);
  const auto now = good(with_file(file.path()));
  const auto kind = [&now](const std::string& lines) {
    const auto next = options_with(now, head + lines);
    REQUIRE(std::holds_alternative<AgentOptions>(next));
    return change_between(now, std::get<AgentOptions>(next));
  };
  CHECK(kind("") == ChangeKind::none);
  CHECK(kind("# another text\nconfigSyncPeriod: 1m\n") == ChangeKind::none);
  CHECK(kind("logging: {verbosity: 5}\nconntrack: {min: 1}\noomScoreAdj: 1\n") == ChangeKind::live);
  CHECK(kind("nodePortAddresses: [primary]\n") == ChangeKind::begin_again);
  CHECK(kind("featureGates: {AllowServiceExternalIPs: false}\n") == ChangeKind::begin_again);
  CHECK(kind("healthzBindAddress: 127.0.0.1\nlogging: {verbosity: 5}\n") == ChangeKind::begin_again);
  const auto bad = options_with(now, head + "mode: none\n");
  REQUIRE(std::holds_alternative<std::string>(bad));
  CHECK_THAT(std::get<std::string>(bad), ContainsSubstring(file.path() + ":3: mode is 'none'"));
}

TEST_CASE("what a running agent has grown to survives a changed file") {
  const TemporaryFile file(head);
  auto now = good(with_file(file.path(), {"--max-services", "16"}));
  now.sizes.services = 64;
  now.growth = Growth::off;
  const auto next = options_with(now, head + "nodePortAddresses: [primary]\n");
  REQUIRE(std::holds_alternative<AgentOptions>(next));
  CHECK(std::get<AgentOptions>(next).sizes == now.sizes);
  CHECK(std::get<AgentOptions>(next).growth == Growth::off);
  take_live(now, std::get<AgentOptions>(next));
  CHECK(now.node_port_addresses == NodePortAddresses{});
}

TEST_CASE("Go's durations") {
  constexpr std::int64_t second = 1'000'000'000;
  for (const auto& [text, nanoseconds] : {std::pair{"0", std::int64_t{0}},
                                          {"0s", 0},
                                          {"1h2m3s", 3723 * second},
                                          {"1.5s", 1'500'000'000},
                                          {"100ms", 100'000'000},
                                          {"2us", 2'000},
                                          {"2\xc2\xb5s", 2'000},
                                          {"7ns", 7},
                                          {"-1m", -60 * second},
                                          {"+1s", second}}) {
    INFO(text);
    CHECK(parse_go_duration(text) == nanoseconds);
  }
  for (const auto* text : {"", "-", "s", "1", "1x", "1s2", "1 s", "1..5s", "9999999h", "0x1s"}) {
    INFO(text);
    CHECK_FALSE(parse_go_duration(text).has_value());
  }
}

}  // namespace
