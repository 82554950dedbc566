// SPDX-License-Identifier: Apache-2.0
// Services from JSON: what each field means and what is skipped (SEM-1, 9, 14, 16, 20, 37, 83, 89; REL-51).
#include "decode.hpp"

using namespace lb::k8s;
using namespace lb::k8s::testing;

TEST_CASE("k8s decode: a whole Service") {
  const auto decoded = decode(service_json(
      R"("type":"LoadBalancer","clusterIP":"10.96.0.1","clusterIPs":["10.96.0.1","fd00::1"],)"
      R"("ipFamilies":["IPv4","IPv6"],"externalIPs":["192.0.2.1"],"loadBalancerSourceRanges":[" 10.0.0.0/8 "],)"
      R"("internalTrafficPolicy":"Local","externalTrafficPolicy":"Local","healthCheckNodePort":30999,)"
      R"("sessionAffinity":"ClientIP","sessionAffinityConfig":{"clientIP":{"timeoutSeconds":60}},)"
      R"("ports":[{"name":"http","protocol":"TCP","port":80,"targetPort":"x","nodePort":30080},)"
      R"({"name":"dns","protocol":"UDP","port":53}],"selector":{"a":"b"})",
      R"(,"status":{"loadBalancer":{"ingress":[{"ip":"198.51.100.1"},{"ip":"198.51.100.2","ipMode":"Proxy"},)"
      R"({"hostname":"x.example"},{"ip":"198.51.100.3","ipMode":"VIP"}]}})",
      R"(,"uid":"u-1","creationTimestamp":"2026-01-02T03:04:05Z","managedFields":[{"fieldsV1":{"f:spec":{}}}])"));
  const auto service = service_of(decoded);
  CHECK(problems_of(decoded).empty());
  CHECK(service.key.text() == "shop/web");
  CHECK(service.uid == "u-1");
  CHECK(service.created == 1767323045);
  CHECK(service.type == ServiceType::load_balancer);
  CHECK_FALSE(service.headless);
  CHECK(joined(service.cluster_ips) == "10.96.0.1,fd00::1");
  CHECK(joined(service.external_ips) == "192.0.2.1");
  CHECK(joined(service.load_balancer_ips) == "198.51.100.1,198.51.100.3");
  REQUIRE(service.source_ranges.size() == 1);
  CHECK(service.source_ranges[0].text() == "10.0.0.0/8");
  CHECK(service.internal_policy == TrafficPolicy::local);
  CHECK(service.external_policy == TrafficPolicy::local);
  CHECK(service.health_check_node_port == 30999);
  CHECK(service.affinity_seconds == 60);
  REQUIRE(service.ports.size() == 2);
  CHECK(service.ports[0] == ServicePort{"http", Protocol::tcp, 80, 30080});
  CHECK(service.ports[1] == ServicePort{"dns", Protocol::udp, 53, 0});
}

TEST_CASE("SEM-9 cluster addresses follow ipFamilies") {
  struct Row {
    const char* spec;
    const char* from_api;
    const char* from_manifest;
  };
  const Row rows[] = {
      {R"("clusterIP":"10.0.0.1")", "10.0.0.1", "10.0.0.1"},
      {R"("clusterIP":"fd00::1")", "fd00::1", "fd00::1"},
      {R"("clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],"ipFamilies":["IPv4"])", "10.0.0.1", "10.0.0.1"},
      {R"("clusterIP":"fd00::1","clusterIPs":["fd00::1","10.0.0.1"],"ipFamilies":["IPv6","IPv4"])",
       "fd00::1,10.0.0.1", "fd00::1,10.0.0.1"},
      {R"("clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1","fd00::1"])", "10.0.0.1", "10.0.0.1,fd00::1"},
      {R"("clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1","fd00::1"],"ipFamilies":["IPv4"])", "10.0.0.1",
       "10.0.0.1"},
      {R"("clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],"ipFamilies":["IPv6"])", "", ""},
      {R"("clusterIP":"10.0.0.1","ipFamilies":["IPv4"])", "10.0.0.1", "10.0.0.1"},
      {R"("clusterIP":"010.0.0.001")", "10.0.0.1", "10.0.0.1"},
      {R"("clusterIPs":["10.0.0.1","10.0.0.2"])", "10.0.0.1", "10.0.0.1"},
      {R"("clusterIP":"127.0.0.1")", "", ""},
      {R"("clusterIP":"10.0.0.300")", "", ""},
  };
  for (const auto& row : rows) {
    CAPTURE(row.spec);
    const auto api = service_of(decode(service_json(row.spec)));
    CHECK(joined(api.cluster_ips) == row.from_api);
    CHECK_FALSE(api.headless);
    CHECK(joined(service_of(decode(service_json(row.spec), Origin::manifest)).cluster_ips) ==
          row.from_manifest);
  }
}

