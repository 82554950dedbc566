// SPDX-License-Identifier: Apache-2.0
// The command line as a table: which options are accepted, what they mean, and the message for every mistake.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "agent/observe/configz.hpp"
#include "agent/options/config.hpp"

namespace {

using namespace lb::agent;
using Catch::Matchers::ContainsSubstring;

using Result = std::variant<Options, Finished>;

Result parse(std::vector<std::string> arguments) {
  return parse_command_line(std::move(arguments), " Node-A.Example ");
}

AgentOptions agent(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"agent", "--manifests", "/m", "--devices", "eth0"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const auto result = parse(arguments);
  if (const auto* finished = std::get_if<Finished>(&result)) {
    FAIL(finished->text);
  }
  return std::get<Options>(result).agent;
}

TEST_CASE("an agent's defaults are kube-proxy's where kube-proxy has them") {
  const auto options = agent({});
  CHECK(options.manifests == "/m");
  CHECK(options.node == "node-a.example");
  CHECK(options.devices == std::vector<std::string>{"eth0"});
  CHECK(options.cgroup.empty());
  CHECK(options.pins == "/sys/fs/bpf/sluice");
  CHECK(options.xdp == XdpMode::automatic);
  CHECK(options.sockets == SocketScope::all);
  CHECK(options.health == Listen{"0.0.0.0", 10256});
  CHECK(options.metrics == Listen{"127.0.0.1", 10249});
  CHECK(options.node_port_addresses == NodePortAddresses{});
  CHECK(options.source_ports == std::vector<PortRange>{{1024, 29999}, {61000, 65535}});
  CHECK(options.sizes.slots == LB_MAX_SLOTS);
  CHECK(options.log_format == LogFormat::text);
}

TEST_CASE("options of an agent are read") {
  const auto options =
      agent({"--node",         "  Worker-3 ",    "--xdp",       "native",        "--sockets",    "host",
             "--without",      "tcx, ct-lookup", "--health",    "[::1]:0",       "--metrics",    "off",
             "--max-slots",    "4096",           "--log-level", "debug",         "--log-format", "json",
             "--source-ports", "2000-2999",      "--pins",      "/sys/fs/bpf/x", "--cgroup",     "/c"});
  CHECK(options.node == "worker-3");
  CHECK(options.xdp == XdpMode::native);
  CHECK(options.sockets == SocketScope::host);
  CHECK(options.without == std::vector<std::string>{"tcx", "ct-lookup"});
  CHECK(options.health == Listen{"::1", 0});
  CHECK_FALSE(options.metrics.has_value());
  CHECK(options.sizes.slots == 4096);
  CHECK(options.log_level == LogLevel::debug);
  CHECK(options.log_format == LogFormat::json);
  CHECK(options.source_ports == std::vector<PortRange>{{2000, 2999}});
  CHECK(options.pins == "/sys/fs/bpf/x");
  CHECK(options.cgroup == "/c");
}

TEST_CASE("a check takes an agent's options, and the form of its output") {
  const auto result =
      parse({"check", "--manifests", "/m", "--devices", "eth0", "--without", "tcx", "-o", "json"});
  REQUIRE(std::holds_alternative<Options>(result));
  const auto& options = std::get<Options>(result);
  CHECK(options.command == Command::check);
  CHECK(options.agent.devices == std::vector<std::string>{"eth0"});
  CHECK(options.agent.without == std::vector<std::string>{"tcx"});
  CHECK(options.agent.pins == "/sys/fs/bpf/sluice");
  CHECK(options.show.output == Output::json);
  const auto wrong = parse({"check", "--devices", "eth0", "--detect-local", "bridge"});
  REQUIRE(std::holds_alternative<Finished>(wrong));
  CHECK_THAT(std::get<Finished>(wrong).text, ContainsSubstring("see 'sluice check --help'"));
}

TEST_CASE("who is a pod, and what follows") {
  const auto plain = agent({});
  CHECK(plain.detect_local == PodDetector::automatic);
  CHECK(plain.cluster_cidrs.empty());
  CHECK(plain.masquerade == Masquerade::as_needed);
  CHECK(plain.unallocated == Unallocated::pass);
  CHECK(plain.sizes.consistent_slots == 16381);
  const auto options = agent({"--cluster-cidr", "10.244.0.0/16,fd00::/48", "--detect-local", "node-cidr",
                              "--masquerade-all", "--service-cidr", "10.96.0.0/12", "--drop-unallocated",
                              "--cluster-secret", "/etc/secret", "--consistent-slots", "65521"});
  CHECK(options.cluster_cidrs.size() == 2);
  CHECK(options.detect_local == PodDetector::node_cidr);
  CHECK(options.masquerade == Masquerade::all);
  CHECK(options.service_cidrs.size() == 1);
  CHECK(options.unallocated == Unallocated::drop);
  CHECK(options.cluster_secret == "/etc/secret");
  CHECK(options.sizes.consistent_slots == 65521);
  CHECK(plain.topology_labels ==
        lb::k8s::AllowedLabels{
            {"kubernetes.io/hostname", "topology.kubernetes.io/region", "topology.kubernetes.io/zone"}});
  CHECK_FALSE(agent({"--topology-labels", "all"}).topology_labels.has_value());
  CHECK(agent({"--topology-labels", "none"}).topology_labels == lb::k8s::AllowedLabels{lb::k8s::LabelKeys{}});
  CHECK(agent({"--topology-labels", "a/rack, row"}).topology_labels ==
        lb::k8s::AllowedLabels{{"a/rack", "row"}});
  CHECK(plain.service_frontends == 10000);
  CHECK(agent({"--max-service-frontends", "12"}).service_frontends == 12);
  CHECK(plain.consistent_budget == 4194304);
  CHECK(agent({"--consistent-budget", "0"}).consistent_budget == 0);
  CHECK(plain.service_metrics == 0);
  CHECK(agent({"--service-metrics", "100"}).service_metrics == 100);
}

TEST_CASE("where objects come from") {
  const auto of = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"agent", "--devices", "eth0"});
    const auto result = parse(arguments);
    const auto* finished = std::get_if<Finished>(&result);
    INFO((finished != nullptr ? finished->text : ""));
    REQUIRE(finished == nullptr);
    return std::get<Options>(result).agent;
  };
  const auto pod = of({});
  CHECK(pod.manifests.empty());
  CHECK(pod.kubeconfig.empty());
  CHECK(pod.api_servers.empty());
  CHECK(pod.api_format == ApiFormat::protobuf);
  const auto options =
      of({"--kubeconfig", "/k", "--api-server", "https://10.0.0.1:6443", "--api-server",
          "https://[fd00::1]:6443", "--api-encoding", "json", "--service-proxy-name", "mesh"});
  CHECK(options.kubeconfig == "/k");
  CHECK(options.api_servers == std::vector<std::string>{"https://10.0.0.1:6443", "https://[fd00::1]:6443"});
  CHECK(options.api_format == ApiFormat::json);
  CHECK(options.service_proxy_name == "mesh");
  for (const auto* selector :
       {"zone=a", "topology.kubernetes.io/zone in (a, b),!x", "a!=b,c==d,e", "!a", "a notin (b)"}) {
    CHECK(of({"--slice-selector", selector}).slice_selector == selector);
  }
}

