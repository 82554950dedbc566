// SPDX-License-Identifier: Apache-2.0
// Compares kube-proxy's frontends with ours: each kind of difference, and what is no difference.
#include "agent/commands/compare_services.hpp"

#include <boost/json/parse.hpp>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "agent/commands/check_against.hpp"
#include "agent/commands/our_frontends.hpp"

namespace {

using namespace lb::agent;
using Lines = std::vector<std::string>;

FrontendId at(const char* address, std::uint16_t port = 80) {
  return {lb::k8s::Address::parse(address).value(), port, LB_TCP};
}

EndpointSet endpoints(const std::vector<const char*>& addresses) {
  EndpointSet set;
  for (const auto* each : addresses) {
    set.endpoints.push_back({lb::k8s::Address::parse(each).value(), 8080});
  }
  sort_unique(set.endpoints);
  return set;
}

ServedFrontend frontend(const std::vector<const char*>& addresses) {
  return {"default/web:http", endpoints(addresses), endpoints(addresses), 0, Clients::all};
}

Lines lines(const ServedFrontends& kube_proxy, const ServedFrontends& sluice, Detail detail = Detail::all) {
  Lines lines;
  for (const auto& each : compare_services(kube_proxy, sluice, detail)) {
    lines.push_back(std::string(kind_name(each.kind)) + " " + each.service + " " +
                    frontend_text(each.frontend) + " " + each.reason);
  }
  return lines;
}

/// One service port in one family: cluster set 1.1 and 1.2, local set 1.1.
ServicePortPlan plan() {
  ServicePortPlan plan;
  plan.key = {"default/web:http", LB_TCP, LB_IPV4};
  const auto address = [](const char* text) { return lb::k8s::Address::parse(text).value(); };
  plan.frontends = {{address("0.0.0.0"), 30080, LB_NODE_PORT},
                    {address("10.96.0.80"), 80, LB_CLUSTER_IP},
                    {address("203.0.113.80"), 80, LB_LOAD_BALANCER}};
  plan.policy.external = LB_LOCAL;
  plan.policy.local_empty = LB_DROP;
  plan.policy.source_ranges = LB_YES;
  plan.affinity_seconds = 600;
  std::vector<BackendPlan> backends(3);
  backends[0] = {address("10.244.1.1"), 8080, LB_SAME_NODE, true, true, true, 1};
  backends[1] = {address("10.244.1.2"), 8080, LB_ELSEWHERE, true, false, true, 1};
  backends[2] = {address("10.244.1.3"), 8080, LB_ELSEWHERE, true, true, true, 0};
  plan.backends = backends;
  return plan;
}

}  // namespace

TEST_CASE("REL-84: equal frontends do not differ") {
  const ServedFrontends both = {{at("10.96.0.80"), frontend({"10.244.1.1"})},
                                {at("10.96.0.81"), frontend({})}};
  CHECK(lines(both, both).empty());
}

TEST_CASE("REL-84: a frontend that one side does not serve") {
  const ServedFrontends one = {{at("10.96.0.80"), frontend({"10.244.1.1"})},
                               {at("0.0.0.0", 30080), frontend({})}};
  CHECK(lines(one, {}) == Lines{"only-kube-proxy default/web:http *:30080 Sluice does not serve it",
                                "only-kube-proxy default/web:http 10.96.0.80:80 Sluice does not serve it"});
  CHECK(lines({{at("::", 30080), frontend({})}}, {}) ==
        Lines{"only-kube-proxy default/web:http [::]:30080 Sluice does not serve it"});
  CHECK(lines({}, one).front() == "only-sluice default/web:http *:30080 kube-proxy does not serve it");
}

TEST_CASE("REL-84: endpoints that one side lacks are named, three of them") {
  const ServedFrontends few = {{at("10.96.0.80"), frontend({"10.244.1.1", "10.244.1.9"})}};
  const ServedFrontends many = {
      {at("10.96.0.80"), frontend({"10.244.1.1", "10.244.1.2", "10.244.1.3", "10.244.1.4", "10.244.1.5"})}};
  CHECK(lines(few, many) == Lines{"endpoints default/web:http 10.96.0.80:80 endpoints: only kube-proxy has "
                                  "10.244.1.9:8080; only Sluice has 10.244.1.2:8080, 10.244.1.3:8080, "
                                  "10.244.1.4:8080 and 1 more"});
}

