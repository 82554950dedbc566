// SPDX-License-Identifier: Apache-2.0
// Two services that mirror each other: the backend of one is the frontend of the other. So a program
// recognizes a packet that it has rewritten, and a test run can repeat on one buffer. For bench/programs.cpp
// and bench/paths.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "tests/prog/lib/harness.hpp"
#include "tests/prog/packets/build.hpp"

namespace lb::bench {

constexpr std::uint16_t service_port = 80;
constexpr std::uint16_t client_port = 5000;
constexpr std::uint32_t hops_per_batch = 200;  // below the TTL
constexpr std::uint32_t new_per_batch = 64;    // so few that their ports seldom collide

/// Addresses, all on the network of one device.
struct Names {
  const char* client;
  const char* node;
  std::array<const char*, 2> frontends;
};
[[nodiscard]] const Names& names_of(int family);

[[nodiscard]] test::Address address(const std::string& text);

/// Makes the device in the calling thread's network namespace; returns its interface index.
[[nodiscard]] std::uint32_t make_network();
/// The device's address; frames to other addresses are ignored.
inline constexpr test::Mac device_mac = {2, 0, 0, 0, 0, 0x10};

/// The properties of the two services.
struct Shape {
  std::uint32_t slots = 10'000;  ///< of both services together
  int family = 4;
  std::uint8_t protocol = 6;
  std::uint16_t first_port = client_port;  ///< port range of source NAT
  std::uint16_t last_port = client_port;
  lb_locality locality = LB_ELSEWHERE;
  lb_device_kind device = LB_UPLINK;
  lb_policy policy{};
  std::uint32_t affinity_seconds = 0;
  bool empty = false;  ///< no endpoints
};

class Mirror {
 public:
  Mirror(const Shape& shape, std::uint32_t device);

  /// Attaches the XDP program to the device, in place of another mirror's. No packet arrives there: it allows
  /// test runs to set the device's queues, and a test run of a program that is attached nowhere costs two
  /// grace periods.
  void attach();

  /// Sets the secret that selects source ports.
  void set_secret(std::uint64_t secret);
  /// Sets another secret, and another source address of new flows, so that the next batch's flows are new
  /// again.
  void renew(std::uint64_t drawn);
  /// Allows clients from this prefix to reach the services; `bits` is its length.
  void allow(const std::string& text, std::uint32_t bits);

  /// Each call of the result makes the current flows' last packet a second older.
  [[nodiscard]] std::function<void()> aging();

  test::Verdict run(test::Hook hook, const test::Bytes& packet, std::uint32_t repeat);
  /// Mean nanoseconds of one run; 0 unless the outcome was counted `repeat` times.
  double batch(test::Hook hook, const test::Bytes& packet, lb_outcome outcome, std::uint32_t repeat);

  /// A request of that client to one of the two frontends.
  [[nodiscard]] test::Tuple request(const char* client, int frontend) const;
  /// Opens two flows in lb_flows between which an established packet goes back and forth: requests are seen
  /// at `there`, replies at `back`.
  void establish_pair(test::Hook there, test::Hook back);

 private:
  void add_service(int number);
  void add_frontend(std::uint32_t service, const test::Address& at);
  void set_source(const std::string& text);
  void establish(const test::Tuple& request, test::Hook there, test::Hook back);

  Shape shape_;
  test::Programs programs_;
  std::uint32_t device_;
};

}  // namespace lb::bench