TEST_CASE("SEM-91: the configuration as kube-proxy shows its own") {
  const auto text =
      configz(agent({"--node", "worker", "--health", "[::]:10256", "--metrics", "off", "--cluster-cidr",
                     "10.244.0.0/16,fd00::/48", "--detect-local", "cluster-cidr", "--node-port-addresses",
                     "10.0.0.0/8", "--conntrack-udp-timeout", "90s"}));
  CHECK(
      text ==
      R"({"kubeproxy.config.k8s.io":{"kind":"KubeProxyConfiguration",)"
      R"("apiVersion":"kubeproxy.config.k8s.io/v1alpha1","mode":"sluice","hostnameOverride":"worker",)"
      R"("clientConnection":{"kubeconfig":"","acceptContentTypes":"",)"
      R"("contentType":"application/vnd.kubernetes.protobuf"},"healthzBindAddress":"[::]:10256",)"
      R"("metricsBindAddress":"","bindAddressHardFail":false,"clusterCIDR":"10.244.0.0/16,fd00::/48","detectLocalMode":"ClusterCIDR",)"
      R"("detectLocal":{"bridgeInterface":"","interfaceNamePrefix":""},"nodePortAddresses":["10.0.0.0/8"],)"
      R"("conntrack":{"maxPerCore":32768,"min":131072,"tcpEstablishedTimeout":"24h0m0s",)"
      R"("tcpCloseWaitTimeout":"1h0m0s","tcpBeLiberal":false,"udpTimeout":"1m30s","udpStreamTimeout":"0s"}}})"
      "\n");
}

