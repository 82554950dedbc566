// SPDX-License-Identifier: Apache-2.0
// What remains of a service's clients, affinity and flows, after the service has changed. SEM-49: policies
// and sets apply to new flows. REL-81: if a backend id, or a pod's address, now belongs to another service,
// no entry leads there. SEM-45: UDP flows leave a service that lost their frontend. That a service number is
// not reused while an entry refers to it is tested in tests/unit/tables/apply.cpp and
// tests/prog/publish/maps.cpp; sockets are tested in tests/net/sockets/sockets.cpp.
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <map>
#include <string>

#include "tests/prog/packets/build.hpp"
#include "tests/prog/packets/world.hpp"

namespace lb::test {
namespace {

struct Form {
  int family;
  std::uint8_t protocol;
};

class Reuse {
 public:
  explicit Reuse(Form form) : form_(form), world_(Settings{}) {}

  World& world() { return world_; }
  /// The name with the form's protocol and family: "pair" becomes "pair_tcp4".
  [[nodiscard]] std::string named(const std::string& name) const {
    static const std::map<int, std::string> protocols = {{6, "_tcp"}, {17, "_udp"}, {132, "_sctp"}};
    return name + protocols.at(form_.protocol) + std::to_string(form_.family);
  }
  [[nodiscard]] Address address(const std::string& four, const std::string& six) const {
    return address_of(form_.family == 4 ? four : six);
  }
  /// Sends the client's first packet to a port of the balancer; returns its destination after translation.
  Endpoint ask(std::uint16_t client_port, std::uint16_t port, std::uint8_t flags = syn) {
    return ask_at({balancer(), port}, client_port, flags);
  }
  Endpoint ask_at(const Endpoint& where, std::uint16_t client_port, std::uint8_t flags = syn) {
    onward_ = tuple_of(send(where, client_port, flags).packet);
    return onward_.destination;
  }
  /// Sends a packet that may be refused.
  Verdict send(const Endpoint& where, std::uint16_t client_port, std::uint8_t flags = syn) {
    const Tuple request{
        form_.family, form_.protocol, {address("192.0.2.10", "2001:db8:1::10"), client_port}, where};
    auto verdict =
        world_.programs().run({.hook = Hook::tc_in, .device = world_.device("out0")},
                              build(request, {.flags = flags, .sequence = 1000, .acknowledged = 701}));
    counts_ = verdict.counts;
    return verdict;
  }
  /// The last request, translated, and what was counted.
  [[nodiscard]] const Tuple& onward() const { return onward_; }
  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] Address balancer() const { return address("198.19.0.1", "2001:db8:ffff::1"); }
  [[nodiscard]] bool udp() const { return form_.protocol == 17; }
  /// Sends the backend's reply to the last request; returns what was counted.
  Counts answer() {
    return world_.programs()
        .run({.hook = Hook::tc_in, .device = world_.device("out1")},
             build(onward_.reversed(), {.flags = syn | ack, .sequence = 700, .acknowledged = 1001}))
        .counts;
  }
  Endpoint first() const { return {address("198.51.100.21", "2001:db8:2::21"), 8080}; }
  Endpoint second() const { return {address("198.51.100.22", "2001:db8:2::22"), 8080}; }

  Endpoint remote() const { return {address("198.51.100.11", "2001:db8:2::11"), 8080}; }

  /// Gives a frontend of `from` to another service; to none, if `to` is empty.
  void pass_frontend(const std::string& from, const std::string& to, const std::string& kind,
                     const std::string& address, std::uint16_t port) {
    static const std::map<int, std::string> protocols = {{6, "tcp"}, {17, "udp"}, {132, "sctp"}};
    world_.change({"remove", named(from)});
    if (to.empty()) {
      return;
    }
    world_.change({"frontend", named(to), kind, protocols.at(form_.protocol), address, std::to_string(port)});
  }

  /// Removes the first backend of "pair", and gives its id to "remote", at another address.
  void give_id_away() {
    world_.change({"cluster", named("pair"), named("pair_b")});
    auto& backends = world_.programs().backends;
    const auto id = world_.backend(named("pair_a"));
    auto taken = backends.load(id);
    taken.service = world_.service(named("remote"));
    const auto elsewhere = address("198.51.100.77", "2001:db8:2::77");
    std::memcpy(taken.address, elsewhere.data(), elsewhere.size());
    backends.store(id, taken);
  }
  /// Removes the first backend of "pair", and gives its address and port to a backend of "remote", under
  /// another id.
  void give_address_away() {
    world_.change({"cluster", named("pair"), named("pair_b")});
    world_.change({"retire", named("pair_a")});
    auto& backends = world_.programs().backends;
    const auto there = backends.load(world_.backend(named("pair_a")));
    const auto id = world_.backend(named("remote"));
    auto taken = backends.load(id);
    std::memcpy(taken.address, there.address, sizeof(taken.address));
    taken.port = there.port;
    backends.store(id, taken);
  }

