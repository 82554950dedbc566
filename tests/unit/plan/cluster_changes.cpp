// SPDX-License-Identifier: Apache-2.0
// Which changes the model reports, when, and how often.
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "agent/plan/cluster.hpp"
#include "build.hpp"
#include "cluster_record.hpp"

namespace lb::test {
namespace {

using agent::Batch;
using Lines = std::vector<std::string>;

struct Fixture {
  Record record;
  Lines complaints;
  agent::Cluster cluster{"this", {}, record, [this](const k8s::Complaint& complaint) {
                           complaints.push_back(complaint.object + ": " + complaint.reason);
                         }};
};

k8s::Service named(const std::string& name, const std::string& cluster_ip) {
  auto made = service();
  made.key.name = name;
  made.cluster_ips = {address(cluster_ip)};
  return made;
}

k8s::Node node_object(const std::string& name, const agent::Labels& labels) {
  k8s::Node made;
  made.name = name;
  made.labels = labels;
  return made;
}

TEST_CASE("nothing is reported before everything is known (SEM-69)") {
  Fixture bed;
  bed.cluster.upsert(service());
  bed.cluster.upsert(slice("one", {"10.1.0.1"}));
  bed.cluster.flush();
  CHECK(bed.record.batches.empty());
  bed.cluster.synced();
  CHECK(bed.record.batches == std::vector{Batch::whole});
  CHECK(bed.record.services.size() == 1);
  bed.cluster.synced();
  bed.cluster.flush();
  CHECK(bed.record.batches.size() == 1);
}

TEST_CASE("the first batch is reported although nothing is planned") {
  Fixture bed;
  bed.cluster.synced();
  CHECK(bed.record.batches == std::vector{Batch::whole});
  CHECK(bed.record.last.empty());
}

TEST_CASE("services that went come before the others (REL-35)") {
  Fixture bed;
  bed.cluster.upsert(named("z", "10.96.0.1"));
  bed.cluster.synced();
  bed.cluster.upsert(named("a", "10.96.0.1"));
  bed.cluster.erase_service({"default", "z"});
  bed.cluster.flush();
  REQUIRE(bed.record.last.size() == 2);
  CHECK(bed.record.last[0].service == "default/z");
  CHECK(bed.record.last[0].ports.empty());
  CHECK(bed.record.late_deletes == 0);
}

TEST_CASE("a service that comes and goes between two flushes leaves nothing (SEM-87)") {
  Fixture bed;
  bed.cluster.synced();
  bed.cluster.upsert(service());
  bed.cluster.upsert(slice("one", {"10.1.0.1"}));
  bed.cluster.erase_slice({"default", "one"});
  bed.cluster.erase_service({"default", "web"});
  bed.cluster.erase_service({"default", "never"});
  bed.cluster.erase_slice({"default", "never"});
  bed.cluster.flush();
  CHECK(bed.record.batches.size() == 1);
  CHECK(bed.cluster.counts().services == 0);
  CHECK(bed.cluster.counts().slices == 0);
}

TEST_CASE("only what something changed for is reported again") {
  Fixture bed;
  bed.cluster.upsert(named("a", "10.96.0.1"));
  bed.cluster.upsert(named("web", "10.96.0.2"));
  bed.cluster.synced();
  const auto before = bed.record.services.at("default/a").front();
  bed.cluster.upsert(slice("one", {"10.1.0.1"}));
  bed.cluster.flush();
  REQUIRE(bed.record.last.size() == 1);
  CHECK(bed.record.last.front().service == "default/web");
  CHECK(bed.record.services.at("default/a").front() == before);
}

TEST_CASE("a port that did not change keeps its very plan") {
  Fixture bed;
  auto two_ports = service();
  two_ports.ports.push_back({"more", k8s::Protocol::tcp, 90, 0});
  bed.cluster.upsert(two_ports);
  bed.cluster.synced();
  const auto before = bed.record.services.at("default/web");
  bed.cluster.upsert(slice("one", {"10.1.0.1"}));
  bed.cluster.flush();
  const auto after = bed.record.services.at("default/web");
  CHECK(before[0] != after[0]);
  CHECK(before[1] == after[1]);
}

TEST_CASE("objects are counted, and forgotten when they go") {
  Fixture bed;
  bed.cluster.upsert(service());
  bed.cluster.upsert(slice("one", {"10.1.0.1", "10.1.0.2"}));
  bed.cluster.synced();
  CHECK(bed.cluster.counts().endpoints == 2);
  bed.cluster.upsert(slice("one", {"10.1.0.1"}));
  CHECK(bed.cluster.counts().endpoints == 1);
  bed.cluster.erase_service({"default", "web"});
  bed.cluster.erase_slice({"default", "one"});
  bed.cluster.flush();
  CHECK(bed.cluster.counts().endpoints == 0);
  CHECK(bed.record.services.empty());
}

TEST_CASE("a lost frontend is named once, and again only after it was served (SEM-82)") {
  Fixture bed;
  bed.cluster.upsert(named("a", "10.96.0.1"));
  bed.cluster.upsert(named("b", "10.96.0.1"));
  bed.cluster.synced();
  const std::string message =
      "Service default/b: ClusterIP 10.96.0.1:80/TCP is not served for default/b: default/a holds it as "
      "ClusterIP, because it is as old, and its name comes first";
  CHECK(bed.complaints == Lines{message});
  CHECK(bed.cluster.counts().lost_frontends == 1);
  auto other = named("b", "10.96.0.1");
  other.affinity_seconds = 60;
  bed.cluster.upsert(other);
  bed.cluster.flush();
  CHECK(bed.complaints.size() == 1);
  bed.cluster.erase_service({"default", "a"});
  bed.cluster.flush();
  CHECK(bed.cluster.counts().lost_frontends == 0);
  const std::string recovery = "Service default/b: all of its frontends are served again";
  CHECK(bed.complaints == Lines{message, recovery});
  const auto count = bed.cluster.counts().complaints;
  bed.cluster.upsert(named("a", "10.96.0.1"));
  bed.cluster.flush();
  CHECK(bed.complaints == Lines{message, recovery, message});
  CHECK(bed.cluster.counts().complaints == count + 1);
  bed.cluster.erase_service({"default", "b"});  // nothing is served of it
  bed.cluster.flush();
  CHECK(bed.complaints.size() == 3);
}

TEST_CASE("complaints of the source are passed on and counted") {
  Fixture bed;
  bed.cluster.complain({"Service default/web", "web.yaml:3", "reason"});
  CHECK(bed.complaints == Lines{"Service default/web: reason"});
  CHECK(bed.cluster.counts().complaints == 1);
}

TEST_CASE("the own Node's primary addresses, one of each family (SEM-34)") {
  k8s::Node node = node_object("this", {});
  node.internal_ips = {address("10.0.0.1"), address("10.0.0.2")};
  node.external_ips = {address("192.0.2.1"), address("2001:db8::1")};
  node.pod_cidrs = {prefix("10.244.1.0/24")};
  CHECK(agent::primary_addresses({}).empty());

  Fixture bed;
  bed.cluster.upsert(node);
  node.name = "another";
  node.internal_ips = {address("10.0.0.9")};
  node.pod_cidrs = {prefix("10.244.2.0/24")};
  bed.cluster.upsert(node);
  const auto& own = bed.cluster.node();
  CHECK(own.primary == std::vector{address("10.0.0.1"), address("2001:db8::1")});
  CHECK(own.object_addresses ==
        std::vector{address("10.0.0.1"), address("10.0.0.2"), address("192.0.2.1"), address("2001:db8::1")});
  CHECK(own.pod_ranges == std::vector{prefix("10.244.1.0/24")});
}

TEST_CASE("the own Node's last state stays when its object goes (SEM-73)") {
  Fixture bed;
  bed.cluster.upsert(node_object("this", {{"topology.kubernetes.io/zone", "zone-a"}}));
  bed.cluster.upsert(service());
  bed.cluster.upsert(slice("one", {"10.1.0.1 zone=zone-a"}));
  bed.cluster.synced();
  bed.cluster.erase_node("this");
  bed.cluster.flush();
  CHECK(bed.cluster.node().zone == "zone-a");
  CHECK(bed.record.batches.size() == 1);
}

TEST_CASE("other nodes' labels replan those services alone that ask for labels") {
  Fixture bed;
  auto asking = named("web", "10.96.0.1");
  asking.topology_keys = {"example.com/rack"};
  bed.cluster.upsert(node_object("this", {{"example.com/rack", "r1"}}));
  bed.cluster.upsert(asking);
  bed.cluster.upsert(slice("one", {"10.1.0.1 node=peer"}));
  bed.cluster.synced();
  CHECK(bed.record.lines().at(2) == "backend default/web TCP 10.1.0.1:8080 elsewhere serving");
  bed.cluster.upsert(node_object("peer", {{"example.com/rack", "r1"}}));
  bed.cluster.flush();
  CHECK(bed.record.lines().at(2) == "backend default/web TCP 10.1.0.1:8080 elsewhere cluster serving");
  bed.cluster.erase_node("peer");
  bed.cluster.flush();
  CHECK(bed.record.lines().at(2) == "backend default/web TCP 10.1.0.1:8080 elsewhere serving");
}

k8s::Service asking(const std::string& name, const std::string& cluster_ip, const std::string& key) {
  auto made = named(name, cluster_ip);
  made.topology_keys = {key};
  return made;
}

const std::string chosen = "backend default/web TCP 10.1.0.1:8080 elsewhere cluster serving";

TEST_CASE("a service that asks for labels of Nodes waits for them, and no other one does (choice H)") {
  Fixture bed;
  bed.cluster.labels_known({});
  bed.cluster.upsert(node_object("this", {{"rack", "r1"}}));
  bed.cluster.upsert(asking("web", "10.96.0.1", "rack"));
  bed.cluster.upsert(named("other", "10.96.0.2"));
  bed.cluster.upsert(slice("one", {"10.1.0.1 node=peer"}));
  bed.cluster.synced();
  CHECK(bed.record.services.contains("default/other"));
  REQUIRE(bed.record.last.size() == 2);
  CHECK(bed.record.last[1].service == "default/web");
  CHECK(bed.record.last[1].state == agent::PlanState::waiting);
  CHECK(bed.cluster.waits());
  bed.cluster.upsert(named("third", "10.96.0.3"));
  bed.cluster.upsert(node_object("peer", {{"rack", "r1"}}));
  bed.cluster.flush();
  REQUIRE(bed.record.last.size() == 1);
  CHECK(bed.record.last[0].service == "default/third");
  CHECK(bed.cluster.counts().waiting == 1);
  bed.cluster.labels_known({"rack"});
  bed.cluster.flush();
  REQUIRE(bed.record.last.size() == 1);
  CHECK(test::plan_lines(*bed.record.last[0].ports[0]).back() == chosen);
  CHECK_FALSE(bed.cluster.waits());
}

TEST_CASE("a service that comes to ask for labels keeps its plan until they are known (choice H)") {
  Fixture bed;
  bed.cluster.labels_known({});
  bed.cluster.upsert(node_object("this", {{"rack", "r1"}}));
  bed.cluster.upsert(named("web", "10.96.0.1"));
  bed.cluster.upsert(slice("one", {"10.1.0.1 node=peer"}));
  bed.cluster.synced();
  REQUIRE(bed.record.lines().back() == chosen);
  bed.cluster.upsert(asking("web", "10.96.0.1", "rack"));
  bed.cluster.upsert(slice("two", {"10.1.0.2 node=peer"}));
  bed.cluster.flush();
  CHECK(bed.record.batches.size() == 1);
  bed.cluster.labels_known({"rack"});
  bed.cluster.flush();
  CHECK(bed.record.lines().back() == "backend default/web TCP 10.1.0.2:8080 elsewhere serving");
  bed.cluster.upsert(node_object("peer", {{"rack", "r1"}}));
  bed.cluster.flush();
  CHECK(bed.record.lines().back() == "backend default/web TCP 10.1.0.2:8080 elsewhere cluster serving");
}

TEST_CASE("a service that waits may go, and may cease to ask (choice H)") {
  Fixture bed;
  bed.cluster.labels_known({});
  bed.cluster.upsert(asking("web", "10.96.0.1", "rack"));
  bed.cluster.upsert(asking("other", "10.96.0.2", "rack"));
  bed.cluster.synced();
  CHECK(bed.record.services.empty());
  bed.cluster.erase_service({"default", "web"});
  bed.cluster.upsert(named("other", "10.96.0.2"));
  bed.cluster.flush();
  CHECK_FALSE(bed.cluster.waits());
  CHECK(bed.cluster.counts().services == 1);
  REQUIRE(bed.record.last.size() == 2);
  CHECK(bed.record.last[1].service == "default/other");
}

TEST_CASE(
    "of what waits since the first batch also the going is reported: it may be in the maps (choice H)") {
  Fixture bed;
  bed.cluster.labels_known({});
  bed.cluster.upsert(asking("web", "10.96.0.1", "rack"));
  bed.cluster.upsert(slice("one", {"10.1.0.1 node=peer"}));
  bed.cluster.synced();
  REQUIRE(bed.record.last.size() == 1);
  bed.cluster.erase_service({"default", "web"});
  bed.cluster.flush();
  REQUIRE(bed.record.batches.size() == 2);
  REQUIRE(bed.record.last.size() == 1);
  CHECK(bed.record.last[0].service == "default/web");
  CHECK(bed.record.last[0].ports.empty());
  CHECK(bed.record.last[0].state == agent::PlanState::planned);
  bed.cluster.upsert(asking("web", "10.96.0.1", "rack"));
  bed.cluster.flush();
  bed.cluster.erase_service({"default", "web"});
  bed.cluster.flush();
  CHECK(bed.record.batches.size() == 2);
}

TEST_CASE("labels that no Service asks for any more are not kept (choice H)") {
  Fixture bed;
  bed.cluster.labels_known({});
  bed.cluster.synced();
  bed.cluster.labels_known({"rack", "row"});
  bed.cluster.upsert(node_object("p1", {{"rack", "r1"}, {"row", "7"}}));
  bed.cluster.upsert(node_object("p2", {{"rack", "r1"}}));
  bed.cluster.upsert(node_object("p3", {}));
  CHECK(bed.cluster.node().peers.size() == 2);
  bed.cluster.labels_known({"row"});
  CHECK(bed.cluster.node().peers ==
        std::map<std::string, agent::Labels, std::less<>>{{"p1", {{"row", "7"}}}});
  bed.cluster.labels_known({});
  CHECK(bed.cluster.node().peers.empty());
}

TEST_CASE("external IPs give way to addresses of the node's devices, live (REL-51)") {
  Fixture bed;
  auto outside = service();
  outside.external_ips = {address("192.0.2.1")};
  bed.cluster.upsert(outside);
  bed.cluster.synced();
  CHECK(bed.record.lines().at(1) == "frontend 192.0.2.1:80/TCP ExternalIP default/web");
  bed.cluster.set_addresses({address("192.0.2.1")});
  bed.cluster.flush();
  CHECK(bed.record.lines().size() == 2);
  bed.cluster.set_addresses({});
  bed.cluster.flush();
  CHECK(bed.record.lines().size() == 3);
}

TEST_CASE(
    "REL-121 a subnet's broadcast address is no service's, live, as an external IP or a load balancer's") {
  Fixture bed;
  auto outside = service();
  outside.external_ips = {address("192.0.2.254"), address("192.0.2.255")};
  outside.load_balancer_ips = {address("192.0.2.127"), address("192.0.2.128"), address("10.1.0.255")};
  bed.cluster.upsert(outside);
  bed.cluster.synced();
  const auto outside_frontends = [&] {
    Lines found;
    for (const auto& line : bed.record.lines()) {
      if (line.find("192.0.2.") != std::string::npos || line.find("10.1.0.") != std::string::npos) {
        found.push_back(line.substr(0, line.find(':')));
      }
    }
    return found;
  };
  CHECK(outside_frontends().size() == 5);
  bed.cluster.set_broadcasts({address("192.0.2.127"), address("192.0.2.255")});
  bed.cluster.flush();
  CHECK(outside_frontends() == Lines{"frontend 10.1.0.255", "frontend 192.0.2.128", "frontend 192.0.2.254"});
  CHECK(
      bed.complaints ==
      Lines{
          "Service default/web: external IP 192.0.2.255 is refused: it is the broadcast address of a subnet",
          "Service default/web: load-balancer IP 192.0.2.127 is refused: it is the broadcast address of a "
          "subnet"});
  auto own = node_object("this", {});
  own.pod_cidrs = {prefix("10.1.0.0/24"), prefix("fd00:10:1::/64")};
  bed.cluster.upsert(own);
  bed.cluster.flush();
  CHECK(outside_frontends() == Lines{"frontend 192.0.2.128", "frontend 192.0.2.254"});
  bed.cluster.set_broadcasts({});
  bed.cluster.flush();
  CHECK(outside_frontends().size() == 4);
}

TEST_CASE("REL-121 the last address of the pods' range, as configured, is no service's") {
  Record record;
  agent::PlanOptions options;
  options.pod_ranges = {prefix("10.1.0.0/16")};
  agent::Cluster cluster("this", options, record, {});
  auto outside = service();
  outside.external_ips = {address("10.1.255.254"), address("10.1.255.255")};
  cluster.upsert(outside);
  cluster.synced();
  std::size_t external = 0;
  for (const auto& line : record.lines()) {
    external += line.find("ExternalIP") != std::string::npos ? 1 : 0;
  }
  CHECK(external == 1);
}

}  // namespace
}  // namespace lb::test