TEST_CASE("a port that another process holds is waited for, or refuses the start") {
  CHECK(agent({}).bind_failure == BindFailure::retry);
  const auto strict = agent({"--bind-address-hard-fail"});
  CHECK(strict.bind_failure == BindFailure::fatal);
  CHECK_THAT(configz(strict), ContainsSubstring("\"bindAddressHardFail\":true"));
}

TEST_CASE("SEM-75: what a clean-up removes, and what follows it") {
  const auto plain = std::get<Options>(parse({"cleanup"}));
  CHECK(plain.command == Command::cleanup);
  CHECK(plain.cleanup.pins == "/sys/fs/bpf/sluice");
  CHECK(plain.cleanup.target == CleanupTarget::sluice);
  CHECK(plain.cleanup.mode == CleanupMode::remove);
  CHECK(plain.cleanup.after == AfterCleanup::end);
  CHECK(plain.cleanup.replacement == Replacement::required);
  const auto given =
      std::get<Options>(parse({"cleanup", "--kube-proxy", "--dry-run", "--wait", "--pins", "/p"})).cleanup;
  CHECK(given.pins == "/p");
  CHECK(given.target == CleanupTarget::kube_proxy);
  CHECK(given.mode == CleanupMode::dry_run);
  CHECK(given.after == AfterCleanup::stay);
  const auto anyway = std::get<Options>(parse({"cleanup", "--kube-proxy", "--force"})).cleanup;
  CHECK(anyway.replacement == Replacement::any);
  CHECK(std::get<Finished>(parse({"cleanup", "--force"})).exit_code == 2);
}

TEST_CASE("SEM-55: conntrack's settings are kube-proxy's, under its names") {
  const auto defaults = agent({}).conntrack;
  CHECK(defaults.max_per_core == 32768);
  CHECK(defaults.min == 131072);
  CHECK(defaults.established == 86400);
  CHECK(defaults.close_wait == 3600);
  CHECK(defaults.udp + defaults.udp_stream == 0);
  CHECK(defaults.window == TcpWindow::as_it_is);
  const auto given = agent({"--conntrack-max-per-core", "0", "--conntrack-tcp-timeout-established", "1h",
                            "--conntrack-udp-timeout-stream", "2m", "--conntrack-tcp-be-liberal"})
                         .conntrack;
  CHECK(given.max_per_core == 0);
  CHECK(given.established == 3600);
  CHECK(given.udp_stream == 120);
  CHECK(given.window == TcpWindow::liberal);
}

TEST_CASE("SEM-61: every option is shown, as it is in effect") {
  const auto flags = agent({"--udp-timeout", "90s", "--masquerade-all"}).flags;
  CHECK(flags.at("udp-timeout") == "90");
  CHECK(flags.at("masquerade-all") == "true");
  CHECK(flags.at("tcp-close-wait-timeout") == "3600s");
  CHECK(flags.at("health") == "0.0.0.0:10256");
  CHECK_FALSE(flags.contains("help"));
}

TEST_CASE("pods may be recognised by their devices") {
  CHECK(agent({"--detect-local", "bridge", "--pod-bridge", "cni0"}).detect_local == PodDetector::bridge);
  CHECK(agent({"--detect-local", "prefix", "--pod-devices", "veth"}).detect_local == PodDetector::prefix);
}

TEST_CASE("several devices, or none") {
  CHECK(agent({}).devices.size() == 1);
  const auto several = parse({"agent", "--manifests", "/m", "--devices", "eth0, eth1"});
  CHECK(std::get<Options>(several).agent.devices == std::vector<std::string>{"eth0", "eth1"});
  const auto none = parse({"agent", "--manifests", "/m", "--devices", "none"});
  CHECK(std::get<Options>(none).agent.devices.empty());
}

