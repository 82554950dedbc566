// SPDX-License-Identifier: Apache-2.0
// EndpointSlices and Nodes from JSON: conditions, zones and nodes, what is skipped or absent (SEM-2, 4;
// REL-52).
#include "decode.hpp"

using namespace lb::k8s;
using namespace lb::k8s::testing;

TEST_CASE("SEM-4 endpoints: conditions and their defaults") {
  struct Row {
    const char* conditions;
    bool ready, serving, terminating;
  };
  const Row rows[] = {
      {"", true, true, false},
      {R"(,"conditions":{})", true, true, false},
      {R"(,"conditions":null)", true, true, false},
      {R"(,"conditions":{"ready":null})", true, true, false},
      {R"(,"conditions":{"ready":false})", false, true, false},
      {R"(,"conditions":{"ready":false,"serving":true,"terminating":true})", false, true, true},
      {R"(,"conditions":{"serving":false})", true, false, false},
  };
  for (const auto& row : rows) {
    CAPTURE(row.conditions);
    const auto slice =
        slice_of(decode(endpoints_json(fmt::format(R"({{"addresses":["10.0.0.1"]{}}})", row.conditions))));
    REQUIRE(slice.endpoints.size() == 1);
    CHECK(slice.endpoints[0].ready == row.ready);
    CHECK(slice.endpoints[0].serving == row.serving);
    CHECK(slice.endpoints[0].terminating == row.terminating);
  }
}

TEST_CASE("SEM-4 endpoints: which are skipped, alone") {
  struct Row {
    const char* endpoint;
    const char* problem;
  };
  const Row rows[] = {
      {R"({})", "/endpoints/1/addresses is missing"},
      {R"({"addresses":[]})", "/endpoints/1/addresses is missing or empty"},
      {R"({"addresses":["x"]})", "\"x\" is not an IP address"},
      {R"({"addresses":[7]})", "is a number where a string"},
      {R"({"addresses":"10.0.0.2"})", "is a string where a list"},
      {R"({"addresses":["127.0.0.1"]})", "\"127.0.0.1\" cannot be an endpoint's"},
      {R"({"addresses":["169.254.169.254"]})", "\"169.254.169.254\" cannot be"},
      {R"({"addresses":["0.0.0.0"]})", "cannot be"},
      {R"({"addresses":["224.0.0.1"]})", "cannot be"},
      {R"({"addresses":["255.255.255.255"]})", "cannot be"},
      {R"({"addresses":["::ffff:127.0.0.1"]})", "cannot be"},
      {R"({"addresses":["fd00::2"]})", "/endpoints 1 of them not of the slice's addressType, fd00::2 first"},
      {R"({"addresses":["10.0.0.2"],"conditions":{"ready":"false"}})",
       "/endpoints/1/conditions/ready is a string"},
      {R"({"addresses":["10.0.0.2"],"conditions":[]})", "/endpoints/1/conditions is a list"},
      {R"({"addresses":["10.0.0.2"],"zone":"a b"})", "is not a label value"},
      {R"({"addresses":["10.0.0.2"],"nodeName":"a\u0000"})", "is not a label value"},
      {R"({"addresses":["10.0.0.2"],"addresses":["10.0.0.3"]})", "is given twice"},
      {R"([])", "/endpoints/1 is a list where an object"},
      {R"(null)", "/endpoints/1 is null where an object"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.endpoint);
    const auto decoded = decode(endpoints_json(
        fmt::format(R"({{"addresses":["10.0.0.1"]}},{},{{"addresses":["10.0.0.9"]}})", row.endpoint)));
    const auto slice = slice_of(decoded);
    REQUIRE(slice.endpoints.size() == 2);
    CHECK(slice.endpoints[0].address.text() == "10.0.0.1");
    CHECK(slice.endpoints[1].address.text() == "10.0.0.9");
    CAPTURE(problems_of(decoded));
    CHECK(decoded.problems.size() == 1);
    CHECK(problems_of(decoded).find(row.problem) != std::string::npos);
  }
}

