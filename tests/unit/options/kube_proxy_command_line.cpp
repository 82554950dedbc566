// SPDX-License-Identifier: Apache-2.0
// The command lines with which installers start kube-proxy, for an agent in its place (SEM-68).
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "agent/options/config.hpp"
#include "agent/options/kube_proxy_flags.hpp"
#include "tests/unit/options/kube_proxy_config.hpp"

namespace {

using namespace lb::config_test;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("SEM-68: kubeadm's files run as they are") {
  for (const auto* release : {"kubeadm-1.36.yaml", "kubeadm-1.37.yaml"}) {
    INFO(release);
    const auto options = good(called({"--config=" + corpus + release, "--hostname-override=Node-1"}));
    CHECK(options.kubeconfig == "/var/lib/kube-proxy/kubeconfig.conf");
    CHECK(options.node == "node-1");
    CHECK(options.devices == std::vector<std::string>{"eth0", "eth1"});
    CHECK(options.detect_local == PodDetector::cluster_cidr);
    CHECK(options.cluster_cidrs.size() == 2);
    CHECK(options.health == Listen{"0.0.0.0", 10256});
    CHECK(options.metrics == Listen{"127.0.0.1", 10249});
    CHECK(options.conntrack == ConntrackSettings{});
    CHECK(options.remarks.empty());
    CHECK(options.config_file.path == corpus + release);
  }
}

TEST_CASE("SEM-68: in kube-proxy's place pods' devices are found, unless some are named") {
  const auto plain = good(called({"--config=" + corpus + "kubeadm-1.37.yaml"}));
  CHECK(plain.pod_discovery == Discovery::automatic);
  CHECK(plain.pod_devices.empty());
  CHECK(good(called({})).pod_discovery == Discovery::automatic);
  const TemporaryFile file(
      head + "detectLocalMode: InterfaceNamePrefix\ndetectLocal: {interfaceNamePrefix: cali}\n");
  for (const auto& named :
       {good(called({"--config=" + file.path()})),
        good(called({"--detect-local-mode=InterfaceNamePrefix", "--pod-interface-name-prefix=cali"})),
        good(called({"--pod-devices=cali"}))}) {
    CHECK(named.pod_discovery == Discovery::off);
    CHECK(named.pod_devices == std::vector<std::string>{"cali"});
    CHECK(named.remarks.empty());
  }
  CHECK_FALSE(good(called({"--pod-devices=none"})).serves_pods());
}

TEST_CASE("SEM-63: a start-up taint is Sluice's own option beside kubeadm's file") {
  const auto options =
      good(called({"--config=" + corpus + "kubeadm-1.37.yaml", "--startup-taint=sluice.lb/starting"}));
  CHECK(options.startup_taint == "sluice.lb/starting");
  CHECK(options.remarks.empty());
}

TEST_CASE("SEM-68: kubespray's file runs as it is") {
  const auto options = good(called({"--config", corpus + "kubespray.yaml", "-v=2"}));
  CHECK(options.node == "node1");
  CHECK(prefixes(options.cluster_cidrs) == std::vector<std::string>{"10.233.64.0/18"});
  CHECK(options.selection == lb::k8s::Selection::random);
  CHECK(options.oom_score_adj == -999);
  CHECK(options.conntrack == ConntrackSettings{});
  CHECK(options.remarks.empty());
}

TEST_CASE("SEM-68: the flags of k3s and RKE2 run as they are") {
  for (const auto* name : {"k3s", "rke2"}) {
    INFO(name);
    const auto options = good(called(lines_of(corpus + name + ".flags")));
    CHECK(options.kubeconfig == fmt::format("/var/lib/rancher/{}/agent/kubeproxy.kubeconfig", name));
    CHECK(options.node == "worker-1");
    CHECK(options.health == Listen{"127.0.0.1", 10256});
    CHECK(options.cluster_cidrs.size() == (name == std::string("k3s") ? 1 : 2));
    CHECK(options.conntrack.max_per_core == 0);
    CHECK(options.conntrack.established == 0);
    CHECK(options.conntrack.close_wait == 0);
    CHECK(options.config_file.path.empty());
    CHECK(options.remarks.empty());
  }
}

TEST_CASE("SEM-68: a process called kube-proxy takes its flags") {
  CHECK(is_kube_proxy_name("/usr/local/bin/kube-proxy"));
  CHECK(is_kube_proxy_name("kube-proxy"));
  CHECK_FALSE(is_kube_proxy_name("/usr/bin/sluice"));
  const auto options = good(called(
      {"--proxy-mode", "nftables", "--masquerade_all", "--nodeport-addresses=10.0.0.0/8,localhost", "-v2",
       "--logging-format=json", "--master", "https://192.0.2.1:6443", "--bind-address-hard-fail=true",
       "--conntrack-tcp-timeout-established=1h0m0s", "--oom-score-adj=-5", "--profiling=false", "",
       "--devices=eth7", "--xdp", "off", "--iptables-sync-period=1m"}));
  CHECK(options.masquerade == Masquerade::all);
  CHECK(options.node_port_addresses.ranges.size() == 3);
  CHECK(options.log_format == LogFormat::json);
  CHECK(options.api_servers == std::vector<std::string>{"https://192.0.2.1:6443"});
  CHECK(options.bind_failure == BindFailure::fatal);
  CHECK(options.conntrack.established == 3600);
  CHECK(options.oom_score_adj == -5);
  CHECK(options.devices == std::vector<std::string>{"eth7"});
  CHECK(options.xdp == XdpMode::off);
  CHECK(says(options, LogLevel::info, "nftables.syncPeriod is without effect"));
  CHECK_FALSE(good(called({"--healthz-port=0"})).health.has_value());
  CHECK(good(called({"--healthz-port=1", "--healthz-bind-address=127.0.0.1"})).health ==
        Listen{"127.0.0.1", 1});
  CHECK(good(called({"--healthz-port=1"})).health == Listen{"0.0.0.0", 10256});
  CHECK_FALSE(good(called({"--metrics-port", "0"})).metrics.has_value());
  CHECK(good(called({"--init-only"})).init_only);
}

TEST_CASE("SEM-68, REL-51: --feature-gates, once or several times, as by pflag") {
  const std::vector<lb::k8s::Prefix> none;
  CHECK(good(called({"--feature-gates=AllowServiceExternalIPs=false"})).external_ips == none);
  CHECK(good(called({"--feature-gates", "AllAlpha=true, AllowServiceExternalIPs = f"})).external_ips == none);
  CHECK(good(called({"--feature-gates=AllowServiceExternalIPs=false", "--feature-gates=AllBeta=true"}))
            .external_ips == none);
  CHECK_FALSE(good(called({"--feature-gates=AllowServiceExternalIPs=false",
                           "--feature-gates=AllowServiceExternalIPs=true"}))
                  .external_ips.has_value());
  CHECK_FALSE(good(called({"--feature-gates=AllBeta=false"})).external_ips.has_value());
  const auto explicitly =
      good(called({"--feature-gates=AllowServiceExternalIPs=false", "--external-ips=192.0.2.0/24"}));
  REQUIRE(explicitly.external_ips.has_value());
  CHECK(prefixes(*explicitly.external_ips) == std::vector<std::string>{"192.0.2.0/24"});
  CHECK(good(called({"--nodeport-addresses=10.0.0.0/8", "--nodeport-addresses=192.0.2.0/24"}))
            .node_port_addresses.ranges.size() == 2);
  const TemporaryFile file(head + "featureGates: {AllowServiceExternalIPs: false}\n");
  const auto beside =
      good(called({"--config=" + file.path(), "--feature-gates=AllowServiceExternalIPs=true"}));
  CHECK(beside.external_ips == none);
  CHECK(says(beside, LogLevel::warning, "--feature-gates is ignored, as by kube-proxy"));
}

TEST_CASE("SEM-68: flags beside a file") {
  const TemporaryFile file(head + "mode: iptables\nlogging: {verbosity: 9}\nclusterCIDR: 10.1.0.0/16\n");
  const auto options = good(called({"--config=" + file.path(), "--cluster-cidr=10.2.0.0/16", "--v=1",
                                    "--hostname-override=x", "--kubeconfig=/ignored"}));
  CHECK(prefixes(options.cluster_cidrs) == std::vector<std::string>{"10.1.0.0/16"});
  CHECK(options.log_level == LogLevel::info);
  CHECK(options.node == "x");
  CHECK(options.kubeconfig.empty());
  CHECK(says(options, LogLevel::warning, "--cluster-cidr is ignored, as by kube-proxy"));
  CHECK(says(options, LogLevel::warning, "--kubeconfig is ignored, as by kube-proxy"));
  CHECK(good(called({"--config=" + file.path()})).log_level == LogLevel::debug);
}

TEST_CASE("SEM-68: kube-proxy's other flags, and mistakes") {
  const auto cleanup = called({"--cleanup", "--pins", "/sys/fs/bpf/other"});
  REQUIRE(std::holds_alternative<Options>(cleanup));
  CHECK(std::get<Options>(cleanup).command == Command::cleanup);
  CHECK(std::get<Options>(cleanup).cleanup.pins == "/sys/fs/bpf/other");
  const auto version = called({"--version"});
  REQUIRE(std::holds_alternative<Finished>(version));
  CHECK(std::get<Finished>(version).exit_code == 0);
  const auto help = called({"-h"});
  REQUIRE(std::holds_alternative<Finished>(help));
  CHECK_THAT(std::get<Finished>(help).text,
             ContainsSubstring("--nodeport-addresses") && ContainsSubstring("without effect") &&
                 ContainsSubstring("--external-ips: AllowServiceExternalIPs=false is none"));
  CHECK_THAT(refused_call(called({"--write-config-to=/tmp/x"})),
             ContainsSubstring("--write-config-to is not supported"));
  CHECK_THAT(refused_call(called({"--no-such-flag=1"})), ContainsSubstring("--no-such-flag"));
  CHECK_THAT(refused_call(called({"--conntrack-min=many"})),
             ContainsSubstring("--conntrack-min is 'many'; write a whole number"));
  CHECK_THAT(refused_call(called({"--proxy-mode=userspace"})),
             ContainsSubstring("the flags: mode is 'userspace'"));
  CHECK_THAT(refused_call(called({"--config"})), ContainsSubstring("--config needs a value"));
  CHECK_THAT(refused_call(called({"surprise"})), ContainsSubstring("surprise"));
  CHECK_THAT(refused_call(parse_kube_proxy_command_line({}, "host", "")), ContainsSubstring("--devices"));
}

}  // namespace
