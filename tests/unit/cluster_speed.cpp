// The model at 100,000 endpoints: what one changed slice costs, and what they take in memory. Run by name,
// with `test_unit "[speed]"`; the figures are printed and judge nothing.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "agent/cluster.hpp"
#include "plan_build.hpp"

namespace lb::test {
namespace {

constexpr std::size_t slice_count = 1000;
constexpr std::size_t slice_size = 100;

/// Keeps the last plan, as the tables do.
class Keeper final : public agent::PlanSink {
 public:
  void apply(agent::Batch /*batch*/, std::vector<agent::PlanChange> changes) override {
    last = std::move(changes);
  }
  std::vector<agent::PlanChange> last;
};

k8s::EndpointSlice part(std::size_t number, std::size_t generation, k8s::Family family) {
  k8s::EndpointSlice made;
  made.key = {"default", fmt::format("web-{:05}", number)};
  made.service = "web";
  made.family = family;
  made.ports = {{"", k8s::Protocol::tcp, 8080}};
  for (std::size_t i = 0; i < slice_size; ++i) {
    k8s::Endpoint one;
    const std::size_t place =
        (i * slice_count + number) + (i == 0 ? generation * slice_count * slice_size : 0);
    one.address = address(family == k8s::Family::ipv4
                              ? fmt::format("10.{}.{}.{}", place >> 16, (place >> 8) & 255, place & 255)
                              : fmt::format("fd00::{:x}:{:x}", place >> 16, place & 0xffff));
    one.node_name = fmt::format("node-{:05}.example.internal", place % 5000);
    one.zone = fmt::format("zone-{}", place % 3);
    one.hint_zones = {one.zone};
    made.endpoints.push_back(std::move(one));
  }
  return made;
}

/// Of this thread's CPU, because the machine may be shared.
double milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

std::size_t bytes_in_use() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.at(values.size() / 2);
}

void measure(k8s::Family family, const char* name) {
  const auto before = bytes_in_use();
  Keeper keeper;
  auto cluster =
      std::make_unique<agent::Cluster>("node-00001.example.internal", agent::PlanOptions{}, keeper, nullptr);
  auto web = service();
  if (family == k8s::Family::ipv6) web.cluster_ips = {address("fd96::10")};
  cluster->upsert(web);
  for (std::size_t number = 0; number < slice_count; ++number) cluster->upsert(part(number, 0, family));
  const auto start = milliseconds();
  cluster->synced();
  const auto first = milliseconds() - start;
  const auto taken = static_cast<double>(bytes_in_use() - before) / 1e6;
  REQUIRE(keeper.last.front().ports.front()->backends.size() == slice_count * slice_size);

  std::vector<double> times;
  for (std::size_t generation = 1; generation <= 101; ++generation) {
    auto changed = part(generation % slice_count, generation % 2, family);
    const auto begun = milliseconds();
    cluster->upsert(std::move(changed));
    cluster->flush();
    times.push_back(milliseconds() - begun);
  }
  fmt::print(
      "{}: 100,000 endpoints: {:.1f} MB, first plan {:.1f} ms, one slice of 100 changed {:.2f} ms (median of "
      "{})\n",
      name, taken, first, median(times), times.size());
}

TEST_CASE("one slice of 100,000 endpoints changes", "[.][speed]") {
  measure(k8s::Family::ipv4, "IPv4");
  measure(k8s::Family::ipv6, "IPv6");
}

}  // namespace
}  // namespace lb::test
