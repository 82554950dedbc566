// SPDX-License-Identifier: Apache-2.0
// Two processors claim the same few source ports at the same time (REL-7): claims that are too old, claims
// that are replaced, and claims that become assured meanwhile. Two flows never get the same tuple.
// SLUICE_LONG=1 runs more rounds.
#include <array>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <vector>

#include "tests/lib/amount.hpp"
#include "tests/prog/lib/two_cores.hpp"
#include "tests/prog/packets/build.hpp"
#include "tests/prog/packets/maps.hpp"
#include "tests/prog/packets/world.hpp"

namespace lb::test {
namespace {

constexpr std::uint16_t ports = 8, first_port = 40000;

std::uint32_t rounds() { return amount(300U, 100'000U); }

struct Form {
  int family;
  std::uint8_t protocol;
};

constexpr std::array forms = {Form{4, 6}, Form{4, 17}, Form{6, 6}, Form{6, 17}};

Settings few_ports() {
  Settings settings;
  settings.config.first_port = first_port;
  settings.config.last_port = first_port + ports - 1;
  settings.config.high_first_port = settings.config.high_last_port = 0;
  return settings;
}

/// Makes the first port's claim `oldest` seconds older, and each following port's claim `less` fewer seconds
/// older.
template <class Key, class Flow>
void make_older(maps::HashMap<Key, Flow>& map, std::uint32_t oldest, std::uint32_t less) {
  std::vector<std::pair<Key, Flow>> claims;
  must(map.for_each([&](const Key& key, const Flow& flow) {
    if (flow.track.direction == LB_REPLY) {
      claims.emplace_back(key, flow);
    }
  }));
  for (auto& [key, flow] : claims) {
    flow.track.seen -= oldest - (less * (key.destination_port - std::uint32_t{first_port}));
    must(map.put(key, flow, maps::Put::replace));
  }
}

class Claims {
 public:
  explicit Claims(Form form) : form_(form), world_(few_ports()) {}

  /// The first packet of the next client.
  Tuple next() {
    auto client = address_of(form_.family == 4 ? "100.64.0.0" : "2001:db8:aaaa::");
    ++client_;
    client[13] = static_cast<std::uint8_t>(0x40 | client_ >> 16);
    client[14] = static_cast<std::uint8_t>(client_ >> 8);
    client[15] = static_cast<std::uint8_t>(client_);
    return {form_.family,
            form_.protocol,
            {client, 5300},
            {address_of(form_.family == 4 ? "198.19.0.1" : "2001:db8:ffff::1"), 80}};
  }

  /// Opens a flow and returns its source port; 0: none was free.
  std::uint16_t open(const Tuple& request) {
    const auto verdict = world_.programs().shoot({.hook = Hook::tc_in, .device = world_.device("out0")},
                                                 build(request, {.flags = syn}));
    const auto sent = tuple_of(verdict.packet);
    return sent == request ? std::uint16_t{0} : sent.source.port;
  }

  /// Sends a reply to that port, which makes a UDP flow assured; returns the reply's destination after
  /// translation.
  Endpoint answer(std::uint16_t port) {
    const Tuple reply{form_.family,
                      form_.protocol,
                      {address_of(form_.family == 4 ? "198.51.100.11" : "2001:db8:2::11"), 8080},
                      {address_of(form_.family == 4 ? "198.51.100.1" : "2001:db8:2::1"), port}};
    const auto verdict = world_.programs().shoot({.hook = Hook::tc_in, .device = world_.device("out1")},
                                                 build(reply, {.flags = syn | ack}));
    return tuple_of(verdict.packet).destination;
  }

  /// Leaves nothing but one claim for each port, by clients that send no more.
  void fill(std::uint32_t oldest, std::uint32_t less) {
    each_flow_map(world_.programs(), [](auto& map) { erase_if(map, [](const auto&) { return true; }); });
    for (std::uint16_t at = 0; at < ports; ++at) {
      REQUIRE(open(next()) != 0);
    }
    make_older(world_.programs().unassured4, oldest, less);
    make_older(world_.programs().unassured6, oldest, less);
  }

  std::uint64_t displaced() { return world_.programs().counts()[LB_OUTCOME_port_displaced]; }

  /// Whether a lock is still held, which would block all later claims.
  bool any_locked() {
    const int map = world_.programs().map("lb_locks");
    for (std::uint32_t at = 0; at < maps::map_info(map)->max_entries; ++at) {
      std::uint64_t lock = 1;
      must(maps::raw::get(map, &at, &lock));
      if (lock != 0) {
        return true;
      }
    }
    return false;
  }

 private:
  Form form_;
  World world_;
  std::uint32_t client_ = 0;
};

using Owners = std::map<std::uint16_t, Endpoint>;

/// Opens half as many flows as there are ports.
void open_half(Claims& claims, const std::vector<Tuple>& requests, std::vector<std::uint16_t>& got) {
  for (const auto& request : requests) {
    got.push_back(claims.open(request));
  }
}

std::vector<Tuple> next_half(Claims& claims) {
  std::vector<Tuple> requests;
  for (std::uint16_t at = 0; at < ports / 2; ++at) {
    requests.push_back(claims.next());
  }
  return requests;
}

/// Checks that every port has one owner, which receives the replies.
void check_owners(Claims& claims, const std::vector<Tuple>& requests, const std::vector<std::uint16_t>& got) {
  Owners owners;
  for (std::size_t at = 0; at < requests.size(); ++at) {
    if (got[at] != 0) {
      REQUIRE(owners.emplace(got[at], requests[at].source).second);
    }
  }
  for (const auto& [port, owner] : owners) {
    REQUIRE(claims.answer(port) == owner);
  }
}

void pause(std::uint32_t turns) {
  for (std::atomic<std::uint32_t> turn = 0; turn < turns;) {
    ++turn;
  }
}

}  // namespace

TEST_CASE("REL-7 two processors take claims over that are too old: never two flows on one tuple") {
  for (const auto form : forms) {
    INFO("protocol " << int{form.protocol} << ", IPv" << form.family);
    Claims claims(form);
    TwoCores cores;
    std::uint32_t quiet = 0;
    for (std::uint32_t round = 0; round < rounds(); ++round) {
      claims.fill(80, 0);
      const auto before = claims.displaced();
      auto mine = next_half(claims);
      const auto theirs = next_half(claims);
      std::vector<std::uint16_t> got;
      std::vector<std::uint16_t> theirs_got;
      cores.run([&] { open_half(claims, mine, got); }, [&] { open_half(claims, theirs, theirs_got); });
      if (claims.displaced() != before) {
        continue;  // a lock was held for too long, so that the program skipped its port
      }
      ++quiet;
      mine.insert(mine.end(), theirs.begin(), theirs.end());
      got.insert(got.end(), theirs_got.begin(), theirs_got.end());
      check_owners(claims, mine, got);
    }
    CHECK(quiet > rounds() / 2);
    CHECK_FALSE(claims.any_locked());
  }
}

TEST_CASE("REL-7 two processors displace the same claim: one flow gets its port") {
  for (const auto form : forms) {
    INFO("protocol " << int{form.protocol} << ", IPv" << form.family);
    Claims claims(form);
    TwoCores cores;
    for (std::uint32_t round = 0; round < rounds(); ++round) {
      claims.fill(20, 1);
      const std::vector<Tuple> requests = {claims.next(), claims.next()};
      std::vector<std::uint16_t> got(2);
      cores.run([&] { got[0] = claims.open(requests[0]); }, [&] { got[1] = claims.open(requests[1]); });
      REQUIRE((got[0] == first_port || got[1] == first_port));
      check_owners(claims, requests, got);
    }
    CHECK_FALSE(claims.any_locked());
  }
}

TEST_CASE(
    "REL-7 a claim is displaced on one processor while its flow becomes assured on another: one of both") {
  for (const int family : {4, 6}) {
    INFO("IPv" << family);
    Claims claims({family, 17});
    TwoCores cores;
    for (std::uint32_t round = 0; round < rounds(); ++round) {
      claims.fill(20, 1);
      const auto request = claims.next();
      std::uint16_t got = 0;
      cores.run(
          [&] {
            pause(round % 64 * 128);  // alternately before and after the other thread
            static_cast<void>(claims.answer(first_port));
          },
          [&] { got = claims.open(request); });
      // A late reply has made the new flow assured: the port is that flow's, too.
      if (got != 0) {
        REQUIRE(claims.answer(got) == request.source);
      }
    }
    CHECK_FALSE(claims.any_locked());
  }
}

}  // namespace lb::test