TEST_CASE("k8s decode: places, hints and topology of an endpoint") {
  const auto decoded = decode(endpoints_json(
      R"({"addresses":["010.0.0.1","10.0.0.2"],"nodeName":"n1","zone":"z1","hostname":"h",)"
      R"("hints":{"forZones":[{"name":"z1"},{"name":"z2"}],"forNodes":[{"name":"n1"}]},)"
      R"("deprecatedTopology":{"kubernetes.io/hostname":"other","topology.kubernetes.io/zone":"z9","rack":"r1"}})"));
  CHECK(problems_of(decoded).empty());
  const auto slice = slice_of(decoded);
  REQUIRE(slice.endpoints.size() == 1);
  const auto& endpoint = slice.endpoints[0];
  CHECK(endpoint.address.text() == "10.0.0.1");
  CHECK(endpoint.node_name == "n1");
  CHECK(endpoint.zone == "z1");
  CHECK(endpoint.hint_zones == std::vector<std::string>{"z1", "z2"});
  CHECK(endpoint.hint_nodes == std::vector<std::string>{"n1"});
  REQUIRE(endpoint.topology.size() == 1);
  CHECK(endpoint.topology[0] == std::pair<std::string, std::string>("rack", "r1"));

  const auto beta = slice_of(decode(
      R"({"apiVersion":"discovery.k8s.io/v1beta1","kind":"EndpointSlice","metadata":{"name":"a","namespace":"b",)"
      R"("labels":{"kubernetes.io/service-name":"web"}},"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1"],)"
      R"("topology":{"kubernetes.io/hostname":"n1","topology.kubernetes.io/zone":"z1"}}]})"));
  CHECK(beta.endpoints.at(0).node_name == "n1");
  CHECK(beta.endpoints.at(0).zone == "z1");
}

TEST_CASE("SEM-2, SEM-4 slices: which are as absent, and what is said") {
  struct Row {
    std::string json;
    const char* problem;  // expected problem; empty: none
  };
  const auto* metadata = R"({"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":)"
                         R"({"name":"a","namespace":"b","labels":{)";
  const Row rows[] = {
      {fmt::format(
           R"({}"kubernetes.io/service-name":"web","service.kubernetes.io/headless":""}}}},"addressType":"IPv4"}})",
           metadata),
       ""},
      {fmt::format(R"({}"kubernetes.io/service-name":"web"}}}},"addressType":"FQDN"}})", metadata), ""},
      {fmt::format(R"({}"kubernetes.io/service-name":"web"}}}},"addressType":"IPX"}})", metadata), "\"IPX\""},
      {fmt::format(R"({}"kubernetes.io/service-name":"web"}}}}}})", metadata), "/addressType is missing"},
      {fmt::format(R"({}}}}},"addressType":"IPv4"}})", metadata), "no label kubernetes.io/service-name"},
      {fmt::format(R"({}"kubernetes.io/service-name":""}}}},"addressType":"IPv4"}})", metadata), "no label"},
      {fmt::format(R"({}"kubernetes.io/service-name":"a/b"}}}},"addressType":"IPv4"}})", metadata),
       "not a service's name"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.json);
    const auto decoded = decode(row.json);
    CHECK(decoded.result == DecodeResult::absent);
    CHECK(decoded.key.text() == "b/a");
    CHECK_FALSE(decoded.object);
    CHECK(problems_of(decoded).empty() == std::string(row.problem).empty());
    CHECK(problems_of(decoded).find(row.problem) != std::string::npos);
  }
}

TEST_CASE("k8s decode: ports, family and weight of a slice") {
  const auto decoded = decode(slice_json(
      R"("endpoints":[{"addresses":["fd00::1"]}],"addressType":"IPv6","ports":[{"name":"a","port":80},)"
      R"({"name":"b","port":53,"protocol":"UDP"},{"port":81},{"name":"c","port":null},{"name":"a","port":82}])",
      R"(,"annotations":{"sluice.lb/weight":"7"})"));
  const auto slice = slice_of(decoded);
  CHECK(slice.family == Family::ipv6);
  CHECK(slice.weight == 7);
  REQUIRE(slice.ports.size() == 2);
  CHECK(slice.ports[0] == EndpointPort{"a", Protocol::tcp, 80});
  CHECK(slice.ports[1] == EndpointPort{"b", Protocol::udp, 53});
  CHECK(decoded.problems.size() == 3);

  const auto weight = [](const char* text) {
    return decode(slice_json(R"("addressType":"IPv4")",
                             fmt::format(R"(,"annotations":{{"sluice.lb/weight":"{}"}})", text)));
  };
  CHECK(slice_of(weight("0")).weight == 0);
  CHECK(slice_of(weight("100")).weight == 100);
  for (const auto* bad : {"101", "-1", "", "x", "1.5", "99999999999999999999"}) {
    CAPTURE(bad);
    CHECK(slice_of(weight(bad)).weight == 1);
    CHECK(weight(bad).problems.size() == 1);
  }
  const auto unnamed = slice_json(R"("addressType":"IPv4","ports":[{"port":80}])");
  CHECK(slice_of(decode(unnamed)).ports.empty());
  CHECK(slice_of(decode(unnamed, Origin::manifest)).ports.size() == 1);
}

