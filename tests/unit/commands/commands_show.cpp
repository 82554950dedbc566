// SPDX-License-Identifier: Apache-2.0
// The output of the commands for given values; needs no kernel.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "agent/commands/grid.hpp"
#include "agent/commands/show.hpp"
#include "k8s/objects/model.hpp"

namespace {

using namespace lb::agent;
using Catch::Matchers::ContainsSubstring;
namespace json = boost::json;

void set(std::uint8_t (&to)[16], const char* text) {
  std::memcpy(to, lb::k8s::Address::parse(text).value().bytes.data(), sizeof(to));
}

ServiceView service(const char* name, std::uint32_t number) {
  ServiceView view;
  view.number = number;
  std::strncpy(view.name.service, name, sizeof(view.name.service) - 1);
  view.name.protocol = LB_TCP;
  view.name.family = LB_IPV4;
  return view;
}

void add_frontend(ServiceView& view, lb_kind kind, const char* address, std::uint16_t port) {
  lb_frontend_key key{};
  set(key.address, address);
  key.port = port;
  key.protocol = view.name.protocol;
  view.frontends.emplace_back(key, lb_frontend{view.number, kind, 0, 0});
}

ServiceView web() {
  auto view = service("default/web:http", 1);
  view.service.cluster = {0, 6};
  view.service.local = {6, 2};
  view.service.policy.external = LB_LOCAL;
  view.service.policy.local_empty = LB_DROP;
  add_frontend(view, LB_CLUSTER_IP, "10.96.0.10", 80);
  add_frontend(view, LB_NODE_PORT, "0.0.0.0", 30080);
  return view;
}

BackendView backend(std::uint32_t id, std::uint32_t number, const char* address) {
  BackendView view;
  view.id = id;
  set(view.backend.address, address);
  view.backend.port = 8080;
  view.backend.service = number;
  view.backend.locality = LB_SAME_ZONE;
  view.backend.in_cluster = LB_YES;
  view.backend.serving = LB_YES;
  view.backend.weight = 1;
  return view;
}

lb_flow4_key reply_key() {
  lb_flow4_key key{};
  const std::uint8_t backend[] = {10, 1, 0, 5};
  const std::uint8_t node[] = {192, 0, 2, 1};
  std::memcpy(key.source, backend, 4);
  std::memcpy(key.destination, node, 4);
  key.source_port = 8080;
  key.destination_port = 20000;
  key.protocol = LB_TCP;
  return key;
}

lb_flow4 reply_flow() {
  lb_flow4 flow{};
  const std::uint8_t frontend[] = {10, 96, 0, 10};
  const std::uint8_t client[] = {198, 51, 100, 7};
  std::memcpy(flow.source.address, frontend, 4);
  flow.source.port = 80;
  std::memcpy(flow.destination.address, client, 4);
  flow.destination.port = 40000;
  flow.track.service = 1;
  flow.track.direction = LB_REPLY;
  flow.track.state = LB_OPEN;
  flow.track.source_nat = LB_YES;
  flow.track.seen = 90;
  return flow;
}

TEST_CASE("a grid is as wide as its cells and ends no line in blanks") {
  Grid grid({{"NAME"}, {"COUNT", Align::right}, {"NOTE"}});
  grid.add({"a", "5", ""});
  grid.add({"longer", "12345", "x"});
  CHECK(grid.text() ==
        "NAME    COUNT  NOTE\n"
        "a           5\n"
        "longer  12345  x\n");
}

TEST_CASE("services as a table") {
  CHECK(show_services({web()}, Output::table) ==
        "SERVICE           PROTOCOL  FAMILY  CLUSTER  LOCAL  POLICY                                          "
        "   "
        "FRONTENDS\n"
        "default/web:http  TCP       IPv4          6      2  internal=cluster external=local "
        "empty=reject/drop  "
        "ClusterIP 10.96.0.10:80, NodePort *:30080\n");
}

TEST_CASE("services as JSON") {
  const auto array = json::parse(show_services({web()}, Output::json)).as_array();
  REQUIRE(array.size() == 1);
  CHECK(array[0].at("service").as_string() == "default/web:http");
  CHECK(array[0].at("clusterSlots").to_number<int>() == 6);
  CHECK(array[0].at("externalTrafficPolicy").as_string() == "local");
  CHECK(array[0].at("frontends").as_array()[1].at("port").to_number<int>() == 30080);
}

TEST_CASE("backends are listed with their service, in the services' order") {
  const std::vector<ServiceView> services = {service("default/web:http", 7), service("default/web:admin", 2)};
  const std::vector<BackendView> backends = {backend(1, 2, "10.1.0.9"), backend(2, 7, "10.1.0.5"),
                                             backend(3, 9, "10.1.0.99")};
  CHECK(show_backends(services, {backends}, Output::table) ==
        "SERVICE            PROTOCOL  BACKEND        LOCALITY   CLUSTER  LOCAL  SERVING  WEIGHT\n"
        "default/web:http   TCP       10.1.0.5:8080  same-zone  yes      -      yes           1\n"
        "default/web:admin  TCP       10.1.0.9:8080  same-zone  yes      -      yes           1\n");
  const auto array = json::parse(show_backends(services, {backends}, Output::json)).as_array();
  REQUIRE(array.size() == 2);
  CHECK(array[0].at("address").as_string() == "10.1.0.5");
  CHECK(array[0].at("inLocalSet").as_bool() == false);
}

TEST_CASE("backends whose endpoints are gone are left out, and counted") {
  auto gone = backend(3, 7, "10.1.0.7");
  gone.backend.in_cluster = gone.backend.serving = LB_NO;
  auto terminating = backend(4, 7, "10.1.0.8");
  terminating.backend.in_cluster = LB_NO;  // serves existing flows only
  const auto present = present_among({backend(2, 7, "10.1.0.5"), gone, terminating});
  CHECK(present.backends.size() == 2);
  CHECK(present.gone == 1);
  const auto text = show_backends({service("default/web:http", 7)}, present, Output::table);
  CHECK_THAT(text, !ContainsSubstring("10.1.0.7"));
  CHECK_THAT(text,
             ContainsSubstring("1 more are gone, kept until no flow can name them; --all shows them\n"));
}

TEST_CASE("a flow is listed by the entry of its replies") {
  const auto view = flow_view(reply_key(), reply_flow());
  REQUIRE(view.has_value());
  auto forward = reply_flow();
  forward.track.direction = LB_FORWARD;
  CHECK_FALSE(flow_view(reply_key(), forward).has_value());

  FlowList list{{*view}, 1, 100};
  CHECK(show_flows(list, {web()}, Output::table) ==
        "PROTOCOL  CLIENT              FRONTEND       BACKEND        SEEN AS          SERVICE           PATH "
        "  STATE"
        "  ASSURED  IDLE\n"
        "TCP       198.51.100.7:40000  10.96.0.10:80  10.1.0.5:8080  192.0.2.1:20000  default/web:http  "
        "stack  open "
        "  no        10s\n");
  const auto object = json::parse(show_flows(list, {}, Output::json));
  CHECK(object.at("all").to_number<int>() == 1);
  const auto& flow = object.at("flows").as_array()[0];
  CHECK(flow.at("client").as_string() == "198.51.100.7:40000");
  CHECK(flow.at("source").as_string() == "192.0.2.1:20000");
  CHECK(flow.at("service").as_string() == "#1");
  CHECK(flow.at("idleSeconds").to_number<int>() == 10);
}

TEST_CASE("a flow's state and idle time are those of both its entries") {
  const auto entry = [](lb_state state, std::uint32_t seen) {
    auto track = reply_flow().track;
    track.state = state;
    track.seen = seen;
    return track;
  };
  struct Row {
    lb_track reply, forward;
    lb_state state;
    std::uint32_t seen;
  };
  constexpr std::uint32_t wrapped = 3;  // the clock's seconds begin again after 2^32
  for (const auto& row : {Row{entry(LB_OPEN, 90), entry(LB_RESET, 95), LB_RESET, 95},
                          Row{entry(LB_CLOSING, 95), entry(LB_OPEN, 90), LB_CLOSING, 95},
                          Row{entry(LB_OPEN, 0xfffffff0), entry(LB_OPEN, wrapped), LB_OPEN, wrapped},
                          Row{entry(LB_OPEN, wrapped), entry(LB_OPEN, 0xfffffff0), LB_OPEN, wrapped}}) {
    const auto both = joined(row.reply, row.forward);
    CHECK(both.state == row.state);
    CHECK(both.seen == row.seen);
    CHECK(both.direction == LB_REPLY);
  }
}

TEST_CASE("a cut list says so") {
  const FlowList list{{*flow_view(reply_key(), reply_flow())}, 3, 0};
  CHECK_THAT(show_flows(list, {}, Output::table), ContainsSubstring("1 of 3 flows; --limit 0 shows all\n"));
  CHECK_THAT(show_flows(list, {}, Output::table), ContainsSubstring("no          -\n"));
}

TEST_CASE("a service is found by its name, by name and port, or by how it begins") {
  const std::vector<ServiceView> all = {service("default/web", 1), service("default/web:http", 2),
                                        service("default/web2", 3), service("other/web", 4)};
  const auto numbers = [&all](const char* wanted) {
    std::vector<std::uint32_t> found;
    for (const auto& view : matching(all, wanted)) {
      found.push_back(view.number);
    }
    return found;
  };
  using List = std::vector<std::uint32_t>;
  CHECK(numbers("default/web") == List{1, 2});
  CHECK(numbers("default/web:http") == List{2});
  CHECK(numbers("default/we") == List{1, 2, 3});
  CHECK(numbers("default/") == List{1, 2, 3});
  CHECK(numbers("web").empty());
}

Status example() {
  Status status;
  status.pins = "/sys/fs/bpf/sluice";
  status.agent = {AgentState::running, 4711};
  std::strcpy(status.node.name, "worker-1");
  std::strcpy(status.node.zone, "zone-a");
  std::strcpy(status.node.version, "0.1.0");
  std::strcpy(status.node.packets, "eth0 tcx+native");
  status.uplinks = "eth0 (default routes)";
  status.kernel = "6.18.5";
  status.node.started = 1767323045;
  status.links = {"connect4", "eth0-ingress"};
  status.snapshot.fills = {{"lb_slots", 512, 1024}, {"lb_backends", 523, 1024, 507}};
  status.snapshot.outcomes.flow_stack = 42;
  return status;
}

TEST_CASE("status shows who serves, how full the maps are, and what has happened") {
  const auto text = show_status(example(), Output::table);
  CHECK_THAT(text, ContainsSubstring("Node     worker-1, zone zone-a\n"));
  CHECK_THAT(
      text, ContainsSubstring("running, pid 4711, version 0.1.0, first plan written 2026-01-02T03:04:05Z\n"));
  CHECK_THAT(text, ContainsSubstring("Packets  eth0 tcx+native\n"));
  CHECK_THAT(text, ContainsSubstring("Uplinks  eth0 (default routes)\n"));
  CHECK_THAT(text, ContainsSubstring("Sockets  -\n"));
  CHECK_THAT(text, ContainsSubstring("lb_slots      512        -   1024   50%\n"));
  CHECK_THAT(text, ContainsSubstring("lb_backends    16      507   1024   51%\n"));
  CHECK_THAT(text,
             ContainsSubstring("flow_stack     42  STACK   packet of a known flow, given to the stack\n"));
  CHECK_THAT(text, !ContainsSubstring("malformed"));
}

TEST_CASE("REL-122 status has the kernel's release and kind of preemption") {
  auto status = example();
  CHECK_THAT(show_status(status, Output::table), ContainsSubstring("Kernel   6.18.5, no PREEMPT_RT\n"));
  status.preemption = Preemption::interleaved;
  CHECK_THAT(show_status(status, Output::table), ContainsSubstring("scratch_busy"));
  CHECK(json::parse(show_status(status, Output::json)).at("kernel") ==
        json::object{{"release", "6.18.5"}, {"preemption", "interleaved"}});
}

TEST_CASE("status says while a node is drained, since when, for how long and how many flows are left") {
  auto status = example();
  CHECK_THAT(show_status(status, Output::table), !ContainsSubstring("Draining"));
  CHECK_THAT(show_status(status, Output::json), !ContainsSubstring("draining"));
  status.node.policy.draining = LB_YES;
  status.clock = 1000;
  status.node.drain_started = 940;
  status.node.drain_deadline = 1030;
  status.snapshot.fills.push_back({"lb_flows4", 6, 1024});
  status.snapshot.fills.push_back({"lb_unassured6", 1, 1024});
  CHECK_THAT(show_status(status, Output::table),
             ContainsSubstring("Draining since 1 min, for 30 s more; 4 flows are left;"));
  CHECK_THAT(show_status(status, Output::json),
             ContainsSubstring("\"draining\":{\"sinceSeconds\":60,\"untilSeconds\":30,\"flowsLeft\":4}"));
  status.clock = 1031;
  CHECK_THAT(show_status(status, Output::table), ContainsSubstring("deadline passed"));
}

TEST_CASE("status without an agent says since when what is pinned grows old") {
  auto status = example();
  status.agent = {};
  CHECK_THAT(show_status(status, Output::table),
             ContainsSubstring("NOT RUNNING; what is pinned serves as it was then"));
  status.agent.last_heartbeat = std::chrono::system_clock::from_time_t(1767323045);
  for (const auto& [later, age] : std::vector<std::pair<int, const char*>>{
           {-5, "0 s"}, {59, "59 s"}, {60, "1 min"}, {3599, "59 min"}, {7500, "2 h 5 min"}}) {
    status.now = *status.agent.last_heartbeat + std::chrono::seconds(later);
    CHECK_THAT(show_status(status, Output::table),
               ContainsSubstring("NOT RUNNING since 2026-01-02T03:04:05Z (" + std::string(age) + "); "));
  }
  CHECK(json::parse(show_status(status, Output::json)).at("agent").at("absentSince").as_string() ==
        "2026-01-02T03:04:05Z");
  const auto object = json::parse(show_status(status, Output::json));
  CHECK(object.at("uplinks").as_string() == "eth0 (default routes)");
  CHECK(object.at("agent").at("running").as_bool() == false);
  CHECK(object.at("outcomes").at("flow_stack").to_number<int>() == 42);
  CHECK(object.at("outcomes").at("malformed").to_number<int>() == 0);
  CHECK(object.at("maps").at("lb_slots").at("limit").to_number<int>() == 1024);
  CHECK(object.at("maps").at("lb_backends").at("retired").to_number<int>() == 507);
}

}  // namespace
