// SPDX-License-Identifier: Apache-2.0
// Memory that the kernel frees for the agent delays no packet (REL-75): messages go to and fro during the
// freeing, on the same processor, and, for comparison, without it. Only the long form checks the longest
// delay, and takes the best of several rounds: a stall occurs in each round, noise does not.
#include <bpf/bpf.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "agent/attach/layout_migration.hpp"
#include "tests/net/lib/pod_scene.hpp"

namespace lb::test {
namespace {

constexpr std::uint32_t ranges = LB_MAX_RANGES;
constexpr std::uint32_t flows = 200'000;
constexpr double late = 10;  // milliseconds

bool is_long() { return std::getenv("SLUICE_LONG") != nullptr; }
int rounds() { return is_long() ? 5 : 1; }

/// The calling thread stays on this process's first processor until the object is destroyed: there its
/// requests are sent and answered, and there the kernel frees what the thread gives back.
class OnOneProcessor {
 public:
  OnOneProcessor() {
    REQUIRE(::sched_getaffinity(0, sizeof(before_), &before_) == 0);
    int first = 0;
    while (!CPU_ISSET(first, &before_)) {
      ++first;
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    REQUIRE(::sched_setaffinity(0, sizeof(one), &one) == 0);
  }
  OnOneProcessor(const OnOneProcessor&) = delete;
  OnOneProcessor& operator=(const OnOneProcessor&) = delete;
  ~OnOneProcessor() { ::sched_setaffinity(0, sizeof(before_), &before_); }

 private:
  cpu_set_t before_{};
};

/// The calling thread runs before all threads of a lower priority, and before those without one (0).
void set_priority(int priority) {
  const sched_param parameters{.sched_priority = priority};
  if (::sched_setscheduler(0, priority > 0 ? SCHED_FIFO : SCHED_OTHER, &parameters) != 0) {
    throw std::runtime_error("cannot set a real-time priority");
  }
}

/// Sends a message from outside to the pod each millisecond, and each is answered. Only the kernel can delay
/// them: both threads have real-time priority. Late is an answer after the time at which its message was due,
/// so a time without any messages counts, too.
class Exchange {
 public:
  explicit Exchange(const PodScene& scene)
      : server_(scene.server.socket(AF_INET, SOCK_DGRAM)),
        client_(scene.outside.socket(AF_INET, SOCK_DGRAM)) {
    const auto where = end(names(AF_INET).server, 5353);
    REQUIRE(server_.bind(where) == 0);
    REQUIRE(client_.connect(where) == 0);
    // They inherit the processor.
    answering_ = std::jthread([this](const std::stop_token& stop) { answer(stop); });
    sending_ = std::jthread([this](const std::stop_token& stop) { send(stop); });
  }

  /// Waits for that many more answers; returns false after a minute.
  [[nodiscard]] bool await(std::uint32_t count) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    const auto wanted = answers_ + count;
    while (answers_ < wanted && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return answers_ >= wanted;
  }

  /// Ends; returns the latest answer's delay in milliseconds, nullopt if an answer is missing.
  [[nodiscard]] std::optional<double> slowest() {
    sending_ = {};
    answering_ = {};
    return lost_ > 0 ? std::nullopt : std::optional(slowest_);
  }

 private:
  void answer(const std::stop_token& stop) const {
    set_priority(1);
    while (!stop.stop_requested()) {
      static_cast<void>(echo_once(server_));
    }
  }
  void send(const std::stop_token& stop) {
    set_priority(1);
    for (auto due = std::chrono::steady_clock::now(); !stop.stop_requested();
         due += std::chrono::milliseconds(1)) {
      std::this_thread::sleep_until(due);
      if (client_.send("still there?") != 0 || !client_.receive()) {
        ++lost_;
        continue;
      }
      const auto now = std::chrono::steady_clock::now();
      slowest_ = std::max(slowest_, std::chrono::duration<double, std::milli>(now - due).count());
      ++answers_;
    }
  }

