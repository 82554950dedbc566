// SPDX-License-Identifier: Apache-2.0
// The typed views of kernel maps: values, walks while entries are deleted, memory, pins, sweeps, grace
// periods.
#include <bpf/bpf.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <filesystem>
#include <optional>
#include <set>
#include <thread>

#include "maps/sweep.hpp"
#include "tests/prog/lib/real_maps.hpp"

using namespace lb::tables_test;
using namespace lb::maps;
using boost::system::errc::make_error_code;

namespace {

lb_flow4_key flow_key(std::uint32_t number) {
  lb_flow4_key key{};
  std::memcpy(static_cast<void*>(key.source), &number, sizeof(number));
  return key;
}

lb_flow4 flow(std::uint32_t backend, std::uint32_t service, std::uint32_t seen) {
  lb_flow4 value{};
  value.track.backend = backend;
  value.track.service = service;
  value.track.seen = seen;
  return value;
}

/// The test's own bpf file system.
class BpfMount {
 public:
  BpfMount() {
    std::filesystem::create_directories(path);
    if (::mount("bpf", path.c_str(), "bpf", 0, nullptr) != 0) {
      throw std::runtime_error("cannot mount bpf");
    }
  }
  BpfMount(const BpfMount&) = delete;
  BpfMount& operator=(const BpfMount&) = delete;
  ~BpfMount() {
    ::umount2(path.c_str(), MNT_DETACH);
    std::filesystem::remove(path);
  }
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("lb_bpf_" + std::to_string(::getpid()));
};

template <class Key, class Value>
void pin(const Pins& pins, bpf_map_type type, const char* name, std::uint32_t entries) {
  const Fd fd = make_map<Key, Value>(type, name, entries);
  REQUIRE(bpf_obj_pin(fd.get(), pins.map(name).c_str()) == 0);
}

void pin_all(const Pins& pins) {
  std::filesystem::create_directories(pins.maps());
  pin<lb_frontend_key, lb_frontend>(pins, BPF_MAP_TYPE_HASH, "lb_frontends", 16);
  pin<lb_address_key, lb_address>(pins, BPF_MAP_TYPE_HASH, "lb_addresses", 16);
  pin<lb_range_key, lb_range>(pins, BPF_MAP_TYPE_LPM_TRIE, "lb_ranges", 16);
  pin<lb_affinity_key, lb_affinity>(pins, BPF_MAP_TYPE_LRU_HASH, "lb_affinity", 16);
  pin<std::uint32_t, lb_name>(pins, BPF_MAP_TYPE_HASH, "lb_names", 16);
  pin<std::uint32_t, lb_service>(pins, BPF_MAP_TYPE_ARRAY, "lb_services", 16);
  pin<std::uint32_t, lb_slots_pair>(pins, BPF_MAP_TYPE_ARRAY, "lb_slots", 8);
  pin<std::uint32_t, lb_backend>(pins, BPF_MAP_TYPE_ARRAY, "lb_backends", 16);
  pin<std::uint32_t, lb_node>(pins, BPF_MAP_TYPE_ARRAY, "lb_node", 1);
  pin<std::uint32_t, std::uint64_t>(pins, BPF_MAP_TYPE_ARRAY, "lb_reserved", LB_RESERVED_WORDS);
  pin<lb_flow4_key, lb_flow4>(pins, BPF_MAP_TYPE_HASH, "lb_flows4", 16);
  pin<lb_flow6_key, lb_flow6>(pins, BPF_MAP_TYPE_HASH, "lb_flows6", 16);
  pin<lb_flow4_key, lb_flow4>(pins, BPF_MAP_TYPE_LRU_HASH, "lb_unassured4", 16);
  pin<lb_flow6_key, lb_flow6>(pins, BPF_MAP_TYPE_LRU_HASH, "lb_unassured6", 16);
  pin<std::uint32_t, lb_stats>(pins, BPF_MAP_TYPE_PERCPU_ARRAY, "lb_stats", 1);
}

}  // namespace

TEST_CASE("a hash map: values, modes, absent keys, limits") {
  auto names = make_hash<std::uint32_t, std::uint64_t>("lb_test", 2);
  CHECK(names.get(1).error() == make_error_code(boost::system::errc::no_such_file_or_directory));
  CHECK_FALSE(names.erase(1));
  CHECK_FALSE(names.put(1, 10, Put::create));
  CHECK(names.put(1, 11, Put::create) == make_error_code(boost::system::errc::file_exists));
  CHECK(names.put(2, 20, Put::replace) == make_error_code(boost::system::errc::no_such_file_or_directory));
  CHECK_FALSE(names.put(1, 12, Put::replace));
  CHECK(names.get(1).value() == 12);
  CHECK_FALSE(names.put(2, 20, Put::any));
  CHECK(names.put(3, 30, Put::any) == make_error_code(boost::system::errc::argument_list_too_long));
  CHECK_FALSE(names.erase(2));
  CHECK_FALSE(names.put(3, 30, Put::any));
  CHECK(names.limit() == 2);
  const auto wrong = HashMap<std::uint64_t, std::uint64_t>::open(Fd(::dup(names.fd())));
  CHECK(wrong.error() == make_error_code(boost::system::errc::message_size));
}

