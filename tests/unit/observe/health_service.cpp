// SPDX-License-Identifier: Apache-2.0
// Health-check node ports: what is reported about a service, and which servers exist (SEM-58, SEM-62).
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <set>
#include <string>
#include <vector>

#include "agent/observe/service_health.hpp"
#include "agent/plan/cluster.hpp"
#include "tests/unit/plan/build.hpp"

namespace {

using namespace lb;
using namespace lb::agent;
using test::address;
using test::endpoint;

const Moment start = Moment::now();

Health healthy() {
  Health health;
  health.applied(start);
  return health;
}

HealthCheck check_of(std::size_t local) { return {{"default", "web"}, 30100, {local, std::nullopt}}; }

k8s::Service service() {
  k8s::Service made;
  made.key = {"default", "web"};
  made.type = k8s::ServiceType::load_balancer;
  made.cluster_ips = {address("10.96.0.1")};
  made.external_policy = k8s::TrafficPolicy::local;
  made.health_check_node_port = 30100;
  made.ports = {{"http", k8s::Protocol::tcp, 80, 30080}};
  return made;
}

k8s::EndpointSlice slice(const std::string& name, std::initializer_list<const char*> endpoints) {
  k8s::EndpointSlice made;
  made.key = {"default", name};
  made.service = "web";
  made.family = name.ends_with("6") ? k8s::Family::ipv6 : k8s::Family::ipv4;
  made.ports = {{"http", k8s::Protocol::tcp, 8080}};
  for (const auto* text : endpoints) {
    made.endpoints.push_back(endpoint(text));
  }
  return made;
}

struct NoPlans final : PlanSink {
  void apply(Batch /*batch*/, std::vector<PlanChange> /*changes*/) override {}
};

/// A model with these objects.
struct Reports {
  Reports(const k8s::Service& of, std::initializer_list<k8s::EndpointSlice> slices) {
    cluster.upsert(of);
    for (const auto& each : slices) {
      cluster.upsert(each);
    }
    cluster.synced();
  }
  NoPlans plans;
  Cluster cluster{"n", {}, plans, {}};
};

constexpr std::size_t most_servers = 4;

/// The servers that ServiceHealth opens, without sockets.
struct Doors {
  std::vector<std::string> opened;
  std::vector<std::string> failures;
  bool refuse = false;
  std::uint16_t port = 0;  ///< of the server opened last
  boost::asio::io_context context;
  Health health = healthy();
  ServiceHealth servers{health,
                        [] { return start; },
                        [this](const Listen& listen,
                               HttpHandler handler) -> boost::system::result<std::unique_ptr<HttpServer>> {
                          opened.push_back(listen.address + " " + std::to_string(listen.port));
                          if (refuse) {
                            return make_error_code(boost::system::errc::address_in_use);
                          }
                          auto server = HttpServer::open(context, {"127.0.0.1", 0}, std::move(handler));
                          port = server.value()->port();
                          return server;
                        },
                        [this](const ServiceHealth::Taken& taken) {
                          failures.push_back(taken.check.service.text() + ": " + taken.why);
                        },
                        [this](const HealthCheck& check, const std::string& place) {
                          failures.push_back(check.service.text() + " listens at " + place);
                        },
                        most_servers};
};

boost::system::error_code connect_to(std::uint16_t port) {
  boost::asio::io_context context;
  boost::asio::ip::tcp::socket socket(context);
  boost::system::error_code error;
  socket.connect({boost::asio::ip::address_v4::loopback(), port}, error);
  return error;
}

}  // namespace

TEST_CASE("SEM-58 a node with ready endpoints answers 200 with their number") {
  const auto response = service_health(check_of(3), k8s::Family::ipv4, healthy(), start);
  CHECK(response.status == 200);
  CHECK(response.content_type == "application/json");
  CHECK(response.body ==
        "{\"service\":{\"namespace\":\"default\",\"name\":\"web\"},\"localEndpoints\":3,"
        "\"serviceProxyHealthy\":true}\n");
  REQUIRE(response.headers.size() == 1);
  CHECK(response.headers[0] == std::pair<std::string, std::string>("X-Load-Balancing-Endpoint-Weight", "3"));
}

TEST_CASE("SEM-58 a node without ready endpoints answers 503") {
  const auto response = service_health(check_of(0), k8s::Family::ipv4, healthy(), start);
  CHECK(response.status == 503);
  CHECK(response.body.find("\"localEndpoints\":0,\"serviceProxyHealthy\":true") != std::string::npos);
}