TEST_CASE("devices may be found, with names beside") {
  const auto with = [](const char* list) {
    return std::get<Options>(parse({"agent", "--manifests", "/m", "--devices", list})).agent;
  };
  const auto alone = with("auto");
  CHECK(alone.uplink_discovery == Discovery::automatic);
  CHECK((alone.devices.empty() && alone.excluded_devices.empty() && alone.serves_uplinks()));
  const auto beside = with("auto, wg0, !eth1");
  CHECK(beside.uplink_discovery == Discovery::automatic);
  CHECK(beside.devices == std::vector<std::string>{"wg0"});
  CHECK(beside.excluded_devices == std::vector<std::string>{"eth1"});
  CHECK(with("eth0").uplink_discovery == Discovery::off);
  CHECK_FALSE(with("none").serves_uplinks());
}

TEST_CASE("pods' devices may be found, with prefixes beside") {
  const auto found = agent({"--pod-devices", "auto,tap", "--detect-local", "prefix"});
  CHECK(found.pod_discovery == Discovery::automatic);
  CHECK(found.pod_devices == std::vector<std::string>{"tap"});
  CHECK(agent({"--pod-devices", "auto", "--detect-local", "prefix"}).serves_pods());
  CHECK_FALSE(agent({}).serves_pods());
}

TEST_CASE("node port addresses") {
  CHECK(agent({"--node-port-addresses", "primary"}).node_port_addresses.scope == NodePortScope::primary);
  const auto ranges = agent({"--node-port-addresses", "10.0.0.0/8,fd00::/8"}).node_port_addresses;
  CHECK(ranges.scope == NodePortScope::ranges);
  REQUIRE(ranges.ranges.size() == 2);
  CHECK(ranges.ranges[0].length == 104);
}

TEST_CASE("external IPs may be limited (REL-51)") {
  CHECK_FALSE(agent({}).external_ips.has_value());
  const auto none = agent({"--external-ips", "none"}).external_ips;
  REQUIRE(none.has_value());
  CHECK(none.value().empty());
  const auto some = agent({"--external-ips", "192.0.2.0/24"}).external_ips;
  REQUIRE(some.has_value());
  CHECK(some.value().size() == 1);
}

TEST_CASE("commands for people") {
  const auto backends = std::get<Options>(parse({"backends", "default/web", "-o", "json", "--pins", "/p"}));
  CHECK(backends.command == Command::backends);
  CHECK(backends.show.service == "default/web");
  CHECK(backends.show.output == Output::json);
  CHECK(backends.show.pins == "/p");
  CHECK(backends.show.gone == Gone::hide);
  CHECK(std::get<Options>(parse({"backends", "default/web", "--all"})).show.gone == Gone::show);
  CHECK(std::get<Options>(parse({"services"})).show.service.empty());
  CHECK(std::get<Options>(parse({"services", "default/web"})).show.service == "default/web");
  const auto flows = std::get<Options>(parse({"flows"}));
  CHECK(flows.command == Command::flows);
  CHECK(flows.show.limit == 100);
  CHECK(std::get<Options>(parse({"flows", "--limit", "0"})).show.limit == 0);
  CHECK(std::get<Options>(parse({"status"})).command == Command::status);
  CHECK(std::get<Options>(parse({"services"})).command == Command::services);
}

