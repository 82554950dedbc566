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
constexpr std::uint32_t hops_a_batch = 200;  // below the TTL
constexpr std::uint32_t new_a_batch = 64;    // so few that their ports seldom meet

/// All on the network of one device.
struct Names {
  const char* client;
  const char* node;
  std::array<const char*, 2> frontends;
};
[[nodiscard]] const Names& names_of(int family);

[[nodiscard]] test::Address address(const std::string& text);

/// The device in the calling thread's network namespace; its interface index.
[[nodiscard]] std::uint32_t make_network();
/// The address of that device: what is not for it gets no answer.
inline constexpr test::Mac device_mac = {2, 0, 0, 0, 0, 0x10};

/// What the two services are like.
struct Shape {
  std::uint32_t slots = 10'000;  ///< in all
  int family = 4;
  std::uint8_t protocol = 6;
  std::uint16_t first_port = client_port;  ///< for source NAT
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

  /// The XDP program to the device, in place of another mirror's. No packet arrives there: it gives the
  /// device queues to name, and a program that is attached nowhere costs two grace periods a run.
  void attach();

  /// By which source ports are chosen.
  void set_secret(std::uint64_t secret);
  /// Another secret, and another source address of new flows: what was new a batch ago is so again.
  void renew(std::uint64_t drawn);
  /// Clients of these addresses may reach the services: `bits` of the address count.
  void allow(const std::string& text, std::uint32_t bits);

  /// Each call makes the flows that there are now seen a second earlier than they were.
  [[nodiscard]] std::function<void()> aging();

  test::Verdict run(test::Hook hook, const test::Bytes& packet, std::uint32_t repeat);
  /// Mean nanoseconds of one run; 0 unless the outcome was counted `repeat` times.
  double batch(test::Hook hook, const test::Bytes& packet, lb_outcome outcome, std::uint32_t repeat);

  /// Of that client, to one of the two frontends.
  [[nodiscard]] test::Tuple request(const char* client, int frontend) const;
  /// Two flows in lb_flows between which an established packet goes to and fro: requests are seen at `there`,
  /// replies at `back`.
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
