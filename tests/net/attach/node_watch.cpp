// SPDX-License-Identifier: Apache-2.0
// The rtnetlink socket in its own namespace: existing state, changes, and lost notifications.
#include "agent/netlink/node_watch.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>

#include "tests/net/lib/lab.hpp"

namespace lb::test {
namespace {

/// Runs the watch until `true_now` returns true; returns false after ten seconds.
bool comes_true(boost::asio::io_context& context, const std::function<bool()>& true_now) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!true_now() && std::chrono::steady_clock::now() < deadline) {
    context.run_one_for(std::chrono::milliseconds(50));
  }
  return true_now();
}

bool has_address(const agent::NodeWatch& watch, const std::string& text) {
  const auto all = watch.network().addresses({}, {});
  return std::ranges::any_of(all, [&](const auto& entry) { return entry.address.text() == text; });
}

bool has_default_route(const agent::NodeWatch& watch, const std::string& name) {
  return std::ranges::any_of(watch.network().links(), [&](const auto& entry) {
    return entry.second.device.name == name && entry.second.default_route4;
  });
}

bool has_device(const agent::NodeWatch& watch, const std::string& name) {
  return std::ranges::any_of(watch.network().devices(),
                             [&](const auto& entry) { return entry.second.name == name; });
}

}  // namespace

TEST_CASE("a node's addresses and devices are followed") {
  const Lab lab;
  shell("ip address add 192.0.2.1/32 dev lo");
  boost::asio::io_context context;
  int reported = 0;
  const agent::NodeWatch watch(context, [&] { ++reported; });
  REQUIRE(comes_true(context, [&] { return reported == 1; }));
  CHECK(has_address(watch, "192.0.2.1"));
  CHECK(has_device(watch, "lo"));

  shell("ip address add 192.0.2.2/32 dev lo");
  CHECK(comes_true(context, [&] { return has_address(watch, "192.0.2.2"); }));
  shell("ip address del 192.0.2.1/32 dev lo");
  CHECK(comes_true(context, [&] { return !has_address(watch, "192.0.2.1"); }));
  shell("ip link add wan0 type veth peer name wan1");
  CHECK(comes_true(context, [&] { return has_device(watch, "wan0"); }));
  shell("ip link set wan0 name wan2");
  CHECK(comes_true(context, [&] { return has_device(watch, "wan2") && !has_device(watch, "wan0"); }));
  shell("ip link del wan2");
  CHECK(comes_true(context, [&] { return !has_device(watch, "wan2"); }));
}

TEST_CASE("SEM-34 an address stays while its device has it with another prefix length") {
  const Lab lab;
  shell("ip address add 192.0.2.5/24 dev lo && ip address add 192.0.2.5/20 dev lo");
  boost::asio::io_context context;
  const agent::NodeWatch watch(context, [] {});
  REQUIRE(comes_true(context, [&] { return watch.network().whole() && has_address(watch, "192.0.2.5"); }));
  // The second address comes after the deletion.
  shell("ip address del 192.0.2.5/24 dev lo && ip address add 192.0.2.6/32 dev lo");
  REQUIRE(comes_true(context, [&] { return has_address(watch, "192.0.2.6"); }));
  CHECK(has_address(watch, "192.0.2.5"));
  shell("ip address del 192.0.2.5/20 dev lo");
  CHECK(comes_true(context, [&] { return !has_address(watch, "192.0.2.5"); }));
}

TEST_CASE("a next hop of several is known again after its device was down") {
  const Lab lab;
  shell(
      "ip link add wan0 type veth peer name far0 && ip link add wan1 type veth peer name far1 && "
      "ip address add 192.0.2.1/24 dev wan0 && ip address add 198.51.100.1/24 dev wan1 && "
      "for device in far0 far1 wan0 wan1; do ip link set $device up; done && "
      "ip route add default nexthop via 192.0.2.254 dev wan0 nexthop via 198.51.100.254 dev wan1");
  boost::asio::io_context context;
  const agent::NodeWatch watch(context, [] {}, agent::Routes::followed);
  const auto both = [&] { return has_default_route(watch, "wan0") && has_default_route(watch, "wan1"); };
  REQUIRE(comes_true(context, both));
  shell("ip link set wan1 down");
  REQUIRE(comes_true(context, [&] { return !has_default_route(watch, "wan1"); }));
  shell("ip link set wan1 up");
  CHECK(comes_true(context, both));
}

TEST_CASE("REL-43 an address that goes is reported before the routes are listed again") {
  const Lab lab;
  shell("ip address add 192.0.2.1/32 dev lo && ip address add 192.0.2.2/32 dev lo");
  boost::asio::io_context context;
  int reported = 0;
  const agent::NodeWatch watch(context, [&] { ++reported; }, agent::Routes::followed);
  REQUIRE(comes_true(context, [&] { return watch.network().whole() && has_address(watch, "192.0.2.2"); }));
  const int before = reported;
  shell("ip address del 192.0.2.1/32 dev lo");
  CHECK(comes_true(context, [&] { return reported >= before + 2; }));
  CHECK_FALSE(has_address(watch, "192.0.2.1"));
  CHECK(has_address(watch, "192.0.2.2"));
}

TEST_CASE("more changes than the socket holds are not missed") {
  const Lab lab;
  boost::asio::io_context context;
  int reported = 0;
  const agent::NodeWatch watch(context, [&] { ++reported; });
  REQUIRE(comes_true(context, [&] { return reported == 1; }));
  std::string batch;
  for (int number = 0; number < 4000; ++number) {
    batch += "address add 10.9." + std::to_string(number / 250) + "." + std::to_string(number % 250) +
             "/32 dev lo\n";
  }
  const auto file = "/tmp/lbtest-" + std::to_string(::getpid());
  std::ofstream(file) << batch;
  shell("ip -batch " + file + " && rm " + file);
  CHECK(comes_true(context, [&] { return watch.network().addresses({}, {}).size() >= 4000; }));
}

}  // namespace lb::test