 private:
  Form form_;
  World world_;
  Tuple onward_;
  Counts counts_{};
};

constexpr std::uint16_t remote_port = 80, local_port = 81, pair_port = 83, node_port = 30080;

template <class Test>
void each_form(Test test) {
  for (const Form form : {Form{4, 6}, Form{4, 17}, Form{4, 132}, Form{6, 6}, Form{6, 17}, Form{6, 132}}) {
    INFO("protocol " << int{form.protocol} << ", IPv" << form.family);
    Reuse reuse(form);
    test(reuse);
  }
}

}  // namespace

TEST_CASE("REL-81 affinity to a backend whose id another service has leads to neither") {
  each_form([](Reuse& reuse) {
    reuse.world().change({"affinity", reuse.named("pair"), "10800"});
    REQUIRE(reuse.ask(33000, pair_port) == reuse.first());
    reuse.give_id_away();
    CHECK(reuse.ask(33001, pair_port) == reuse.second());
    CHECK(reuse.ask(33002, pair_port) == reuse.second());
  });
}

TEST_CASE("REL-81 affinity to a pod whose address another service has does not lead there") {
  each_form([](Reuse& reuse) {
    reuse.world().change({"affinity", reuse.named("pair"), "10800"});
    REQUIRE(reuse.ask(33000, pair_port) == reuse.first());
    reuse.give_address_away();
    CHECK(reuse.ask(33001, pair_port) == reuse.second());
    CHECK(reuse.ask(33002, remote_port) == reuse.first());  // now that service's backend
  });
}

TEST_CASE("REL-81 affinity of one service is not asked for a client of another") {
  each_form([](Reuse& reuse) {
    reuse.world().change({"affinity", reuse.named("pair"), "10800"});
    reuse.world().change({"affinity", reuse.named("remote"), "10800"});
    REQUIRE(reuse.ask(33000, pair_port) == reuse.first());
    CHECK(reuse.ask(33001, remote_port) != reuse.first());
    CHECK(reuse.ask(33002, pair_port) == reuse.first());
  });
}

TEST_CASE("REL-81 a flow whose backend's id or address another service has never reaches that service") {
  each_form([](Reuse& reuse) {
    for (const bool by_id : {true, false}) {
      INFO((by_id ? "id" : "address"));
      reuse.world().reset();
      REQUIRE(reuse.ask(33000, pair_port) == reuse.first());
      reuse.answer();
      REQUIRE(reuse.ask(33000, pair_port, ack) == reuse.first());
      by_id ? reuse.give_id_away() : reuse.give_address_away();
      reuse.world().change({"age", "2"});  // the program checks a flow's backend once a second
      // TCP stays with its pod, even if that ends it (SEM-47); UDP changes to another backend (SEM-45).
      CHECK(reuse.ask(33000, pair_port, ack) == (reuse.udp() ? reuse.second() : reuse.first()));
      CHECK(reuse.ask(33001, pair_port) == reuse.second());
    }
  });
}

TEST_CASE("SEM-45 UDP flows leave a service whose frontend another one has, or none; TCP and SCTP stay") {
  each_form([](Reuse& reuse) {
    for (const bool answered : {true, false}) {
      for (const bool passes : {true, false}) {
        if (!answered && !reuse.udp()) {
          continue;
        }
        INFO((answered ? "assured" : "unassured") << (passes ? ", to another service" : ", to none"));
        reuse.world().reset();
        REQUIRE(reuse.ask(33000, pair_port) == reuse.first());
        if (answered) {
          reuse.answer();
        }
        REQUIRE(reuse.ask(33000, pair_port, ack) == reuse.first());
        reuse.pass_frontend("pair", passes ? "remote" : "", "load_balancer",
                            reuse.named("x").back() == '4' ? "198.19.0.1" : "2001:db8:ffff::1", pair_port);
        reuse.world().change({"age", "2"});  // the program checks a flow's frontend once a second
        const Endpoint now = passes ? reuse.remote() : Endpoint{reuse.balancer(), pair_port};
        for (int packet = 0; packet < 3; ++packet) {
          CHECK(reuse.ask(33000, pair_port, ack) == (reuse.udp() ? now : reuse.first()));
        }
      }
    }
  });
}