TEST_CASE("SEM-1 headless and other proxies' Services are marked") {
  for (const auto* spec : {R"("clusterIP":"None")", R"("clusterIP":"")", "", R"("clusterIPs":["None"])"}) {
    CAPTURE(spec);
    CHECK(service_of(decode(service_json(spec))).headless);
  }
  CHECK(service_of(decode(service_json(R"("type":"ExternalName","externalName":"x")"))).type ==
        ServiceType::external_name);
  const auto other = service_of(decode(service_json(
      R"("clusterIP":"10.0.0.1")", "", R"(,"labels":{"service.kubernetes.io/service-proxy-name":"mesh"})")));
  CHECK(other.other_proxy);
  CHECK(other.proxy_name == "mesh");
}

TEST_CASE("SEM-20 policies only where they count") {
  struct Row {
    const char* spec;
    const char* status;
    TrafficPolicy external;
  };
  const auto* none = "";
  const auto* ingress = R"(,"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.9"}]}})";
  const auto* proxied = R"(,"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.9","ipMode":"Proxy"}]}})";
  const auto local = TrafficPolicy::local;
  const auto cluster = TrafficPolicy::cluster;
  const Row rows[] = {
      {R"("externalTrafficPolicy":"Local")", none, cluster},
      {R"("externalTrafficPolicy":"Local","externalIPs":["192.0.2.1"])", none, local},
      {R"("type":"NodePort","externalTrafficPolicy":"Local","ports":[{"port":80,"nodePort":30080}])", none,
       local},
      {R"("type":"LoadBalancer","externalTrafficPolicy":"Local")", none, local},
      {R"("type":"LoadBalancer","externalTrafficPolicy":"Cluster")", ingress, cluster},
      {R"("type":"LoadBalancer")", proxied, cluster},
      {R"("externalTrafficPolicy":"Local")", ingress, cluster},
      {R"("ports":[{"port":80,"nodePort":30080}])", none, cluster},
  };
  for (const auto& row : rows) {
    CAPTURE(row.spec, row.status);
    const auto service = service_of(decode(service_json(row.spec, row.status)));
    CHECK(service.external_policy == row.external);
  }
}

TEST_CASE("k8s decode: topology keys from the annotation, and from the field in manifests only") {
  struct Row {
    const char* annotation;  // nullptr: no annotation
    const char* field;
    const char* from_api;
    const char* from_manifest;
  };
  const Row rows[] = {
      {nullptr, R"(["a","*"])", "", "a|*"},
      {"a, b ,*", R"(["c"])", "a|b|*", "a|b|*"},
      {"a,,b", "[]", "a|b", "a|b"},
      {"a,*,b", "[]", "a|*", "a|*"},
      {"a,a", "[]", "a", "a"},
      {"", "[]", "", ""},
      {"1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18", "[]", "1|2|3|4|5|6|7|8|9|10|11|12|13|14|15|16",
       "1|2|3|4|5|6|7|8|9|10|11|12|13|14|15|16"},
  };
  for (const auto& row : rows) {
    const auto json = service_json(
        fmt::format(R"("clusterIP":"10.0.0.1","topologyKeys":{})", row.field), "",
        row.annotation == nullptr
            ? ""
            : fmt::format(R"(,"annotations":{{"sluice.lb/topology-keys":"{}"}})", row.annotation));
    CAPTURE(json);
    const auto keys = [&](Origin origin) {
      return fmt::format("{}", fmt::join(service_of(decode(json, origin)).topology_keys, "|"));
    };
    CHECK(keys(Origin::api_server) == row.from_api);
    CHECK(keys(Origin::manifest) == row.from_manifest);
  }
  const auto local =
      decode(service_json(R"("type":"NodePort","externalTrafficPolicy":"Local","topologyKeys":["*"])"),
             Origin::manifest);
  CHECK(service_of(local).topology_keys.empty());
  CHECK(problems_of(local).find("do not go together") != std::string::npos);
}