TEST_CASE("REL-84: the node's own clients may have another set than those outside") {
  auto kube_proxy = frontend({"10.244.1.1"});
  auto sluice = kube_proxy;
  sluice.inside = endpoints({"10.244.1.1", "10.244.1.2"});
  const ServedFrontends theirs = {{at("203.0.113.80"), kube_proxy}};
  const ServedFrontends ours = {{at("203.0.113.80"), sluice}};
  CHECK(lines(theirs, ours) ==
        Lines{"endpoints-inside default/web:http 203.0.113.80:80 endpoints of the node's own clients: only "
              "Sluice has 10.244.1.2:8080"});
  CHECK(lines(theirs, ours, Detail::one_set).empty());
}

TEST_CASE("REL-84: the one set of IPVS is the inside one where the external policy allows no endpoint") {
  auto sluice = frontend({});
  sluice.inside = frontend({"10.244.2.1"}).inside;
  const ServedFrontends ours = {{at("203.0.113.80"), sluice}};
  const auto against = [&](const std::vector<const char*>& endpoints) {
    return lines({{at("203.0.113.80"), frontend(endpoints)}}, ours, Detail::one_set);
  };
  CHECK(against({"10.244.2.1"}).empty());
  CHECK(against({"10.244.3.1"}).size() == 1);
  // With the internal policy Local, too, Sluice has none, where IPVS has endpoints on other nodes.
  CHECK(lines({{at("10.96.0.80"), frontend({"10.244.2.1"})}}, {{at("10.96.0.80"), frontend({})}},
              Detail::one_set)
            .size() == 1);
}

TEST_CASE("REL-84: what a client gets without endpoints, session affinity, and who is let in") {
  auto kube_proxy = frontend({});
  kube_proxy.outside.verdict_if_empty = kube_proxy.inside.verdict_if_empty = EmptyVerdict::drop;
  CHECK(
      lines({{at("10.96.0.80"), kube_proxy}}, {{at("10.96.0.80"), frontend({})}}) ==
      Lines{
          "no-endpoints default/web:http 10.96.0.80:80 without endpoints: kube-proxy drops, Sluice rejects"});
  kube_proxy = frontend({"10.244.1.1"});
  kube_proxy.affinity_seconds = 600;
  kube_proxy.clients = Clients::limited;
  CHECK(lines({{at("10.96.0.80"), kube_proxy}}, {{at("10.96.0.80"), frontend({"10.244.1.1"})}}) ==
        Lines{"affinity default/web:http 10.96.0.80:80 session affinity: kube-proxy 600 s, Sluice none",
              "source-ranges default/web:http 10.96.0.80:80 source ranges: kube-proxy lets in some clients, "
              "Sluice all clients"});
}

TEST_CASE("REL-84: a drain waits for an endpoint of each frontend that is served here with one") {
  const ServedFrontends ours = {{at("10.96.0.80"), frontend({"10.244.1.1"})},
                                {at("10.96.0.81"), frontend({})}};
  CHECK(unserved_by(ours, ours).empty());
  CHECK(unserved_by({{at("10.96.0.80"), frontend({"10.244.9.9"})}}, ours).empty());
  REQUIRE(unserved_by({}, ours).size() == 1);
  CHECK(frontend_text(unserved_by({{at("10.96.0.80"), frontend({})}}, ours).front().frontend) ==
        "10.96.0.80:80");
}

TEST_CASE("REL-84: a plan as frontends: sets by kind of address and policy, no endpoint without weight") {
  ServedFrontends frontends;
  add_frontends(frontends, plan());
  REQUIRE(frontends.size() == 3);
  const auto& cluster_ip = frontends.at(at("10.96.0.80"));
  CHECK(cluster_ip.service == "default/web:http");
  CHECK(cluster_ip.outside.endpoints == endpoints({"10.244.1.1", "10.244.1.2"}).endpoints);
  CHECK(cluster_ip.affinity_seconds == 600);
  CHECK(cluster_ip.clients == Clients::all);
  const auto& load_balancer = frontends.at(at("203.0.113.80"));
  CHECK(load_balancer.outside == EndpointSet{endpoints({"10.244.1.1"}).endpoints, EmptyVerdict::drop});
  CHECK(load_balancer.inside.endpoints == cluster_ip.outside.endpoints);
  CHECK(load_balancer.clients == Clients::limited);
  CHECK(frontends.at(at("0.0.0.0", 30080)).clients == Clients::all);
}

