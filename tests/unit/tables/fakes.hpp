// SPDX-License-Identifier: Apache-2.0
// Fakes for everything by which Tables accesses the kernel: tables in memory that fail on demand, grace
// periods and sweeps that end on demand; and the tables' content as lines, for comparison.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "agent/tables/tables.hpp"
#include "maps/abi/checks.h"
#include "maps/text.hpp"
#include "tests/lib/map_lines.hpp"

namespace lb::tables_test {

using maps::error_code;

/// Thrown by a write at which the agent is killed.
struct Killed {};

/// Counts the writes to all tables; one of them fails or kills the agent, or all fail.
struct Faults {
  int writes = 0;
  int fail_at = -1;
  bool fail_all = false;
  int kill_at = -1;
  error_code error = make_error_code(boost::system::errc::not_enough_memory);

  error_code next() {
    const int number = writes++;
    if (number == kill_at) {
      throw Killed();
    }
    return number == fail_at || fail_all ? error : error_code{};
  }
};

template <class Key, class Value>
class FakeTable final : public maps::Table<Key, Value> {
 public:
  FakeTable(Faults& faults, std::uint32_t limit) : faults_(faults), limit_(limit) {}

  [[nodiscard]] maps::result<Value> get(const Key& key) const override {
    const auto found = entries.find(bytes(key));
    if (found == entries.end()) {
      return make_error_code(boost::system::errc::no_such_file_or_directory);
    }
    return found->second.second;
  }
  [[nodiscard]] error_code put(const Key& key, const Value& value, maps::Put /*mode*/) override {
    if (auto error = faults_.next()) {
      return error;
    }
    const bool known = entries.contains(bytes(key));
    if (!known && entries.size() >= limit_) {
      return make_error_code(boost::system::errc::argument_list_too_long);
    }
    entries.insert_or_assign(bytes(key), std::pair(key, value));
    return {};
  }
  /// Writes an entry as another program would.
  void insert(const Key& key, const Value& value) {
    entries.insert_or_assign(bytes(key), std::pair(key, value));
  }
  [[nodiscard]] error_code erase(const Key& key) override {
    if (auto error = faults_.next()) {
      return error;
    }
    entries.erase(bytes(key));
    return {};
  }
  [[nodiscard]] error_code for_each(
      const std::function<void(const Key&, const Value&)>& visit) const override {
    for (const auto& [ignored, entry] : std::map(entries)) {
      visit(entry.first, entry.second);
    }
    return {};
  }
  [[nodiscard]] std::uint32_t limit() const noexcept override { return limit_; }

  std::map<std::string, std::pair<Key, Value>> entries;

 private:
  static std::string bytes(const Key& key) { return {reinterpret_cast<const char*>(&key), sizeof(key)}; }
  Faults& faults_;
  std::uint32_t limit_;
};

struct Limits {
  std::uint32_t frontends = 64;
  std::uint32_t services = 32;
  std::uint32_t backends = 256;
  std::uint32_t slots = 256;
};

/// The kernel's state; it outlives the agents that write it.
struct FakeKernel {
  explicit FakeKernel(Limits limits = {})
      : frontends(faults, limits.frontends),
        addresses(faults, limits.frontends),
        ranges(faults, 16),
        names(faults, limits.services),
        services(maps::MappedArray<lb_service>::in_memory(limits.services)),
        slots(maps::MappedArray<std::uint32_t>::in_memory(limits.slots)),
        backends(maps::MappedArray<lb_backend>::in_memory(limits.backends)) {}

  maps::Store store() { return {frontends, addresses, ranges, names, services, slots, backends, reserved}; }

