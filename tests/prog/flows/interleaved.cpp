// SPDX-License-Identifier: Apache-2.0
// Tasks of different priorities process packets on one CPU (REL-120): no packet is mixed up with another's,
// and every one is counted. Only on PREEMPT_RT do tasks preempt one another within a program, so this proves
// something in the guest with such a kernel (tests/kernels/realtime.sh).
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <array>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "agent/programs/features.hpp"
#include "tests/prog/lib/two_cores.hpp"
#include "tests/prog/packets/build.hpp"
#include "tests/prog/packets/maps.hpp"
#include "tests/prog/packets/world.hpp"

namespace lb::test {
namespace {

struct Form {
  Hook hook;
  int family;
};

constexpr std::array forms = {Form{Hook::tc_in, 4}, Form{Hook::tc_in, 6}, Form{Hook::xdp, 4},
                              Form{Hook::xdp, 6}};

/// Packets of the task with the lowest priority; the others send until it has finished. As many in a guest,
/// which is where tasks interleave.
constexpr std::uint16_t packets = 1000;
constexpr std::uint16_t first_port = 2000;
constexpr std::uint8_t tasks = 3;

Settings settings_here() {
  Settings settings;
  settings.unassured = 1U << 18U;
  settings.config.preemptible = agent::is_realtime() ? LB_YES : LB_NO;
  return settings;
}

/// One client, whose packets one task sends: each opens a flow.
class Client {
 public:
  Client(World& world, Form form, std::uint8_t number) : world_(world), form_(form), number_(number) {}

  void send(std::uint16_t at) {
    const Tuple request{form_.family, 17, client(at), {address("198.19.0.1", "2001:db8:ffff::1"), 80}};
    const auto verdict =
        world_.programs().shoot({.hook = form_.hook, .device = world_.device("out0")}, build(request, {}));
    const auto sent = tuple_of(verdict.packet);
    ++sent_;
    if (sent == request) {
      return;  // dropped, or left to tc
    }
    wrong_ += sent.destination == server() ? 0 : 1;
    ports_.emplace_back(sent.source.port, at);
  }

  /// Sends while higher priorities let it; sleeps between packets, so that lower ones get on.
  void send_until(const std::atomic<bool>& stop) {
    for (std::uint16_t at = 0; !stop && at < UINT16_MAX - first_port; ++at) {
      send(at);
      const timespec pause{0, 100'000L * (1 + at % 7)};
      ::nanosleep(&pause, nullptr);
    }
  }

  /// Replies to the ports that this client's flows got come back to it.
  void check_replies() {
    std::map<std::uint16_t, std::uint16_t> owners;
    for (const auto& [port, at] : ports_) {
      INFO("client " << int{number_} << ", flow " << at << ", source port " << port);
      REQUIRE(owners.emplace(port, at).second);
      const Tuple reply{form_.family, 17, server(), {address("198.51.100.1", "2001:db8:2::1"), port}};
      const auto verdict =
          world_.programs().shoot({.hook = Hook::tc_in, .device = world_.device("out1")}, build(reply, {}));
      REQUIRE(tuple_of(verdict.packet).destination == client(at));
    }
  }

  [[nodiscard]] std::uint64_t sent() const { return sent_; }
  [[nodiscard]] std::uint64_t wrong() const { return wrong_; }
  [[nodiscard]] std::uint64_t opened() const { return ports_.size(); }

 private:
  [[nodiscard]] std::array<std::uint8_t, 16> address(const char* v4, const char* v6) const {
    return address_of(form_.family == 4 ? v4 : v6);
  }
  [[nodiscard]] Endpoint server() const { return {address("198.51.100.11", "2001:db8:2::11"), 8080}; }
  [[nodiscard]] Endpoint client(std::uint16_t at) const {
    auto own = address("100.64.7.0", "2001:db8:aaaa::");
    own[15] = static_cast<std::uint8_t>(number_ + 1);
    return {own, static_cast<std::uint16_t>(first_port + at)};
  }

  World& world_;
  Form form_;
  std::uint8_t number_;
  std::uint64_t sent_ = 0, wrong_ = 0;
  std::vector<std::pair<std::uint16_t, std::uint16_t>> ports_;
};

/// Lets the calling thread preempt those of lower priority on the first CPU.
void take_priority(int priority) {
  stay_on(0);
  const sched_param wanted{.sched_priority = priority};
  if (::pthread_setschedparam(::pthread_self(), SCHED_FIFO, &wanted) != 0) {
    std::abort();
  }
}

/// How often a packet's last outcome was counted.
std::uint64_t finished(const Counts& counts) {
  std::uint64_t sum = 0;
  for (const auto outcome :
       {LB_OUTCOME_new_remote, LB_OUTCOME_new_xdp, LB_OUTCOME_left_to_tc, LB_OUTCOME_scratch_busy,
        LB_OUTCOME_flow_table_full, LB_OUTCOME_ports_exhausted}) {
    sum += counts[outcome];
  }
  return sum;
}

/// All clients send at once; the first one has the lowest priority.
void send_all(std::vector<Client>& clients) {
  std::atomic<bool> stop = false;
  std::vector<std::thread> others;
  for (std::size_t at = 1; at < clients.size(); ++at) {
    others.emplace_back([&stop, &client = clients[at], at] {
      take_priority(static_cast<int>(at));
      client.send_until(stop);
    });
  }
  const OnOneCpu here;
  stay_on(0);
  for (std::uint16_t at = 0; at < packets; ++at) {
    clients[0].send(at);
  }
  stop = true;
  for (auto& other : others) {
    other.join();
  }
}

}  // namespace

TEST_CASE("REL-120 tasks that preempt one another on one CPU do not mix up their packets") {
  for (const auto form : forms) {
    INFO(hook_name(form.hook) << ", IPv" << form.family);
    World world(settings_here());
    std::vector<Client> clients;
    for (std::uint8_t number = 0; number < tasks; ++number) {
      clients.emplace_back(world, form, number);
    }
    send_all(clients);
    const auto counts = world.programs().counts();
    std::uint64_t sent = 0, opened = 0;
    for (const auto& client : clients) {
      CHECK(client.wrong() == 0);
      sent += client.sent();
      opened += client.opened();
    }
    INFO(counts_text(counts));
    CHECK(finished(counts) == sent);
    CHECK(opened > sent / 2);
    for (auto& client : clients) {
      client.check_replies();
    }
  }
}

}  // namespace lb::test