TEST_CASE("REL-84: the maps as frontends say the same as the plan") {
  const auto made = plan();
  ServiceView view;
  view.number = 7;
  made.key.name.copy(view.name.service, sizeof(view.name.service) - 1);
  view.service.policy = made.policy;
  view.service.affinity_seconds = made.affinity_seconds;
  for (const auto& each : made.frontends) {
    lb_frontend_key key{{}, each.port, LB_TCP, 0};
    std::ranges::copy(each.address.bytes, key.address);
    view.frontends.emplace_back(key, lb_frontend{7, each.kind, 0, 0});
  }
  std::vector<BackendView> backends;
  for (const auto& each : made.backends) {
    lb_backend backend{};
    std::ranges::copy(each.address.bytes, backend.address);
    backend.service = 7;
    backend.port = each.port;
    backend.in_cluster = each.in_cluster ? LB_YES : LB_NO;
    backend.in_local = each.in_local ? LB_YES : LB_NO;
    backend.weight = each.weight;
    backends.push_back({static_cast<std::uint32_t>(backends.size() + 1), backend});
  }
  ServedFrontends planned;
  add_frontends(planned, made);
  CHECK(lines(frontends_of({view}, backends), planned).empty());
  CHECK(frontends_of({view}, backends) == planned);
}

TEST_CASE("REL-84: a comparison as a table and as JSON") {
  ComparedServices compared{
      ProxyMode::nftables, "the manifests in /m", 4, {}, {"Service default/web: skipped"}, {}};
  CHECK(show_comparison(compared, Output::table) ==
        "information: Service default/web: skipped\n"
        "The same: 4 frontends, of kube-proxy (nftables) and Sluice, from the manifests in /m.\n");
  compared.differences = {{DifferenceKind::affinity, "default/web\n", at("10.96.0.80"), "session affinity"}};
  CHECK(show_comparison(compared, Output::table) ==
        "SERVICE        PROTOCOL  FRONTEND       DIFFERENCE\n"
        "default/web\\n  TCP       10.96.0.80:80  session affinity\n"
        "\n"
        "information: Service default/web: skipped\n"
        "Differences: 1, in 4 frontends, of kube-proxy (nftables) and Sluice, from the manifests in /m.\n");
  const auto json = boost::json::parse(show_comparison(compared, Output::json)).as_object();
  CHECK(json.at("same") == false);
  CHECK(json.at("mode") == "nftables");
  CHECK(json.at("differences").as_array().at(0).as_object().at("kind") == "affinity");
  CHECK(json.at("differences").as_array().at(0).as_object().at("port") == 80);
}

TEST_CASE("REL-165: a rule that is not understood is not called a difference") {
  ComparedServices compared{
      ProxyMode::iptables, "the manifests in /m", 4, {}, {}, {"nat KUBE-SERVICES: match\nquota"}};
  CHECK(show_comparison(compared, Output::table) ==
        "a rule that is not understood: nat KUBE-SERVICES: match\\nquota\n"
        "Cannot tell whether they are the same: 1 rules of kube-proxy are not understood, which may explain "
        "some of 0 "
        "differences in 4 frontends, of kube-proxy (iptables) and Sluice, from the manifests in /m.\n");
  const auto json = boost::json::parse(show_comparison(compared, Output::json)).as_object();
  CHECK(json.at("same") == false);
  CHECK(json.at("differences").as_array().empty());
  CHECK(json.at("notUnderstood").as_array().size() == 1);
  compared.unread.assign(12, "nat KUBE-SERVICES: match quota");
  const auto text = show_comparison(compared, Output::table);
  CHECK(text.find("\nand 2 more\nCannot tell") != std::string::npos);
}