TEST_CASE("SEM-45 UDP flows leave the last backend of a service when it stops serving") {
  for (const int family : {4, 6}) {
    for (const bool answered : {true, false}) {
      INFO("IPv" << family << (answered ? ", assured" : ", unassured"));
      Reuse reuse({family, 17});
      REQUIRE(reuse.ask(33000, remote_port) == reuse.remote());
      if (answered) {
        reuse.answer();
      }
      reuse.world().change({"retire", reuse.named("remote")});
      reuse.world().change({"cluster", reuse.named("remote")});
      reuse.world().change({"age", "2"});
      for (int packet = 0; packet < 3; ++packet) {
        CHECK(reuse.send({reuse.balancer(), remote_port}, 33000).counts[LB_OUTCOME_no_backend_reject] == 1);
      }
    }
  }
}

TEST_CASE(
    "SEM-45 REL-5 a UDP flow whose frontend passes to a service with the same backend is assured again") {
  for (const int family : {4, 6}) {
    INFO("IPv" << family);
    Reuse reuse({family, 17});
    REQUIRE(reuse.ask(33000, pair_port) == reuse.first());
    REQUIRE(reuse.answer()[LB_OUTCOME_assured] == 1);
    reuse.give_address_away();
    reuse.pass_frontend("pair", "remote", "load_balancer", family == 4 ? "198.19.0.1" : "2001:db8:ffff::1",
                        pair_port);
    reuse.world().change({"age", "2"});
    REQUIRE(reuse.ask(33000, pair_port) == reuse.first());
    CHECK(reuse.answer()[LB_OUTCOME_assured] == 1);
    reuse.world().change({"age", "2"});
    CHECK(reuse.ask(33000, pair_port) == reuse.first());
    CHECK(reuse.counts()[LB_OUTCOME_flow_redirect] == 1);
    CHECK(reuse.answer()[LB_OUTCOME_assured] == 0);
  }
}

TEST_CASE("SEM-45 UDP flows leave a service whose node port another one has") {
  for (const int family : {4, 6}) {
    INFO("IPv" << family);
    Reuse reuse({family, 17});
    const Endpoint where{reuse.address("192.0.2.1", "2001:db8:1::1"), node_port};
    REQUIRE(reuse.ask_at(where, 33000) == reuse.remote());
    reuse.answer();
    const auto opened = reuse.onward();
    reuse.world().change({"age", "2"});
    REQUIRE(reuse.ask_at(where, 33000) == reuse.remote());
    CHECK(reuse.onward() == opened);
    reuse.pass_frontend("remote", "pair", "node_port", family == 4 ? "0.0.0.0" : "::", node_port);
    reuse.world().change({"age", "2"});
    CHECK(reuse.ask_at(where, 33000) == reuse.first());
  }
}

TEST_CASE("SEM-45 a UDP flow beside a service's, straight to its backend, has no frontend to lose") {
  for (const int family : {4, 6}) {
    INFO("IPv" << family);
    Reuse reuse({family, 17});
    const Endpoint backend{reuse.address("10.244.1.5", "fd00:244:1::5"), 8080};
    REQUIRE(reuse.ask(33000, local_port) == backend);
    REQUIRE(reuse.ask_at(backend, 33000) == backend);
    REQUIRE(reuse.counts()[LB_OUTCOME_new_direct] == 1);
    const auto opened = reuse.onward();
    reuse.world().change({"age", "2"});
    CHECK(reuse.ask_at(backend, 33000) == backend);
    CHECK(reuse.counts()[LB_OUTCOME_flow_stack] == 1);
    CHECK(reuse.onward() == opened);
  }
}

TEST_CASE("SEM-49 another policy and another set are for new flows") {
  each_form([](Reuse& reuse) {
    constexpr std::uint16_t mix_port = 93;
    const Endpoint far{reuse.address("198.51.100.13", "2001:db8:2::13"), 8080};
    const auto opened = reuse.ask(33000, mix_port);
    REQUIRE(opened == far);
    reuse.answer();
    reuse.world().change({"external", reuse.named("mix"), "local"});
    reuse.world().change({"cluster", reuse.named("mix"), reuse.named("mix_near")});
    reuse.world().change({"age", "2"});  // the program checks a flow's backend once a second
    CHECK(reuse.ask(33000, mix_port, ack) == far);
    CHECK(reuse.ask(33001, mix_port).address == reuse.address("10.244.1.6", "fd00:244:1::6"));
  });
}

}  // namespace lb::test
