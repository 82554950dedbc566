// Memory that the kernel frees for the agent delays no packet (REL-75): pings run during the freeing and, for
// comparison, without it. Only the long form checks the longest delay, and takes the best of several rounds:
// a stall occurs in each round, noise does not.
#include <bpf/bpf.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <regex>
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

/// Waits for `count` more replies in ping's output file; returns false after a minute.
bool more_answers(const PodScene& scene, const std::string& file, long count) {
  const auto answers = [&] { return std::stol(scene.outside.output("grep -c ttl= " + file + " || true")); };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  const auto before = answers();
  while (answers() < before + count && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return answers() >= before + count;
}

/// Pings the pod from outside, from before `act` until after it. Returns the slowest round trip in
/// milliseconds, nullopt if a reply was lost. The last ping may be under way at the end.
std::optional<double> slowest_ping(const PodScene& scene, const std::function<void()>& act) {
  const std::string file = fmt::format("/tmp/lbtest-ping-{}", ::getpid());
  const long around = is_long() ? 1000 : 100;
  shell("touch " + file);
  auto pinging =
      scene.outside.start(fmt::format("exec ping -i 0.001 {} >{} 2>&1", names(AF_INET).server, file));
  const bool began = more_answers(scene, file, around);
  act();
  const bool went_on = more_answers(scene, file, around);
  pinging.interrupt();
  static_cast<void>(pinging.wait());
  const auto said = scene.outside.output("tail -n 3 " + file + " && rm " + file);
  std::smatch found;
  INFO(said);
  CHECK(began);
  CHECK(went_on);
  if (!std::regex_search(
          said, found,
          std::regex(R"((\d+) packets transmitted, (\d+) received[^]*= [^/]*/[^/]*/([0-9.]+)/)"))) {
    return std::nullopt;
  }
  return std::stol(found[1]) - std::stol(found[2]) <= 1 ? std::optional(std::stod(found[3])) : std::nullopt;
}

/// The smallest of several rounds' slowest round trips.
double slowest_of_best(const PodScene& scene, const std::function<void()>& prepare,
                       const std::function<void()>& act) {
  std::vector<double> all;
  for (int round = 0; round < rounds(); ++round) {
    prepare();
    const auto slowest = slowest_ping(scene, act);
    REQUIRE(slowest);
    all.push_back(*slowest);
  }
  return *std::ranges::min_element(all);
}

void check_pings(const PodScene& scene, const std::function<void()>& prepare,
                 const std::function<void()>& act) {
  const auto nothing = [] {};
  const auto alone = slowest_of_best(scene, nothing, nothing);
  const auto beside = slowest_of_best(scene, prepare, act);
  if (is_long()) {
    WARN(fmt::format("slowest ping: {:.2f} ms, beside the freeing {:.2f} ms", alone, beside));
    CHECK(beside < alone + late);
  }
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

TEST_CASE("REL-75 ranges of a service are deleted beside packets") {
  PodScene scene(Wiring::routed);
  REQUIRE(scene.attach().failure().empty());
  const maps::Fd map(bpf_obj_get(maps::Pins(scene.lab.pins()).map("lb_ranges").c_str()));
  check_pings(
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
  check_pings(
      scene, [&] { pin_other_layout(maps::Pins(pins.base(), other)); },
      [&] { agent::remove_other_layout(pins, {other, 0}); });
  CHECK(pins.other_layouts().empty());
}

}  // namespace lb::test