TEST_CASE("a walk ends and sees every survivor while its cursor and others vanish (REL-74)") {
  const auto how = GENERATE(Walk::batch, Walk::keys);
  const auto type = GENERATE(BPF_MAP_TYPE_HASH, BPF_MAP_TYPE_LRU_HASH);
  constexpr std::uint32_t count = 20000;
  auto map = make_hash<std::uint32_t, std::uint64_t>("lb_test", count * 2, type);
  for (std::uint32_t key = 0; key < count; ++key) {
    REQUIRE_FALSE(map.put(key, key * 3ULL, Put::any));
  }
  std::multiset<std::uint32_t> seen;
  const auto error = map.walk(how, [&](std::uint32_t key, std::uint64_t value) {
    seen.insert(key);
    CHECK(value == key * 3ULL);
    if (key % 4 != 0) {
      static_cast<void>(map.erase(key));
    }
    if ((key + 2) % 4 != 0) {
      static_cast<void>(map.erase(key + 2));
    }
  });
  CHECK_FALSE(error);
  std::uint32_t missing = 0;
  std::uint32_t twice = 0;
  for (std::uint32_t key = 0; key < count; ++key) {
    if (key % 4 == 0 && !seen.contains(key)) {
      ++missing;
    }
    if (seen.count(key) > 1) {
      ++twice;
    }
  }
  CHECK(missing == 0);
  CHECK(twice == 0);
}

TEST_CASE("a trie of prefixes is walked too") {
  auto ranges = make_hash<lb_range_key, lb_range>("lb_ranges", 100, BPF_MAP_TYPE_LPM_TRIE);
  for (std::uint32_t number = 1; number <= 50; ++number) {
    lb_range_key key{};
    key.prefix = 32 + number;
    key.service = number;
    REQUIRE_FALSE(ranges.put(key, {.service = number}, Put::any));
  }
  std::uint32_t sum = 0;
  REQUIRE_FALSE(ranges.for_each([&](const lb_range_key& key, const lb_range& value) {
    sum += value.service;
    static_cast<void>(ranges.erase(key));
  }));
  CHECK(sum == 50 * 51 / 2);
}

TEST_CASE("a walk ends although another thread never stops changing the map") {
  const auto how = GENERATE(Walk::batch, Walk::keys);
  auto map = make_hash<std::uint32_t, std::uint64_t>("lb_test", 3000);
  for (std::uint32_t key = 0; key < 1000; ++key) {
    REQUIRE_FALSE(map.put(key, 1, Put::any));
  }
  std::atomic<bool> stop = false;
  std::jthread churn([&] {
    for (std::uint32_t key = 0; !stop; key = (key + 1) % 1500) {
      static_cast<void>(map.put(1000 + key, 1, Put::any));
      static_cast<void>(map.erase(1000 + ((key + 750) % 1500)));
    }
  });
  for (int round = 0; round < 20; ++round) {
    std::uint32_t survivors = 0;
    const auto error =
        map.walk(how, [&](std::uint32_t key, std::uint64_t) { survivors += key < 1000 ? 1 : 0; });
    if (how == Walk::batch) {
      CHECK_FALSE(error);
    }
    if (!error) {
      CHECK(survivors == 1000);
    }
  }
  stop = true;
}

TEST_CASE("what is stored through memory is what the kernel reads, and the reverse") {
  auto services = make_array<lb_service>("lb_services", 3);
  lb_service written{};
  written.cluster = {.first = 7, .count = 9};
  services.publish<offsetof(lb_service, cluster)>(2, written);
  lb_service read{};
  std::uint32_t index = 2;
  REQUIRE(bpf_map_lookup_elem(services.fd(), &index, &read) == 0);
  CHECK((read.cluster.first == 7 && read.cluster.count == 9));
  auto slots = make_array<std::uint32_t>("lb_slots", 1000);
  const lb_slots_pair last{.ids = {0, 4711}};
  index = 499;
  REQUIRE(bpf_map_update_elem(slots.fd(), &index, &last, BPF_ANY) == 0);
  CHECK(slots.load(999) == 4711);
  CHECK(slots.load(998) == 0);
}

TEST_CASE("pinned maps are opened by name, for reading alone too, and a wrong one is named") {
  const BpfMount mount;
  const Pins pins(mount.path);
  pin_all(pins);
  auto writer = MapSet::open(pins, Access::write);
  REQUIRE(writer.has_value());
  lb_backend backend{};
  backend.service = 5;
  writer->backends.store(3, backend);
  REQUIRE_FALSE(writer->addresses.put({}, {}, Put::any));

  auto reader = MapSet::open(pins, Access::read);
  REQUIRE(reader.has_value());
  CHECK(reader->backends.load(3).service == 5);
  CHECK(reader->backends.size() == 16);
  CHECK(reader->addresses.get({}).has_value());
  CHECK(reader->addresses.put({}, {}, Put::any) ==
        make_error_code(boost::system::errc::operation_not_permitted));
  CHECK(reader->stats().value().not_ip == 0);

  std::filesystem::remove(pins.map("lb_names"));
  pin<std::uint32_t, std::uint32_t>(pins, BPF_MAP_TYPE_HASH, "lb_names", 16);
  const auto wrong = MapSet::open(pins, Access::write);
  REQUIRE_FALSE(wrong.has_value());
  CHECK(wrong.error().fault == OpenFault::mismatch);
  CHECK(wrong.error().message().find(pins.map("lb_names").string()) != std::string::npos);
}