  Faults faults;
  FakeTable<lb_frontend_key, lb_frontend> frontends;
  FakeTable<lb_address_key, lb_address> addresses;
  FakeTable<lb_range_key, lb_range> ranges;
  FakeTable<std::uint32_t, lb_name> names;
  maps::MappedArray<lb_service> services;
  maps::MappedArray<std::uint32_t> slots;
  maps::MappedArray<lb_backend> backends;
  maps::MappedArray<std::uint64_t> reserved = maps::MappedArray<std::uint64_t>::in_memory(LB_RESERVED_WORDS);
};

/// Grace periods that end when the test says so.
class ManualGrace final : public maps::GracePeriod {
 public:
  void after(std::function<void()> done) override { waiting.push_back(std::move(done)); }
  void pass() {
    for (auto& done : std::exchange(waiting, {})) {
      done();
    }
  }
  std::vector<std::function<void()>> waiting;
};

/// Sweeps that end when the test says so; `named` is what flows still refer to.
class ManualSweeper final : public maps::Sweeper {
 public:
  void sweep(std::function<void(maps::result<maps::Named>)> done) override {
    ++count;
    waiting = std::move(done);
  }
  void finish() {
    if (auto done = std::exchange(waiting, nullptr)) {
      done(named);
    }
  }
  maps::Named named;
  int count = 0;
  std::function<void(maps::result<maps::Named>)> waiting;
};

/// An agent from its start to its end.
struct Agent {
  explicit Agent(FakeKernel& kernel, std::uint32_t slots = 251)
      : tables(
            kernel.store(), grace, sweeper,
            [this](const k8s::Complaint& complaint) { complaints.push_back(complaint.reason); }, slots) {}

  /// Ends all pending grace periods and sweeps. Throws if each of them leads to another one.
  void settle() {
    constexpr int many = 20;
    for (int round = 0; !grace.waiting.empty() || sweeper.waiting; ++round) {
      if (round == many) {
        throw std::runtime_error("grace periods and sweeps do not come to an end");
      }
      grace.pass();
      sweeper.finish();
    }
  }

  ManualGrace grace;
  ManualSweeper sweeper;
  std::vector<std::string> complaints;
  agent::Tables tables;
};

inline k8s::Address address(std::uint8_t c, std::uint8_t d) {
  k8s::Address result;
  result.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, c, d};
  return result;
}

inline agent::BackendPlan backend(std::uint8_t last, std::uint8_t weight = 1) {
  return {.address = address(1, last),
          .port = 8080,
          .locality = LB_SAME_ZONE,
          .in_cluster = true,
          .in_local = false,
          .serving = true,
          .weight = weight};
}

using Plan = std::shared_ptr<agent::ServicePortPlan>;
using Backends = std::vector<agent::BackendPlan>;

/// A TCP service "default/NAME" with the frontend 10.0.0.FRONTEND:80 and backends 10.0.1.LAST:8080.
inline Plan service(const std::string& name, std::uint8_t frontend, const std::vector<std::uint8_t>& lasts) {
  auto plan = std::make_shared<agent::ServicePortPlan>();
  plan->key.name = "default/" + name;
  if (frontend != 0) {
    plan->frontends.push_back({.address = address(0, frontend), .port = 80, .kind = LB_CLUSTER_IP});
  }
  Backends backends;
  for (const std::uint8_t last : lasts) {
    backends.push_back(backend(last));
  }
  plan->backends = backends;
  return plan;
}

template <class Edit>
void edit_backends(const Plan& plan, Edit edit) {
  Backends backends(plan->backends.begin(), plan->backends.end());
  edit(backends);
  plan->backends = backends;
}

inline agent::PlanChange change(const std::string& name, std::vector<Plan> plans) {
  return {.service = "default/" + name, .ports = {plans.begin(), plans.end()}};
}

inline agent::PlanChange change(const Plan& plan) { return {.service = plan->key.name, .ports = {plan}}; }

inline bool is_reserved(const maps::Store& store, std::uint16_t port) {
  return (store.reserved.load(port / 64) >> port % 64 & 1) != 0;
}

/// Reserves a node port as another program would.
inline void reserve(const maps::Store& store, std::uint16_t port) {
  store.reserved.store(port / 64, store.reserved.load(port / 64) | std::uint64_t{1} << port % 64);
}