TEST_CASE("SEM-58 a service that waits for labels of other Nodes is answered for by its slices") {
  NoPlans plans;
  Cluster cluster("n", {}, plans, {});
  cluster.labels_known({});
  auto waiting = service();
  waiting.topology_keys = {"rack"};
  cluster.upsert(waiting);
  cluster.synced();
  REQUIRE(cluster.waits());
  REQUIRE(cluster.health_checks().contains("default/web"));
  CHECK(cluster.health_checks().at("default/web") == check_of(0));
  cluster.upsert(slice("a", {"10.0.1.1 node=n", "10.0.1.2 node=m", "10.0.1.3 node=n unready"}));
  cluster.flush();
  REQUIRE(cluster.waits());
  CHECK(cluster.health_checks().at("default/web") == check_of(1));
  waiting.external_policy = k8s::TrafficPolicy::cluster;
  cluster.upsert(waiting);
  cluster.flush();
  REQUIRE(cluster.waits());
  CHECK(cluster.health_checks().empty());
}

TEST_CASE("SEM-58 a service of another proxy is not answered for, also while it asks for labels") {
  NoPlans plans;
  Cluster cluster("n", {}, plans, {});
  cluster.labels_known({});
  auto foreign = service();
  foreign.topology_keys = {"rack"};
  foreign.other_proxy = true;
  cluster.upsert(foreign);
  cluster.synced();
  CHECK(cluster.health_checks().empty());
}

TEST_CASE("SEM-62 a node that waits too long to write answers 503, one that is only leaving does not") {
  auto health = healthy();
  health.eligibility(NodeEligibility::leaving);
  CHECK(service_health(check_of(1), k8s::Family::ipv4, health, start).status == 200);
  health.queued(start);
  const Moment late{start.steady + Health::overdue_after, start.wall};
  const auto response = service_health(check_of(1), k8s::Family::ipv4, health, late);
  CHECK(response.status == 503);
  CHECK(response.body.find("\"localEndpoints\":1,\"serviceProxyHealthy\":false") != std::string::npos);
}

TEST_CASE("SEM-58 only ready endpoints of this node count, each address once (SEM-30)") {
  const Reports reported(
      service(), {slice("a", {"10.1.0.1 node=n", "10.1.0.2 node=n unready", "10.1.0.3 node=m", "10.1.0.4",
                              "10.1.0.5 node=n unready terminating", "10.1.0.6 node=n terminating"}),
                  slice("b", {"10.1.0.1 node=n"})});
  REQUIRE(reported.cluster.health_checks().size() == 1);
  const auto& check = reported.cluster.health_checks().at("default/web");
  CHECK(check.port == 30100);
  CHECK(check.local[0] == 2);  // 10.1.0.6 is ready although it terminates: publishNotReadyAddresses (SEM-7)
  CHECK_FALSE(check.local[1].has_value());
}

TEST_CASE("SEM-58 each family counts its own endpoints") {
  auto both = service();
  both.cluster_ips.push_back(address("fd00::1"));
  const Reports reported(
      both, {slice("a", {"10.1.0.1 node=n"}), slice("a6", {"fd01::1 node=n", "fd01::2 node=n"})});
  CHECK(reported.cluster.health_checks().at("default/web").local ==
        std::array<std::optional<std::size_t>, 2>{1, 2});
}

TEST_CASE("SEM-58 a service is asked about only as a load balancer with local policy and a port for it") {
  auto other = service();
  const auto change = GENERATE(0, 1, 2, 3);
  if (change == 0) {
    other.type = k8s::ServiceType::node_port;
  }
  if (change == 1) {
    other.external_policy = k8s::TrafficPolicy::cluster;
  }
  if (change == 2) {
    other.health_check_node_port = 0;
  }
  if (change == 3) {
    other.other_proxy = true;
  }
  const Reports reported(other, {slice("a", {"10.1.0.1 node=n"})});
  CHECK(reported.cluster.health_checks().empty());
}

TEST_CASE("SEM-58 an endpoint that changes nothing of the plan still changes the number") {
  Reports reported(service(), {slice("a", {"10.1.0.1 node=n"})});
  reported.cluster.upsert(slice("a", {"10.1.0.1 node=n", "10.1.0.2 node=n"}));
  reported.cluster.flush();
  CHECK(reported.cluster.health_checks().at("default/web").local[0] == 2);
  reported.cluster.erase_service({"default", "web"});
  reported.cluster.flush();
  CHECK(reported.cluster.health_checks().empty());
}