  Socket server_;
  Socket client_;
  std::atomic<std::uint32_t> answers_ = 0;
  std::uint32_t lost_ = 0;
  double slowest_ = 0;
  std::jthread answering_;
  std::jthread sending_;
};

/// Exchanges messages from before `act` until after it, on the processor of `act`. Returns the slowest
/// exchange in milliseconds, nullopt if a message was lost.
std::optional<double> slowest_exchange(const PodScene& scene, const std::function<void()>& act) {
  const OnOneProcessor here;
  const std::uint32_t around = is_long() ? 1000 : 100;
  Exchange exchange(scene);
  CHECK(exchange.await(around));
  act();
  CHECK(exchange.await(around));
  return exchange.slowest();
}

/// The smallest of several rounds' slowest exchanges.
double slowest_of_best(const PodScene& scene, const std::function<void()>& prepare,
                       const std::function<void()>& act) {
  std::vector<double> all;
  for (int round = 0; round < rounds(); ++round) {
    prepare();
    const auto slowest = slowest_exchange(scene, act);
    REQUIRE(slowest);
    all.push_back(*slowest);
  }
  return *std::ranges::min_element(all);
}

void check_delay(const PodScene& scene, const std::function<void()>& prepare,
                 const std::function<void()>& act) {
  const auto nothing = [] {};
  const auto alone = slowest_of_best(scene, nothing, nothing);
  const auto beside = slowest_of_best(scene, prepare, act);
  if (is_long()) {
    WARN(fmt::format("slowest exchange: {:.2f} ms, beside the freeing {:.2f} ms", alone, beside));
    CHECK(beside < alone + late);
  }
}

/// What a kernel does that frees too much at once: nothing else runs on the processor.
void stall(std::chrono::milliseconds time) {
  set_priority(2);
  const auto until = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < until) {
  }
  set_priority(0);
}

lb_range_key range_number(std::uint32_t number) {
  lb_range_key key{};
  key.prefix = 32 + 128 - number % 32;
  key.service = 1;
  key.address[0] = 0xfd;
  std::memcpy(key.address + 8, &number, sizeof(number));
  return key;
}

struct Kind {
  bpf_map_type type;
  const char* name;
  std::uint32_t key_size;
  std::uint32_t value_size;
  std::uint32_t entries;
  std::uint32_t flags;
};

maps::Fd pinned_map(const std::string& directory, const Kind& kind) {
  bpf_map_create_opts options{};
  options.sz = sizeof(options);
  options.map_flags = kind.flags;
  maps::Fd map(bpf_map_create(kind.type, kind.name, kind.key_size, kind.value_size, kind.entries, &options));
  REQUIRE(map);
  REQUIRE(bpf_obj_pin(map.get(), (directory + "/" + kind.name).c_str()) == 0);
  return map;
}

void fill_ranges(int map) {
  const lb_range value{.service = 1};
  for (std::uint32_t number = 0; number < ranges; ++number) {
    const auto key = range_number(number);
    REQUIRE(bpf_map_update_elem(map, &key, &value, BPF_ANY) == 0);
  }
}

void fill_flows(int map) {
  const lb_flow6 value{};
  for (std::uint32_t number = 0; number < flows; ++number) {
    lb_flow6_key key{};
    std::memcpy(&key, &number, sizeof(number));
    REQUIRE(bpf_map_update_elem(map, &key, &value, BPF_ANY) == 0);
  }
}

/// Pins full tables of another map layout.
void pin_other_layout(const maps::Pins& pins) {
  for (const auto& directory : {pins.base(), pins.version(), pins.maps(), pins.links()}) {
    ::mkdir(directory.c_str(), 0700);
  }
  fill_ranges(pinned_map(pins.maps(), {BPF_MAP_TYPE_LPM_TRIE, "lb_ranges", sizeof(lb_range_key),
                                       sizeof(lb_range), ranges, BPF_F_NO_PREALLOC})
                  .get());
  fill_flows(pinned_map(pins.maps(), {BPF_MAP_TYPE_HASH, "lb_flows6", sizeof(lb_flow6_key), sizeof(lb_flow6),
                                      flows, BPF_F_NO_PREALLOC})
                 .get());
  fill_flows(pinned_map(pins.maps(), {BPF_MAP_TYPE_LRU_HASH, "lb_unassured6", sizeof(lb_flow6_key),
                                      sizeof(lb_flow6), LB_MAX_UNASSURED, 0})
                 .get());
}

}  // namespace

TEST_CASE("REL-75 a stall of the processor is seen") {
  PodScene scene(Wiring::routed);
  REQUIRE(scene.attach().failure().empty());
  static constexpr std::chrono::milliseconds time{3 * static_cast<int>(late)};
  const auto slowest = slowest_exchange(scene, [] { stall(time); });
  REQUIRE(slowest);
  CHECK(*slowest >= static_cast<double>(time.count()) - 2);
}

TEST_CASE("REL-75 ranges of a service are deleted beside packets") {
  PodScene scene(Wiring::routed);
  REQUIRE(scene.attach().failure().empty());
  const maps::Fd map(bpf_obj_get(maps::Pins(scene.lab.pins()).map("lb_ranges").c_str()));
  check_delay(
      scene, [&] { fill_ranges(map.get()); },
      [&] {
        for (std::uint32_t number = 0; number < ranges; ++number) {
          const auto key = range_number(number);
          bpf_map_delete_elem(map.get(), &key);
        }
      });
}

TEST_CASE("REL-75 the tables of another layout are freed beside packets") {
  PodScene scene(Wiring::routed);
  REQUIRE(scene.attach().failure().empty());
  const maps::Pins pins(scene.lab.pins());
  constexpr std::uint32_t other = LB_LAYOUT + 1;
  check_delay(
      scene, [&] { pin_other_layout(maps::Pins(pins.base(), other)); },
      [&] { agent::remove_other_layout(pins, {other, 0}); });
  CHECK(pins.other_layouts().empty());
}

}  // namespace lb::test