/// The state as a reader sees it: existing services with their sets in order, and frontends; numbers are
/// replaced by what they refer to. A line with "!" is an inconsistency.
inline std::vector<std::string> lines(const maps::Store& store) {
  std::vector<std::string> result;
  const auto name_of = [&](std::uint32_t number) {
    const auto name = store.names.get(number);
    return name && name->retired == LB_NO ? std::string(maps::stored_text(name->service)) : std::string("!");
  };
  const auto set_text = [&](std::uint32_t number, const lb_set& set) {
    std::string text;
    for (std::uint32_t at = 0; at < set.count; ++at) {
      const lb_backend found = store.backends.load(store.slots.load(set.first + at));
      text += fmt::format(" {}{}", found.service == number ? "" : "!",
                          maps::socket_text(found.address, found.port));
    }
    return text;
  };
  const auto add_frontend = [&](const lb_frontend_key& key, const lb_frontend& value) {
    const bool is_right = value.check == lb_frontend_check(&key) &&
                          (value.kind != LB_NODE_PORT || is_reserved(store, key.port));
    result.push_back(test::frontend_line(key, value, name_of(value.service)) + (is_right ? "" : "!"));
  };
  const auto add_service = [&](std::uint32_t number, const lb_name& name) {
    if (name.retired == LB_YES) {
      return;
    }
    const lb_service found = store.services.load(number);
    result.push_back(test::service_line(name, found) + " cluster:" + set_text(number, found.cluster) +
                     " local:" + set_text(number, found.local));
  };
  const auto list_of = [&](std::uint32_t number) {
    const bool is_node = number == LB_CLUSTER_IP_RANGES || number == LB_POD_RANGES;
    return is_node ? fmt::format("list {}", number) : name_of(number);
  };
  const auto add_range = [&](const lb_range_key& key, const lb_range& value) {
    result.push_back(fmt::format("range {}{} {}/{}", list_of(key.service),
                                 value.service == key.service ? "" : "!", maps::address_text(key.address),
                                 key.prefix - 32));
  };
  if (store.ranges.for_each(add_range)) {
    result.emplace_back("!unread");
  }
  if (store.frontends.for_each(add_frontend) || store.names.for_each(add_service)) {
    result.emplace_back("!unread");
  }
  std::ranges::sort(result);
  return result;
}
inline std::vector<std::string> lines(FakeKernel& kernel) { return lines(kernel.store()); }

inline bool torn(const std::vector<std::string>& all) {
  return std::ranges::any_of(all,
                             [](const std::string& line) { return line.find('!') != std::string::npos; });
}

/// The lines after an agent with empty maps has written this plan.
inline std::vector<std::string> clean_lines(const std::vector<agent::PlanChange>& plan, Limits limits = {}) {
  FakeKernel kernel(limits);
  Agent agent(kernel);
  agent.tables.apply(agent::Batch::whole, plan);
  return lines(kernel);
}

/// Entries in use: names, and numbers and ids that are not free.
struct Used {
  std::size_t names = 0;
  std::size_t backends = 0;
  std::size_t slots = 0;
  bool operator==(const Used&) const = default;
};

inline Used used(const maps::Store& store, const agent::Tables& tables) {
  Used result{.names = 0, .backends = 0, .slots = tables.fills()[3].used};
  if (store.names.for_each([&](std::uint32_t, const lb_name&) { ++result.names; })) {
    result.names = 0;
  }
  for (std::uint32_t id = 1; id < store.backends.size(); ++id) {
    result.backends += store.backends.load(id).service != 0 ? 1 : 0;
  }
  return result;
}
inline Used used(FakeKernel& kernel, const agent::Tables& tables) { return used(kernel.store(), tables); }

inline lb_service service_at(FakeKernel& kernel, std::uint32_t number) {
  return kernel.services.load(number);
}

/// The last bytes of the addresses in the service's cluster set, one for each slot.
inline std::multiset<std::uint8_t> cluster_of(FakeKernel& kernel, std::uint32_t number) {
  std::multiset<std::uint8_t> lasts;
  const lb_set set = service_at(kernel, number).cluster;
  for (std::uint32_t at = 0; at < set.count; ++at) {
    lasts.insert(kernel.backends.load(kernel.slots.load(set.first + at)).address[15]);
  }
  return lasts;
}

}  // namespace lb::tables_test