TEST_CASE("k8s decode: the annotation that asks for consistent selection") {
  const auto decoded = [](const char* annotation) {
    return decode(service_json(R"("clusterIP":"10.0.0.1")", "",
                               fmt::format(R"(,"annotations":{{"sluice.lb/selection":"{}"}})", annotation)),
                  Origin::api_server);
  };
  CHECK(service_of(decoded("consistent")).selection == Selection::consistent);
  CHECK(service_of(decoded(" maglev ")).selection == Selection::consistent);
  CHECK(service_of(decoded("random")).selection == Selection::random);
  CHECK(problems_of(decoded("random")).empty());
  CHECK(service_of(decode(service_json(R"("clusterIP":"10.0.0.1")"), Origin::api_server)).selection ==
        Selection::unsaid);
  CHECK(service_of(decoded("Maglev")).selection == Selection::random);
  CHECK(problems_of(decoded("Maglev")).find("neither random nor consistent") != std::string::npos);
}

TEST_CASE("k8s decode: what a Service loses, and what is said about it") {
  struct Row {
    const char* spec;
    const char* problem;
  };
  const Row rows[] = {
      {R"("ports":[{"port":0}])", "/spec/ports/0/port 0 is not in 1 to 65535"},
      {R"("ports":[{"port":80},{"name":"b","port":65536}])", "/spec/ports/1/port 65536 is not in 1 to 65535"},
      {R"("ports":[{"port":-1}])", "/spec/ports/0/port -1 is not in 1 to 65535"},
      {R"("ports":[{}])", "/spec/ports/0/port is missing"},
      {R"("ports":[{"port":"80"}])", "/spec/ports/0/port is a string where a whole number is expected"},
      {R"("ports":[{"port":80.5}])", "/spec/ports/0/port is a number with a fraction"},
      {R"("ports":[{"port":80,"port":81}])", "/spec/ports/0/port is given twice"},
      {R"("ports":[{"port":80,"protocol":"tcp"}])", "/spec/ports/0/protocol \"tcp\" is not TCP, UDP or SCTP"},
      {R"("ports":[{"port":80,"name":"A/B"}])", "/spec/ports/0/name \"A/B\" is not a port name"},
      {R"("ports":[{"port":80,"name":"a"},{"port":81,"name":"a"}])", "/spec/ports/1 another port"},
      {R"("ports":[{"port":80,"name":"a"},{"port":80,"name":"b"}])", "/spec/ports/1 another port"},
      {R"("ports":[7])", "/spec/ports/0 is a number where an object"},
      {R"("ports":[{"port":80,"nodePort":70000}])", "/spec/ports/0/nodePort 70000"},
      {R"("type":"Magic")", "/spec/type \"Magic\""},
      {R"("sessionAffinity":"Cookie")", "/spec/sessionAffinity \"Cookie\""},
      {R"("sessionAffinity":"ClientIP","sessionAffinityConfig":{"clientIP":{"timeoutSeconds":0}})",
       "taken as 10800"},
      {R"("internalTrafficPolicy":"local")", "/spec/internalTrafficPolicy \"local\""},
      {R"("externalIPs":["x"])", "/spec/externalIPs/0 \"x\" is not an IP address"},
      {R"("externalIPs":["10.0.0.1","127.0.0.1"])", "/spec/externalIPs/1 \"127.0.0.1\" cannot be"},
      {R"("externalIPs":["169.254.169.254"])", "/spec/externalIPs/0 \"169.254.169.254\" is link-local"},
      {R"("externalIPs":[7])", "/spec/externalIPs/0 is a number where a string"},
      {R"("loadBalancerSourceRanges":["10.0.0.0"])", "/spec/loadBalancerSourceRanges/0 \"10.0.0.0\""},
  };
  for (const auto& row : rows) {
    CAPTURE(row.spec);
    const auto decoded = decode(service_json(fmt::format(R"("clusterIP":"10.0.0.1",{})", row.spec)));
    CHECK(joined(service_of(decoded).cluster_ips) == "10.0.0.1");
    REQUIRE(decoded.problems.size() == 1);
    CHECK(problems_of(decoded).find(row.problem) == 0 + problems_of(decoded).find(row.problem));
    CHECK(problems_of(decoded).find(row.problem) != std::string::npos);
  }
}

TEST_CASE("k8s decode: a good port beside a bad one stays") {
  const auto service = service_of(decode(service_json(R"("ports":[{"port":0},{"name":"b","port":81}])")));
  REQUIRE(service.ports.size() == 1);
  CHECK(service.ports[0].port == 81);
}