TEST_CASE("SEM-58 a server is opened once, and closed when its service no longer asks for it") {
  Doors doors;
  const std::vector<k8s::Address> any{address("0.0.0.0"), address("::")};
  doors.servers.serve({{"default/web", check_of(1)}}, any);
  CHECK(doors.opened == std::vector<std::string>{"0.0.0.0 30100"});
  doors.servers.serve({{"default/web", check_of(0)}}, any);
  CHECK(doors.opened.size() == 1);
  const auto port = doors.port;
  CHECK_FALSE(connect_to(port));
  doors.servers.serve({}, any);
  CHECK(connect_to(port) == boost::system::errc::connection_refused);
  doors.servers.serve({{"default/web", check_of(1)}}, any);
  CHECK(doors.opened.size() == 2);
  CHECK(doors.servers.complete());
}

TEST_CASE(
    "REL-134 beyond the limit no server is opened: those that listen stay, and the Service's owner is told") {
  Doors doors;
  const std::vector<k8s::Address> any{address("0.0.0.0")};
  HealthChecks checks;
  for (std::uint16_t number = 0; number < most_servers; ++number) {
    const auto name = "default/web" + std::to_string(number);
    checks[name] = check_of(1);
    checks[name].service.name_space = "n" + std::to_string(number);
  }
  doors.servers.serve(checks, any);
  CHECK(doors.servers.complete());
  checks["default/another"] = check_of(1);  // before the others by its name
  doors.servers.serve(checks, any);
  CHECK(doors.opened.size() == most_servers);
  CHECK(doors.servers.waiting() == 1);
  CHECK(doors.failures ==
        std::vector<std::string>{"default/web: cannot listen on its health-check node port 30100 of "
                                 "0.0.0.0: 4 such ports are open, which is the limit of this node"});
  checks.erase("default/web0");
  doors.servers.serve(checks, any);
  CHECK(doors.servers.complete());
}

TEST_CASE("REL-134 namespaces take turns at health-check ports, and none has more than three quarters") {
  const auto listening = [](std::size_t hostile, std::size_t others) {
    Doors doors;
    HealthChecks checks;
    for (std::size_t number = 0; number < hostile + others; ++number) {
      const bool is_hostile = number < hostile;
      auto check = check_of(1);
      check.service.name_space = is_hostile ? "aa" : "zz";
      check.port = static_cast<std::uint16_t>((is_hostile ? 31000 : 32000) + number);
      checks[(is_hostile ? "aa/s" : "zz/s") + std::to_string(number)] = check;
    }
    doors.servers.serve(checks, {address("0.0.0.0")});
    return std::ranges::count_if(doors.opened,
                                 [](const auto& each) { return each.starts_with("0.0.0.0 32"); });
  };
  CHECK(listening(9, 2) == 2);
  CHECK(listening(9, 9) == 2);
  CHECK(listening(0, 9) == 3);
  CHECK(listening(9, 0) == 0);
}

TEST_CASE("REL-131 a node whose uplinks are not served answers 503 to load balancers, and lives") {
  auto health = healthy();
  CHECK(health.healthz(start).status == 200);
  health.uplinks(UplinkService::refused);
  CHECK(health.healthz(start).status == 503);
  CHECK(service_health(check_of(1), k8s::Family::ipv4, health, start).status == 503);
  CHECK(health.livez(start).status == 200);
}

TEST_CASE("SEM-58 a port in use is named once and tried again") {
  Doors doors;
  doors.refuse = true;
  const std::vector<k8s::Address> any{address("0.0.0.0")};
  doors.servers.serve({{"default/web", check_of(1)}}, any);
  doors.servers.serve({{"default/web", check_of(1)}}, any);
  REQUIRE(doors.failures.size() == 1);
  CHECK(doors.failures[0].starts_with(
      "default/web: cannot listen on its health-check node port 30100 of 0.0.0.0: "));
  CHECK_FALSE(doors.servers.complete());
  CHECK(doors.servers.waiting_places() == std::set<std::string>{"0.0.0.0:30100"});
  doors.refuse = false;
  doors.servers.serve({{"default/web", check_of(1)}}, any);
  CHECK(doors.servers.complete());
  CHECK(doors.servers.waiting_places().empty());
  CHECK(doors.opened.size() == 3);
  REQUIRE(doors.failures.size() == 2);
  CHECK(doors.failures[1] == "default/web listens at 0.0.0.0:30100");
}
