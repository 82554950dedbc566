// SPDX-License-Identifier: Apache-2.0
// Addresses and prefixes: parsing, text form, and kinds (SEM-4, SEM-89).
#include <arpa/inet.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

#include "k8s/objects/broadcast.hpp"
#include "k8s/objects/model.hpp"
#include "tests/lib/seed.hpp"

using lb::k8s::Address;
using lb::k8s::Family;
using lb::k8s::Prefix;

TEST_CASE("k8s address: text in, canonical text out") {
  struct Row {
    const char* in;
    const char* out;  // nullptr: expect an error
    Family family = Family::ipv4;
  };
  const Row rows[] = {
      {"10.0.0.1", "10.0.0.1"},
      {"010.1.2.3", "10.1.2.3"},
      {"203.0.113.000", "203.0.113.0"},
      {"0000010.00.000.0001", "10.0.0.1"},
      {"0.0.0.0", "0.0.0.0"},
      {"255.255.255.255", "255.255.255.255"},
      {"::ffff:10.0.0.1", "10.0.0.1"},
      {"::FFFF:010.0.0.001", "10.0.0.1"},
      {"::ffff:a00:1", "10.0.0.1"},
      {"0:0:0:0:0:ffff:10.0.0.1", "10.0.0.1"},
      {"2001:DB8::0001", "2001:db8::1", Family::ipv6},
      {"2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1", Family::ipv6},
      {"2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1", Family::ipv6},
      {"::", "::", Family::ipv6},
      {"::1", "::1", Family::ipv6},
      {"::1.2.3.4", "::102:304", Family::ipv6},
      {"64:ff9b::1.2.3.4", "64:ff9b::102:304", Family::ipv6},
      {"1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0", Family::ipv6},
      {"", nullptr},
      {" 10.0.0.1", nullptr},
      {"10.0.0.1 ", nullptr},
      {"10.0.0", nullptr},
      {"10.0.0.1.2", nullptr},
      {"10.0.0.256", nullptr},
      {"10.0.0.-1", nullptr},
      {"10..0.1", nullptr},
      {"0x0a.0.0.1", nullptr},
      {"10.0.0.1/8", nullptr},
      {"fe80::1%eth0", nullptr},
      {"[::1]", nullptr},
      {"1:2:3:4:5:6:7:8:9", nullptr},
      {"1:2:3:4:5:6:7::8", nullptr},
      {"::1::", nullptr},
      {":::", nullptr},
      {"12345::", nullptr},
      {"::ffff:10.0.0", nullptr},
      {"::ffff:256.0.0.1", nullptr},
      {"g::", nullptr},
      {"None", nullptr},
      {"1.2.3.4:80", nullptr},
  };
  for (const auto& row : rows) {
    CAPTURE(row.in);
    const auto address = Address::parse(row.in);
    REQUIRE(address.has_value() == (row.out != nullptr));
    if (address) {
      CHECK(address->text() == row.out);
      CHECK(address->family() == row.family);
      CHECK(Address::parse(address->text()) == address);
    }
  }
}

TEST_CASE("k8s address: hostile lengths and bytes are refused") {
  CHECK_FALSE(Address::parse(std::string(1'000'000, '1')));
  CHECK_FALSE(Address::parse(std::string(1'000'000, ':')));
  CHECK_FALSE(Address::parse(std::string_view("10.0.0.1\0", 9)));
  CHECK_FALSE(Address::parse(std::string(100, '.')));
}

TEST_CASE("k8s address: kinds") {
  struct Row {
    const char* text;
    const char* kinds;  // u: unspecified, l: loopback, k: link-local, m: multicast, b: broadcast
  };
  const Row rows[] = {{"0.0.0.0", "u"},
                      {"::", "u"},
                      {"127.0.0.1", "l"},
                      {"127.255.255.255", "l"},
                      {"::1", "l"},
                      {"169.254.1.1", "k"},
                      {"fe80::1", "k"},
                      {"febf::1", "k"},
                      {"fec0::1", ""},
                      {"224.0.0.1", "m"},
                      {"239.1.1.1", "m"},
                      {"240.0.0.1", ""},
                      {"255.255.255.255", "b"},
                      {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "m"},
                      {"ff02::1", "m"},
                      {"10.0.0.1", ""},
                      {"::2", ""},
                      {"::ffff:127.0.0.1", "l"},
                      {"2001:db8::1", ""},
                      {"1::1", ""}};
  for (const auto& row : rows) {
    CAPTURE(row.text);
    const auto address = Address::parse(row.text).value();
    std::string kinds;
    kinds += address.unspecified() ? "u" : "";
    kinds += address.loopback() ? "l" : "";
    kinds += address.link_local() ? "k" : "";
    kinds += address.multicast() ? "m" : "";
    kinds += address.broadcast() ? "b" : "";
    CHECK(kinds == row.kinds);
  }
}