TEST_CASE(
    "REL-81 a sweep finds every id that flows and affinity name, in steps, and passes over the unassured "
    "that are too old") {
  auto unassured4 = make_hash<lb_flow4_key, lb_flow4>("lb_unassured4", 4096, BPF_MAP_TYPE_LRU_HASH);
  auto unassured6 = make_hash<lb_flow6_key, lb_flow6>("lb_unassured6", 64, BPF_MAP_TYPE_LRU_HASH);
  auto flows4 = make_hash<lb_flow4_key, lb_flow4>("lb_flows4", 20000);
  auto flows6 = make_hash<lb_flow6_key, lb_flow6>("lb_flows6", 64);
  for (std::uint32_t at = 0; at < 10000; ++at) {
    REQUIRE_FALSE(flows4.put(flow_key(at), flow(at * 2, at % 7, 0), Put::any));
  }
  REQUIRE_FALSE(unassured4.put(flow_key(1), flow(30001, 8, 1000 - 74), Put::any));
  REQUIRE_FALSE(unassured4.put(flow_key(2), flow(30003, 9, 1000 - 77), Put::any));
  lb_flow6 six{};
  six.track = flow(30005, 10, 0).track;
  REQUIRE_FALSE(flows6.put({}, six, Put::any));

  auto affinity = make_hash<lb_affinity_key, lb_affinity>("lb_affinity", 64, BPF_MAP_TYPE_LRU_HASH);
  lb_affinity_key client{};
  client.service = 11;
  REQUIRE_FALSE(affinity.put(client, {.backend = 30007, .used = 0, .check = 0, .pad = 0}, Put::any));

  Calls calls;
  int steps = 0;
  const auto post = [&](std::function<void()> call) {
    ++steps;
    calls.post()(std::move(call));
  };
  FlowSweeper sweeper({.unassured4 = unassured4,
                       .unassured6 = unassured6,
                       .flows4 = flows4,
                       .flows6 = flows6,
                       .affinity = &affinity},
                      post, {.now = [] { return 1000U; }, .seconds = 75}, 512);
  std::optional<Named> named;
  sweeper.sweep([&](result<Named> found) { named = found.value(); });
  CHECK_FALSE(named.has_value());
  calls.run();
  REQUIRE(named.has_value());
  CHECK(steps >= 10000 / 512);
  std::uint32_t wrong = 0;
  for (std::uint32_t id = 0; id < 20000; ++id) {
    wrong += named->backend(id) == (id % 2 == 0) ? 0 : 1;
  }
  CHECK(wrong == 0);
  CHECK(named->backend(30001));
  CHECK_FALSE(named->backend(30003));
  CHECK(named->backend(30005));
  CHECK(named->backend(30007));
  CHECK(named->service(11));
  CHECK((named->service(6) && named->service(8) && !named->service(9) && named->service(10)));
}

TEST_CASE("an array comes into view as far as it is asked for, and keeps what was written when it goes") {
  auto backends = make_array<lb_backend>("lb_backends", 1U << 18U);
  const std::size_t whole = backends.size() * MappedArray<lb_backend>::stride;
  CHECK(backends.mapped_bytes() < whole / 8);
  const std::uint32_t middle = backends.size() / 2;
  lb_backend backend{};
  backend.service = 7;
  backends.store(middle, backend);
  CHECK(backends.mapped_bytes() > whole / 2);
  CHECK(backends.mapped_bytes() < whole);
  backends.unmap();
  CHECK(backends.mapped_bytes() == 0);
  lb_backend found{};
  REQUIRE(bpf_map_lookup_elem(backends.fd(), &middle, &found) == 0);
  CHECK(found.service == 7);
  CHECK(backends.load(middle).service == 7);
  CHECK(backends.load(backends.size() - 1).service == 0);
  CHECK(backends.mapped_bytes() == whole);
}

TEST_CASE("grace periods end on the thread that asked, in order, and requests share them") {
  Calls calls;
  auto grace = KernelGrace::open(calls.post());
  REQUIRE(grace.has_value());
  std::vector<int> order;
  std::thread::id thread;
  for (int request = 0; request < 50; ++request) {
    (*grace)->after([&, request] {
      order.push_back(request);
      thread = std::this_thread::get_id();
    });
  }
  CHECK(order.empty());
  const auto begin = std::chrono::steady_clock::now();
  while (order.size() < 50) {
    calls.wait();
  }
  CHECK(std::ranges::is_sorted(order));
  CHECK(thread == std::this_thread::get_id());
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
}
