// SPDX-License-Identifier: Apache-2.0
// REL-134: one bound for the connections of many servers, of which every client has a share.
#include "agent/observe/connection_pool.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/base/descriptors.hpp"

namespace lb::agent {
namespace {

/// A pool whose connections say when they are closed, as "CLIENTn".
struct Crowd {
  std::shared_ptr<ConnectionPool> pool;
  std::map<std::string, ConnectionPool::Place> places = {};
  std::vector<std::string> closed = {};

  explicit Crowd(std::size_t limit) : pool(std::make_shared<ConnectionPool>(limit)) {}
  void connect(const std::string& client, int number) {
    const auto name = client + std::to_string(number);
    auto place = pool->admit(client, [this, name] { closed.push_back(name); });
    places.emplace(name, std::move(place));
  }
  void end(const std::string& name) { places.erase(name); }
};

std::string client(std::initializer_list<unsigned char> bytes) {
  const std::vector<unsigned char> address(bytes);
  return client_of(address.data(), address.size());
}

}  // namespace

TEST_CASE("REL-134 at the bound, the client with most connections loses its oldest one") {
  Crowd crowd(4);
  crowd.connect("a", 1);
  crowd.connect("b", 1);
  crowd.connect("a", 2);
  crowd.connect("a", 3);
  CHECK(crowd.closed.empty());
  crowd.connect("c", 1);
  CHECK(crowd.closed == std::vector<std::string>{"a1"});
  crowd.connect("a", 4);
  CHECK(crowd.closed == std::vector<std::string>{"a1", "a2"});
  CHECK(crowd.pool->size() == 4);
  // A connection that has made room ends like any other; room that is free is used first.
  crowd.end("a1");
  crowd.end("b1");
  CHECK(crowd.pool->size() == 3);
  crowd.connect("d", 1);
  CHECK(crowd.closed.size() == 2);
}

TEST_CASE("REL-134 a client that holds thousands of connections closes none of another") {
  Crowd crowd(64);
  crowd.connect("probe", 1);
  for (int number = 0; number < 5000; ++number) {
    crowd.connect("hostile", number);
  }
  CHECK(crowd.pool->size() == 64);
  CHECK(crowd.closed.size() == 5001 - 64);
  CHECK(crowd.closed.front() == "hostile0");
  CHECK(std::ranges::find(crowd.closed, "probe1") == crowd.closed.end());
  crowd.places.clear();
  CHECK(crowd.pool->size() == 0);
}

TEST_CASE("REL-134 of clients with one connection each the oldest makes room, whatever its address") {
  Crowd crowd(4);
  for (const auto* name : {"b", "z", "a", "y"}) {
    crowd.connect(name, 1);
  }
  crowd.connect("m", 1);
  CHECK(crowd.closed == std::vector<std::string>{"b1"});
  crowd.connect("probe", 1);
  CHECK(crowd.closed.back() == "z1");
  crowd.end("a1");  // the next oldest
  crowd.connect("c", 1);
  crowd.connect("d", 1);
  CHECK(crowd.closed.back() == "y1");
  crowd.connect("d", 2);
  CHECK(crowd.closed.back() == "m1");
  crowd.connect("e", 1);
  CHECK(crowd.closed.back() == "d1");
}

TEST_CASE("REL-134 a pool outlives its servers as long as a connection has a place in it") {
  Crowd crowd(1);
  crowd.connect("a", 1);
  crowd.pool.reset();
  crowd.places.clear();
}

TEST_CASE("REL-134 an IPv6 client is a /64, and an IPv4 client the same by both families") {
  CHECK(client({10, 0, 0, 1}) != client({10, 0, 0, 2}));
  CHECK(client({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1}) == client({10, 0, 0, 1}));
  CHECK(client({0xfd, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1}) ==
        client({0xfd, 0, 0, 0, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9}));
  CHECK(client({0xfd, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1}) !=
        client({0xfd, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1}));
}

TEST_CASE("REL-134 half of the descriptors, or 512, are never given to others") {
  for (const std::size_t limit : {0U, 64U, 1024U, 4096U, 1U << 20U}) {
    const auto shares = descriptor_shares(limit);
    CHECK(limit - shares.listeners - shares.clients >= std::min<std::size_t>(limit / 2, 512));
  }
  CHECK(descriptor_shares(1024).listeners == 256);
  CHECK(descriptor_shares(1024).clients == 256);
  CHECK(descriptor_shares(1U << 20U).listeners == 4096);
  CHECK(descriptor_shares(1U << 20U).clients == 1024);
}

}  // namespace lb::agent