TEST_CASE("REL-121 an IPv4 subnet's broadcast address is its last one") {
  struct Row {
    const char* subnet;
    const char* broadcast;
  };
  const Row rows[] = {
      {"10.0.0.0/8", "10.255.255.255"}, {"192.0.2.0/24", "192.0.2.255"}, {"192.0.2.64/26", "192.0.2.127"},
      {"192.0.2.4/30", "192.0.2.7"},    {"192.0.2.4/31", nullptr},       {"192.0.2.4/32", nullptr},
      {"0.0.0.0/0", "255.255.255.255"}, {"2001:db8::/64", nullptr},      {"::/0", nullptr}};
  for (const auto& row : rows) {
    CAPTURE(row.subnet);
    const auto broadcast = broadcast_of(Prefix::parse(row.subnet).value());
    REQUIRE(broadcast.has_value() == (row.broadcast != nullptr));
    if (broadcast) {
      CHECK(broadcast->text() == row.broadcast);
    }
  }
  Prefix unmasked{Address::parse("192.0.2.130").value(), 96 + 26};  // as a device's address has it
  CHECK(broadcast_of(unmasked) == Address::parse("192.0.2.191"));
  unmasked.length = 40;  // of no IPv4 subnet
  CHECK_FALSE(broadcast_of(unmasked));
}

TEST_CASE("k8s prefix: text in, canonical text out") {
  struct Row {
    const char* in;
    const char* out;
    unsigned length;
  };
  const Row rows[] = {
      {"10.0.0.0/8", "10.0.0.0/8", 104},
      {"10.1.2.3/8", "10.0.0.0/8", 104},
      {"203.0.113.000/025", "203.0.113.0/25", 121},
      {"0.0.0.0/0", "0.0.0.0/0", 96},
      {"1.2.3.4/32", "1.2.3.4/32", 128},
      {"::/0", "::/0", 0},
      {"2001:db8:ffff::/33", "2001:db8:8000::/33", 33},
      {"::ffff:10.0.0.0/104", "10.0.0.0/8", 104},
      {"10.0.0.0", nullptr, 0},
      {"10.0.0.0/", nullptr, 0},
      {"10.0.0.0/33", nullptr, 0},
      {"10.0.0.0/-1", nullptr, 0},
      {"10.0.0.0/+8", nullptr, 0},
      {"10.0.0.0/8/8", nullptr, 0},
      {"::/129", nullptr, 0},
      {"::ffff:10.0.0.0/95", nullptr, 0},
      {"/8", nullptr, 0},
      {" 10.0.0.0/8", nullptr, 0},
      {"10.0.0.0/99999999999", nullptr, 0},
  };
  for (const auto& row : rows) {
    CAPTURE(row.in);
    const auto prefix = Prefix::parse(row.in);
    REQUIRE(prefix.has_value() == (row.out != nullptr));
    if (prefix) {
      CHECK(prefix->text() == row.out);
      CHECK(prefix->length == row.length);
    }
  }
}

TEST_CASE("k8s prefix: contains only its own family") {
  const auto contains = [](const char* prefix, const char* address) {
    return Prefix::parse(prefix).value().contains(Address::parse(address).value());
  };
  CHECK(contains("10.0.0.0/8", "10.255.0.1"));
  CHECK_FALSE(contains("10.0.0.0/8", "11.0.0.1"));
  CHECK(contains("10.0.0.0/31", "10.0.0.1"));
  CHECK_FALSE(contains("10.0.0.0/31", "10.0.0.2"));
  CHECK(contains("0.0.0.0/0", "1.2.3.4"));
  CHECK_FALSE(contains("0.0.0.0/0", "2001:db8::1"));
  CHECK(contains("::/0", "2001:db8::1"));
  CHECK_FALSE(contains("::/0", "1.2.3.4"));
  CHECK(contains("2001:db8::/32", "2001:db8:1::1"));
}

TEST_CASE("k8s address: colons and digits in any order are what the C library takes them for") {
  const auto seed = lb::test::seed();
  CAPTURE(seed);
  std::minstd_rand random(seed);
  constexpr std::string_view letters = "01f:::::";
  for (int round = 0; round < 200'000; ++round) {
    std::string text(random() % 24, ' ');
    for (auto& letter : text) {
      letter = letters[random() % letters.size()];
    }
    CAPTURE(text);
    std::array<std::uint8_t, 16> bytes{};
    const bool is_one = inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1;
    const auto address = Address::parse(text);
    REQUIRE(address.has_value() == is_one);
    if (is_one) {
      REQUIRE(address->bytes == bytes);
    }
  }
}
