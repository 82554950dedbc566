// SPDX-License-Identifier: Apache-2.0
// Planning: the time from a changed slice to the plan, for one service with 100,000 endpoints, and the memory
// of the model. Makes no kernel calls.
#include <fmt/format.h>
#include <malloc.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "agent/base/clock.hpp"
#include "agent/plan/cluster.hpp"
#include "bench/rows.hpp"

namespace {

using lb::bench::cell;
using lb::k8s::Address;
using lb::k8s::Family;

constexpr const char* part = "plan";
constexpr std::size_t slice_count = 1000;
constexpr std::size_t slice_size = 100;
constexpr int rounds = 5;
constexpr std::size_t changes = 101;
constexpr std::uint64_t mebibytes = 512;

/// Keeps the last plan, as the tables do.
class Keeper final : public lb::agent::PlanSink {
 public:
  void apply(lb::agent::Batch /*batch*/, std::vector<lb::agent::PlanChange> changed) override {
    last = std::move(changed);
  }
  std::vector<lb::agent::PlanChange> last;
};

Address address(const std::string& text) {
  const auto parsed = Address::parse(text);
  if (!parsed) {
    throw std::logic_error("no address: " + text);
  }
  return *parsed;
}

lb::k8s::Service service_of(Family family) {
  lb::k8s::Service made;
  made.key = {"default", "web"};
  made.cluster_ips = {address(family == Family::ipv4 ? "10.96.0.10" : "fd96::10")};
  made.ports = {{"", lb::k8s::Protocol::tcp, 80, 0}};
  return made;
}

/// A slice whose first endpoint differs in each generation.
lb::k8s::EndpointSlice slice_of(std::size_t number, std::size_t generation, Family family) {
  lb::k8s::EndpointSlice made;
  made.key = {"default", fmt::format("web-{:05}", number)};
  made.service = "web";
  made.family = family;
  made.ports = {{"", lb::k8s::Protocol::tcp, 8080}};
  for (std::size_t at = 0; at < slice_size; ++at) {
    lb::k8s::Endpoint one;
    const std::size_t place =
        at * slice_count + number + (at == 0 ? generation * slice_count * slice_size : 0);
    one.address = address(family == Family::ipv4
                              ? fmt::format("10.{}.{}.{}", place >> 16, (place >> 8) & 255, place & 255)
                              : fmt::format("fd00::{:x}:{:x}", place >> 16, place & 0xffff));
    one.node_name = fmt::format("node-{:05}.example.internal", place % 5000);
    one.zone = fmt::format("zone-{}", place % 3);
    one.hint_zones = {one.zone};
    made.endpoints.push_back(std::move(one));
  }
  return made;
}

/// CPU time of this thread, because the machine may be shared.
double milliseconds(const std::function<void()>& act) {
  const auto begin = lb::agent::thread_time();
  act();
  return std::chrono::duration<double, std::milli>(lb::agent::thread_time() - begin).count();
}

double megabytes_in_use() {
  const auto info = ::mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd) / 1e6;
}

struct Round {
  double megabytes = 0;  ///< memory of the model and its plan
  double first = 0;      ///< ms
  double change = 0;     ///< ms, median of many changes
};

Round measure(Family family) {
  const double before = megabytes_in_use();
  Keeper keeper;
  lb::agent::Cluster cluster("node-00001.example.internal", lb::agent::PlanOptions{}, keeper, nullptr);
  cluster.upsert(service_of(family));
  for (std::size_t number = 0; number < slice_count; ++number) {
    cluster.upsert(slice_of(number, 0, family));
  }
  Round round;
  round.first = milliseconds([&] { cluster.synced(); });
  round.megabytes = megabytes_in_use() - before;
  if (keeper.last.front().ports.front()->backends.size() != slice_count * slice_size) {
    throw std::runtime_error("the plan has other backends than the slices");
  }
  std::vector<double> times;
  for (std::size_t generation = 1; generation <= changes; ++generation) {
    auto changed = slice_of(generation % slice_count, generation % 2, family);
    times.push_back(milliseconds([&] {
      cluster.upsert(std::move(changed));
      cluster.flush();
    }));
  }
  round.change = lb::bench::spread_of(std::move(times)).value;
  return round;
}

void run(Family family, const char* name) {
  std::vector<double> megabytes, first, change;
  for (int at = 0; at < rounds; ++at) {
    const auto round = measure(family);
    megabytes.push_back(round.megabytes);
    first.push_back(round.first);
    change.push_back(round.change);
  }
  const auto figure = [&](const char* what, const char* unit, std::vector<double>& values) {
    const auto spread = lb::bench::spread_of(std::move(values));
    lb::bench::keep(
        {part, fmt::format("{}: {}", name, what), unit, spread, "endpoints", slice_count * slice_size});
    return spread;
  };
  const auto size = figure("model and plan", "MB", megabytes);
  const auto whole = figure("first plan", "ms", first);
  const auto one = figure("one slice changed", "ms", change);
  fmt::print("| {} | {} | {} | {} |\n", name, cell(size, 1), cell(whole, 1), cell(one, 3));
}

}  // namespace

int main() {
  try {
    lb::bench::need_memory(mebibytes);
    fmt::print(
        "One service, {} endpoints in slices of {}; milliseconds of processor time, medians of {} rounds "
        "(least–most)\n\n",
        slice_count * slice_size, slice_size, rounds);
    fmt::print("| family | model and plan, MB | first plan | one slice changed |\n|---|---|---|---|\n");
    run(Family::ipv4, "IPv4");
    run(Family::ipv6, "IPv6");
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_plan: {}\n", error.what());
    return 1;
  }
}
