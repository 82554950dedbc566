// What clients of a service left behind, affinity and flows, when the service has changed since. SEM-49:
// policies and sets are for new flows. REL-81: where a backend id, or a pod's address, belongs to another
// service by now, nothing leads there. That a service number is not given away before nothing names it is
// tests/unit/tables/apply.cpp's and tests/prog/publish/maps.cpp's; sockets are
// tests/net/sockets/sockets.cpp's.
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
  /// "pair" is "pair_tcp4" here.
  [[nodiscard]] std::string named(const std::string& name) const {
    static const std::map<int, std::string> protocols = {{6, "_tcp"}, {17, "_udp"}, {132, "_sctp"}};
    return name + protocols.at(form_.protocol) + std::to_string(form_.family);
  }
  [[nodiscard]] Address address(const std::string& four, const std::string& six) const {
    return address_of(form_.family == 4 ? four : six);
  }
  /// A first packet of the one client to a port of the balancer; where it goes.
  Endpoint ask(std::uint16_t client_port, std::uint16_t port, std::uint8_t flags = syn) {
    const Tuple request{form_.family,
                        form_.protocol,
                        {address("192.0.2.10", "2001:db8:1::10"), client_port},
                        {address("198.19.0.1", "2001:db8:ffff::1"), port}};
    const auto verdict = world_.programs().run({.hook = Hook::tc_in, .device = world_.device("out0")},
                                               build(request, {.flags = flags, .sequence = 1000}));
    onward_ = tuple_of(verdict.packet);
    return onward_.destination;
  }
  /// The backend's answer to what was asked last.
  void answer() {
    static_cast<void>(
        world_.programs().run({.hook = Hook::tc_in, .device = world_.device("out1")},
                              build(onward_.reversed(), {.flags = syn | ack, .acknowledged = 1001})));
  }
  Endpoint first() const { return {address("198.51.100.21", "2001:db8:2::21"), 8080}; }
  Endpoint second() const { return {address("198.51.100.22", "2001:db8:2::22"), 8080}; }

  /// The first backend of "pair" is gone, and its id is one of "remote", at another address.
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
  /// The first backend of "pair" is gone, and a backend of "remote" has its address and port, under another
  /// id.
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
};

constexpr std::uint16_t remote_port = 80, pair_port = 83;

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
    CHECK(reuse.ask(33002, remote_port) == reuse.first());  // who is of that service now
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
    const bool udp = reuse.named("x") == "x_udp4" || reuse.named("x") == "x_udp6";
    for (const bool by_id : {true, false}) {
      INFO((by_id ? "id" : "address"));
      reuse.world().reset();
      REQUIRE(reuse.ask(33000, pair_port) == reuse.first());
      reuse.answer();
      REQUIRE(reuse.ask(33000, pair_port, ack) == reuse.first());
      by_id ? reuse.give_id_away() : reuse.give_address_away();
      reuse.world().change({"age", "2"});  // a backend is looked at once a second
      // TCP stays with the pod that it began with, to whatever end (SEM-47); UDP leaves (SEM-45).
      CHECK(reuse.ask(33000, pair_port, ack) == (udp ? reuse.second() : reuse.first()));
      CHECK(reuse.ask(33001, pair_port) == reuse.second());
    }
  });
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
    reuse.world().change({"age", "2"});  // a backend is looked at once a second
    CHECK(reuse.ask(33000, mix_port, ack) == far);
    CHECK(reuse.ask(33001, mix_port).address == reuse.address("10.244.1.6", "fd00:244:1::6"));
  });
}

}  // namespace lb::test