TEST_CASE("every mistake gets one message, where to read on, and exit code 1") {
  struct Row {
    std::vector<std::string> arguments;
    std::string says;
  };
  const std::vector<std::string> fine = {"agent", "--manifests", "/m", "--devices", "eth0"};
  const auto with = [&fine](std::vector<std::string> more) {
    auto arguments = fine;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const std::vector<Row> rows = {
      {{}, "a command is missing"},
      {{"frobnicate"}, "'frobnicate' is neither a command nor an option"},
      {{"--frobnicate"}, "'--frobnicate' is neither"},
      {with({"--external-ips", "some"}), "all, none or a list of CIDRs"},
      {with({"--kubeconfig", "/k"}), "--manifests excludes --kubeconfig"},
      {with({"--api-server", "https://a"}), "--manifests excludes --api-server"},
      {with({"--slice-selector", "a"}), "--manifests excludes --slice-selector"},
      {with({"--api-encoding", "cbor"}), "'cbor' is not one of json protobuf"},
      {with({"--service-proxy-name", "my proxy"}), "'my proxy' is not a label's value"},
      {{"agent", "--devices", "eth0", "--api-server", "10.0.0.1"}, "is not the address of an API server"},
      {{"agent", "--devices", "eth0", "--slice-selector", "a in (b"}, "is not a label selector"},
      {{"agent", "--devices", "eth0", "--slice-selector", "a,,b"}, "is not a label selector"},
      {{"agent", "--devices", "eth0", "--slice-selector", "a&watch=false"}, "is not a label selector"},
      {{"agent", "--manifests", "/m"}, "--devices is required"},
      {{"backends"}, "service is required"},
      {with({"--frobnicate"}), "--frobnicate"},
      {with({"--xdp", "fast"}), "'fast' is not one of auto generic native off"},
      {with({"--sockets", "some"}), "'some' is not one of"},
      {with({"--without", "tcx,luck"}), "'luck' is not one of tcx"},
      {with({"--node", "  "}), "not a node name"},
      {with({"--health", "10256"}), "'10256' is not ADDRESS:PORT or off"},
      {with({"--health", "localhost:1"}), "not ADDRESS:PORT"},
      {with({"--metrics", "::1:80"}), "not ADDRESS:PORT"},
      {with({"--metrics", "127.0.0.1:65536"}), "not ADDRESS:PORT"},
      {with({"--source-ports", "5000"}), "ascending ranges"},
      {with({"--source-ports", "1-2,3-4,5-6"}), "ascending ranges"},
      {with({"--source-ports", "500-600,100-200"}), "ascending ranges"},
      {with({"--source-ports", "0-10"}), "ascending ranges"},
      {with({"--node-port-addresses", "10.0.0.0/8,web"}), "list of CIDRs"},
      {with({"--max-slots", "0"}), "--max-slots"},
      {with({"--max-flows", "many"}), "--max-flows"},
      {with({"--detect-local", "bridge"}),
       "--detect-local bridge needs the pods' bridge; name it with --pod-bridge"},
      {with({"--detect-local", "bridge", "--pod-devices", "veth"}), "name it with --pod-bridge"},
      {with({"--detect-local", "prefix"}), "say it with --pod-devices"},
      {with({"--detect-local", "prefix", "--pod-devices", "none"}), "say it with --pod-devices"},
      {with({"--log-level", "loud"}), "'loud' is not one of"},
      {{"agent", "--manifests", "/m", "--devices", ","}, "names no device"},
      {{"agent", "--manifests", "/m", "--devices", "a-name-of-16-byt"}, "too long"},
      {with({"--pins", "/sys/fs/bpf/my.pins"}), "'/sys/fs/bpf/my.pins' contains a dot"},
      {with({"--pins", "/sys/fs/bpf/my.pins/"}), "'/sys/fs/bpf/my.pins/' contains a dot"},
      {{"flows", "-o", "yaml"}, "'yaml' is not one of json table"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.says);
    const auto result = parse(row.arguments);
    REQUIRE(std::holds_alternative<Finished>(result));
    const auto& finished = std::get<Finished>(result);
    CHECK(finished.exit_code == 2);
    CHECK_THAT(finished.text, ContainsSubstring(row.says));
    CHECK_THAT(finished.text, ContainsSubstring("--help'\n"));
    CHECK(std::count(finished.text.begin(), finished.text.end(), '\n') == 1);
  }
}

TEST_CASE("SEM-85 a host without a name needs --node") {
  const auto result = parse_command_line({"agent", "--manifests", "/m", "--devices", "eth0"}, " ");
  CHECK(std::get<Finished>(result).exit_code == 2);
  CHECK_THAT(std::get<Finished>(result).text, ContainsSubstring("--node"));
}

TEST_CASE("help and version end well, and help shows examples") {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--help"},
                                                    {"agent", "--help"},
                                                    {"status", "--help"},
                                                    {"alive", "--help"},
                                                    {"flows", "--help"},
                                                    {"backends", "--help"}}) {
    const auto finished = std::get<Finished>(parse(arguments));
    CHECK(finished.exit_code == 0);
    CHECK_THAT(finished.text, ContainsSubstring("Examples:"));
    // A subcommand without a footer would inherit the list of all commands.
    CHECK((finished.text.find("sluice COMMAND --help") != std::string::npos) == (arguments.size() == 1));
  }
  const auto version = std::get<Finished>(parse({"--version"}));
  CHECK(version.exit_code == 0);
  CHECK_THAT(version.text, ContainsSubstring("sluice " SLUICE_VERSION));
}

}  // namespace