TEST_CASE("SEM-64: when a slice's change was caused, if that is a time") {
  const auto annotated = [](const char* text) {
    return decode(slice_json(
        R"("addressType":"IPv4")",
        fmt::format(R"(,"annotations":{{"endpoints.kubernetes.io/last-change-trigger-time":"{}"}})", text)));
  };
  CHECK(slice_of(annotated("2026-11-21T20:00:00.123456Z")).triggers ==
        std::vector<std::int64_t>{1795291200'123456000});
  CHECK(annotated("2026-11-21T20:00:00Z").problems.empty());
  CHECK(slice_of(decode(slice_json(R"("addressType":"IPv4")"))).triggers.empty());
  CHECK(slice_of(annotated("yesterday")).triggers.empty());
  CHECK(annotated("yesterday").problems.size() == 1);
}

TEST_CASE("k8s decode: a Node") {
  const auto decoded = decode(
      R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"n1","labels":{"b":"2","a":"1","b":"3"}},)"
      R"("spec":{"podCIDR":"10.1.0.0/24","podCIDRs":["10.1.0.0/24","fd01::/64","x"]},)"
      R"("status":{"addresses":[{"type":"Hostname","address":"n1"},{"type":"InternalIP","address":"192.0.2.1"},)"
      R"({"type":"ExternalIP","address":"198.51.100.1"},{"type":"InternalIP","address":"?"}]}})");
  REQUIRE(decoded.result == DecodeResult::object);
  const auto& node = std::get<Node>(decoded.object.value());
  CHECK(node.name == "n1");
  using Labels = std::vector<std::pair<std::string, std::string>>;
  CHECK(node.labels == Labels{{"a", "1"}, {"b", "3"}});
  CHECK(joined(node.internal_ips) == "192.0.2.1");
  CHECK(joined(node.external_ips) == "198.51.100.1");
  REQUIRE(node.pod_cidrs.size() == 2);
  CHECK(
      problems_of(decoded) ==
      "/spec/podCIDRs/2 \"x\" is not an address range\n/status/addresses/3/address \"?\" is not an address");
  const auto single =
      decode(R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},"spec":{"podCIDR":"10.0.0.0/8"}})");
  CHECK(std::get<Node>(single.object.value()).pod_cidrs.size() == 1);
}

TEST_CASE("SEM-59: a Node that is being deleted or scaled away is leaving") {
  struct Row {
    const char* metadata;
    const char* spec;
    bool leaving;
  };
  const Row rows[] = {
      {"", "", false},
      {R"(,"deletionTimestamp":"2026-01-02T03:04:05Z")", "", true},
      {R"(,"deletionTimestamp":null)", "", false},
      {"", R"("taints":[{"key":"node.kubernetes.io/unreachable","effect":"NoExecute"}])", false},
      {"", R"("taints":[{"key":"x"},{"key":"ToBeDeletedByClusterAutoscaler","effect":"NoSchedule"}])", true},
      {"", R"("taints":[{"key":"ToBeDeletedByClusterAutoscaler","effect":"PreferNoSchedule"}])", true},
  };
  for (const auto& row : rows) {
    CAPTURE(row.metadata, row.spec);
    const auto decoded = decode(
        fmt::format(R"({{"apiVersion":"v1","kind":"Node","metadata":{{"name":"n1"{}}},"spec":{{{}}}}})",
                    row.metadata, row.spec));
    CHECK(std::get<Node>(decoded.object.value()).leaving == row.leaving);
    CHECK(decoded.problems.empty());
  }
}

TEST_CASE("SEM-17: a ServiceCIDR, also of the beta version and not ready") {
  for (const auto* version : {"v1", "v1beta1"}) {
    const auto decoded = decode(fmt::format(
        R"({{"apiVersion":"networking.k8s.io/{}","kind":"ServiceCIDR","metadata":{{"name":"extra"}},)"
        R"("spec":{{"cidrs":["10.96.0.0/12","no range","fd00::/112"]}},"status":{{"conditions":[{{"type":"Ready","status":"False"}}]}}}})",
        version));
    const auto& cidr = std::get<ServiceCidr>(decoded.object.value());
    CHECK(cidr.name == "extra");
    REQUIRE(cidr.ranges.size() == 2);
    CHECK(cidr.ranges[0].text() == "10.96.0.0/12");
    CHECK(cidr.ranges[1].text() == "fd00::/112");
    CHECK(problems_of(decoded) == R"(/spec/cidrs/1 "no range" is not an address range)");
  }
}
