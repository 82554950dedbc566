// SPDX-License-Identifier: Apache-2.0
// The order of backends (SEM-29) and which of equal endpoints counts (SEM-4, SEM-30).
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_random.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "build.hpp"
#include "tests/lib/seed.hpp"

namespace lb::test {
namespace {

using Place = std::pair<k8s::Address, std::uint16_t>;

std::string text_of(const Place& place) {
  const auto address = place.first.text();
  const bool brackets = place.first.family() == k8s::Family::ipv6;
  return (brackets ? "[" + address + "]" : address) + ":" + std::to_string(place.second);
}

/// Small bytes and zeros are frequent, because for them the text's order and the number's differ.
Place random_place(std::mt19937& random, k8s::Family family) {
  const auto byte = [&] {
    const auto kind = random() % 4;
    return static_cast<std::uint8_t>(kind == 0 ? random() % 256 : kind == 1 ? random() % 12 : 0);
  };
  Place place{address("0.0.0.0"), static_cast<std::uint16_t>(random() % (random() % 2 == 0 ? 65536 : 100))};
  auto& bytes = place.first.bytes;
  if (family == k8s::Family::ipv6) {
    bytes[0] = 0xfd;
  }
  const std::size_t first = family == k8s::Family::ipv6 ? 1 : 12;
  for (std::size_t i = first; i < bytes.size(); ++i) {
    bytes.at(i) = byte();
  }
  return place;
}

TEST_CASE("order keys compare as the text does (SEM-29)") {
  const auto seed = test::seed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (const auto family : {k8s::Family::ipv4, k8s::Family::ipv6}) {
    for (int i = 0; i < 20000; ++i) {
      const auto left = random_place(random, family);
      auto right = random_place(random, family);
      if (i % 3 == 0) {
        right.first = left.first;
      }
      CAPTURE(text_of(left), text_of(right));
      const bool by_text = text_of(left) < text_of(right);
      REQUIRE((agent::OrderKey(left.first, left.second) < agent::OrderKey(right.first, right.second)) ==
              by_text);
    }
  }
}

std::vector<std::string> backends(const std::vector<k8s::EndpointSlice>& slices) {
  std::vector<std::string> found;
  for (auto& line : planned(service(), slices)) {
    if (line.starts_with("backend default/web TCP ")) {
      found.push_back(line.substr(24));
    }
  }
  return found;
}

using Lines = std::vector<std::string>;

TEST_CASE("backends are sorted by their text, whatever the order of slices (SEM-29)") {
  const auto one = slice("one", {"10.1.0.9", "10.1.0.10"});
  const auto two = slice("two", {"10.1.0.100", "9.1.0.1"});
  const Lines wanted = {"10.1.0.100:8080 elsewhere cluster serving",
                        "10.1.0.10:8080 elsewhere cluster serving", "10.1.0.9:8080 elsewhere cluster serving",
                        "9.1.0.1:8080 elsewhere cluster serving"};
  CHECK(backends({one, two}) == wanted);
  CHECK(backends({two, one}) == wanted);
}

struct Conflict {
  std::string name;
  std::string first;   ///< the endpoint in slice "a"
  std::string second;  ///< the endpoint in slice "b"
  std::string wanted;
};

const std::vector<Conflict> conflicts = {
    {"non-terminating wins over terminating", "10.1.0.1 terminating", "10.1.0.1 unready node=this",
     "same-node serving"},
    {"then ready wins", "10.1.0.1 unready", "10.1.0.1 node=this", "same-node cluster serving"},
    {"then serving wins", "10.1.0.1 unready unserving", "10.1.0.1 unready node=this", "same-node serving"},
    {"then the smaller slice name wins", "10.1.0.1 node=this", "10.1.0.1", "same-node cluster serving"},
    {"terminating but ready is worse than neither", "10.1.0.1 terminating", "10.1.0.1 unready unserving", ""},
};

TEST_CASE("one endpoint in two slices counts once (SEM-4, SEM-30)") {
  for (const auto& row : conflicts) {
    DYNAMIC_SECTION(row.name) {
      const Lines wanted = row.wanted.empty() ? Lines{} : Lines{"10.1.0.1:8080 " + row.wanted};
      CHECK(backends({slice("a", {row.first}), slice("b", {row.second})}) == wanted);
      CHECK(backends({slice("b", {row.second}), slice("a", {row.first})}) == wanted);
    }
  }
}

TEST_CASE("an endpoint twice in one slice counts once") {
  CHECK(backends({slice("a", {"10.1.0.1", "10.1.0.1"})}) == Lines{"10.1.0.1:8080 elsewhere cluster serving"});
}

TEST_CASE("an address of another family than its slice's is left out (SEM-4)") {
  CHECK(backends({slice("a", {"10.1.0.1", "fd00::1"})}) == Lines{"10.1.0.1:8080 elsewhere cluster serving"});
}

}  // namespace
}  // namespace lb::test
