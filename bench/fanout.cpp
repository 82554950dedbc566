// SPDX-License-Identifier: Apache-2.0
// What EndpointSlices cost the API server when a service changes, simulated by the controller's published
// rules: the number of objects written, and the bytes sent to all watchers. Prints tables; needs no
// privileges.
//
// Source of the arithmetic: KEP-0752, "Sample Case 1": 20,000 endpoints, 5,000 nodes; the tables show its
// figures next to ours. Source of the rules: the Kubernetes documentation, "Distribution of EndpointSlices":
// fill slices that change anyway, then put the rest into the fullest slice that has room for all of it, and
// otherwise create a slice rather than update several.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <numeric>
#include <random>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "bench/rows.hpp"

namespace lb::bench {
namespace {

constexpr const char* part = "fanout";
constexpr std::uint32_t slice_capacity = 100;  // the controller's default
constexpr std::uint32_t zones = 3;

/// Bytes of one watch event of a slice: measured at a real API server for slices of 100 endpoints (a list of
/// 100,000 is 12.1 MB as protobuf and 48.3 MB as JSON), minus the size of a slice without endpoints.
struct Encoding {
  const char* name;
  double slice;
  double endpoint;
};
constexpr Encoding protobuf{"protobuf", 420, 117};
constexpr Encoding json{"JSON", 1100, 472};
/// The KEP's estimate where it calculates with sizes: 20,000 endpoints are 2 MB, 100 are 10 kB.
constexpr Encoding reckoned{"100 bytes an endpoint", 0, 100};

/// What the controller writes for one change of a service: objects, and the endpoints in them.
struct Writes {
  std::uint64_t objects = 0;
  std::uint64_t endpoints = 0;

  void write(std::uint64_t held) {
    ++objects;
    endpoints += held;
  }
  [[nodiscard]] double bytes(const Encoding& encoding) const {
    return (static_cast<double>(objects) * encoding.slice) +
           (static_cast<double>(endpoints) * encoding.endpoint);
  }
};

/// The slices of one service, or of one of its zones if slices are separated by zone. Endpoints are only
/// counted: the rules depend on a slice's size only.
class Packer {
 public:
  Packer(Writes& writes, std::uint32_t capacity) : writes_(writes), capacity_(capacity) {}

  /// Adds `fresh` endpoints and removes those at `gone` (distinct places among all), in one pass of the
  /// controller.
  void pass(std::vector<std::uint32_t> gone, std::uint32_t fresh) {
    filled_.clear();
    auto touched = remove(std::move(gone));
    for (const auto slice : touched) {
      const auto room = std::min(capacity_ - sizes_[slice], fresh);
      if (room > 0) {
        filled_.push_back(slice);
      }
      sizes_[slice] += room;
      fresh -= room;
    }
    place(fresh);
    for (const auto slice : touched) {
      writes_.write(sizes_[slice]);
    }
    std::erase(sizes_, 0U);
  }

  /// Changes the conditions of the endpoints at these places.
  void touch(std::vector<std::uint32_t> places) {
    const auto hits = by_slice(std::move(places));
    for (std::size_t slice = 0; slice < hits.size(); ++slice) {
      if (hits[slice] > 0) {
        writes_.write(sizes_[slice]);
      }
    }
  }

  /// Changes the conditions of the endpoints added in the last pass, in which none was removed.
  void touch_fresh() {
    for (const auto slice : filled_) {
      writes_.write(sizes_[slice]);
    }
  }

  [[nodiscard]] std::uint32_t endpoints() const { return std::accumulate(sizes_.begin(), sizes_.end(), 0U); }

 private:
  /// The number of these places in each slice.
  [[nodiscard]] std::vector<std::uint32_t> by_slice(std::vector<std::uint32_t> places) const {
    std::vector<std::uint32_t> hits(sizes_.size(), 0);
    std::ranges::sort(places);
    std::uint32_t slice = 0;
    std::uint32_t end = sizes_.empty() ? 0 : sizes_[0];
    for (const auto place : places) {
      while (place >= end) {
        end += sizes_[++slice];
      }
      ++hits[slice];
    }
    return hits;
  }

  /// Removes endpoints; returns the numbers of the slices that lose some.
  std::vector<std::uint32_t> remove(std::vector<std::uint32_t> gone) {
    const auto losses = by_slice(std::move(gone));
    std::vector<std::uint32_t> touched;
    for (std::uint32_t slice = 0; slice < losses.size(); ++slice) {
      if (losses[slice] == 0) {
        continue;
      }
      sizes_[slice] -= losses[slice];
      touched.push_back(slice);
    }
    // The fullest first, so that the emptiest may be removed.
    std::ranges::sort(touched, [this](auto left, auto right) {
      return sizes_[left] != sizes_[right] ? sizes_[left] > sizes_[right] : left < right;
    });
    return touched;
  }

  void place(std::uint32_t fresh) {
    for (; fresh >= capacity_; fresh -= capacity_) {
      create(capacity_);
    }
    if (fresh == 0) {
      return;
    }
    auto best = sizes_.end();
    for (auto slice = sizes_.begin(); slice != sizes_.end(); ++slice) {
      const bool fits = *slice + fresh <= capacity_;
      if (fits && (best == sizes_.end() || *slice > *best)) {
        best = slice;
      }
    }
    if (best == sizes_.end()) {
      return create(fresh);
    }
    *best += fresh;
    filled_.push_back(static_cast<std::uint32_t>(best - sizes_.begin()));
    writes_.write(*best);
  }

  void create(std::uint32_t held) {
    filled_.push_back(static_cast<std::uint32_t>(sizes_.size()));
    sizes_.push_back(held);
    writes_.write(held);
  }

  Writes& writes_;
  std::uint32_t capacity_;
  std::vector<std::uint32_t> sizes_;
  std::vector<std::uint32_t> filled_;  ///< slices filled by the last pass
};

/// `count` distinct places of `of`.
std::vector<std::uint32_t> draw(std::uint32_t count, std::uint32_t of, std::mt19937_64& random) {
  std::unordered_set<std::uint32_t> drawn;
  while (drawn.size() < count) {
    drawn.insert(static_cast<std::uint32_t>(random() % of));
  }
  return {drawn.begin(), drawn.end()};
}

/// The updates caused by a pod's replacement: in the proposal one; today the old pod is first marked as
/// terminating, and its successor is first not ready, so that one replaced pod causes four.
enum class PodLife : std::uint8_t { replaced, as_today };

/// Replaces all `endpoints`, `batch` at a time.
Writes roll(std::uint32_t endpoints, std::uint32_t capacity, std::uint32_t batch, PodLife life) {
  Writes writes;
  Packer packer(writes, capacity);
  packer.pass({}, endpoints);
  writes = {};
  std::mt19937_64 random(endpoints + batch);
  for (std::uint32_t done = 0; done < endpoints; done += batch) {
    const auto now = std::min(batch, endpoints - done);
    if (life == PodLife::replaced) {
      packer.pass(draw(now, packer.endpoints(), random), now);
      continue;
    }
    packer.pass({}, now);  // not ready yet
    packer.touch_fresh();  // ready
    const auto leaving = draw(now, packer.endpoints(), random);
    packer.touch(leaving);    // terminating
    packer.pass(leaving, 0);  // gone
  }
  return writes;
}

std::string bytes_text(double bytes) {
  constexpr std::array<const char*, 6> units = {"B", "kB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  for (; bytes >= 1000 && unit + 1 < units.size(); ++unit) {
    bytes /= 1000;
  }
  return fmt::format("{:.3g} {}", bytes, units.at(unit));
}

Writes create(std::uint32_t endpoints, std::uint32_t capacity) {
  Writes writes;
  Packer packer(writes, capacity);
  packer.pass({}, endpoints);
  return writes;
}

Writes change_one(std::uint32_t endpoints, std::uint32_t capacity) {
  Writes writes;
  Packer packer(writes, capacity);
  packer.pass({}, endpoints);
  writes = {};
  packer.touch({endpoints / 2});
  return writes;
}

/// The traffic to the nodes: `watchers` of them watch each object.
struct Traffic {
  Writes writes;
  double watchers;

  [[nodiscard]] double events() const { return static_cast<double>(writes.objects) * watchers; }
  [[nodiscard]] double bytes(const Encoding& encoding) const { return writes.bytes(encoding) * watchers; }
};

/// Slices by zone have only endpoints of one zone, and only its nodes watch them. The change affects `seen`
/// zones.
template <class Part>
Traffic by_zone(std::uint32_t nodes, std::uint32_t endpoints, std::uint32_t seen, Part writes_of) {
  Writes all;
  for (std::uint32_t zone = 0; zone < seen; ++zone) {
    const auto one = writes_of(endpoints / zones + (zone < endpoints % zones ? 1 : 0));
    all.objects += one.objects;
    all.endpoints += one.endpoints;
  }
  return {all, static_cast<double>(nodes) / zones};
}

void keep_traffic(const std::string& series, const Traffic& traffic, const char* by = nullptr,
                  std::uint64_t size = 0) {
  keep({part, series + ": objects written", "objects", single(static_cast<double>(traffic.writes.objects)),
        by, size});
  keep({part, series + ": events to watchers", "events", single(traffic.events()), by, size});
  for (const auto& encoding : {protobuf, json}) {
    keep({part, fmt::format("{}: {}, all watchers", series, encoding.name), "bytes",
          single(traffic.bytes(encoding)), by, size});
  }
}

// ---- The proposal's tables. ----

constexpr std::uint32_t kep_nodes = 5'000;
constexpr std::uint32_t kep_endpoints = 20'000;

struct Layout {
  const char* name;
  std::uint32_t capacity;
};
constexpr std::array<Layout, 3> layouts = {{{"Endpoints (one object)", kep_endpoints},
                                            {"100 endpoints a slice", slice_capacity},
                                            {"one endpoint a slice", 1}}};

/// The KEP's figures by layout.
struct Kep {
  const char* what;
  std::array<double, layouts.size()> writes;
  std::array<double, layouts.size()> events;
  std::array<const char*, layouts.size()> bytes;
};
constexpr std::array<Kep, 3> kep = {
    {{"service created", {1, 200, 20e3}, {5e3, 1e6, 100e6}, {"10 GB", "10 GB", "~10 GB"}},
     {"one endpoint changed", {1, 1, 1}, {5e3, 5e3, 5e3}, {"10 GB", "50 MB", "~5 MB"}},
     {"rolling update, one by one",
      {20e3, 20e3, 20e3},
      {100e6, 100e6, 100e6},
      {"200 TB", "1 TB", "~100 GB"}}}};

/// How each scenario is simulated: the writes for a service, or for a zone's part of it.
struct Step {
  Writes (*writes)(std::uint32_t endpoints, std::uint32_t capacity);
  std::uint32_t zones;  ///< the number of zones affected
};
Writes roll_singly(std::uint32_t endpoints, std::uint32_t capacity) {
  return roll(endpoints, capacity, 1, PodLife::replaced);
}
constexpr std::array<Step, kep.size()> steps = {{{create, zones}, {change_one, 1}, {roll_singly, zones}}};

template <class Cell>
void print_line(const std::string& name, std::size_t count, Cell text) {
  fmt::print("| {} |", name);
  for (std::size_t at = 0; at < count; ++at) {
    fmt::print(" {} |", text(at));
  }
  fmt::print("\n");
}

/// One column per layout, and a last one for slices by zone, which the KEP does not have.
void print_scenario(const Kep& theirs, const std::vector<Traffic>& ours) {
  const auto from_kep = [&](auto text) {
    return [&, text](std::size_t at) { return at < layouts.size() ? text(at) : std::string(); };
  };
  const auto all = ours.size();
  print_line("objects written", all, [&](auto at) { return fmt::format("{}", ours[at].writes.objects); });
  print_line("the KEP", all, from_kep([&](auto at) { return fmt::format("{:.0f}", theirs.writes[at]); }));
  print_line("events to watchers", all, [&](auto at) { return fmt::format("{:.0f}", ours[at].events()); });
  print_line("the KEP", all, from_kep([&](auto at) { return fmt::format("{:.0f}", theirs.events[at]); }));
  for (const auto& encoding : {protobuf, json, reckoned}) {
    print_line(fmt::format("{}, all watchers", encoding.name), all,
               [&](auto at) { return bytes_text(ours[at].bytes(encoding)); });
  }
  print_line("the KEP", all, from_kep([&](auto at) { return std::string(theirs.bytes[at]); }));
}

/// Whether the simulation's writes and events equal the KEP's.
bool scenario(const Kep& theirs, const Step& step) {
  std::vector<Traffic> ours;
  for (const auto& layout : layouts) {
    ours.push_back({step.writes(kep_endpoints, layout.capacity), kep_nodes});
    keep_traffic(fmt::format("{}, {}", theirs.what, layout.name), ours.back());
  }
  ours.push_back(by_zone(kep_nodes, kep_endpoints, step.zones,
                         [&](auto some) { return step.writes(some, slice_capacity); }));
  keep_traffic(fmt::format("{}, {}, own zone only", theirs.what, layouts[1].name), ours.back());
  fmt::print("\n| {} | {} | {} | {} | {}, own zone only ({} zones) |\n|---|---|---|---|---|\n", theirs.what,
             layouts[0].name, layouts[1].name, layouts[2].name, layouts[1].name, zones);
  print_scenario(theirs, ours);
  bool same = true;
  for (std::size_t at = 0; at < layouts.size(); ++at) {
    same = same && static_cast<double>(ours[at].writes.objects) == theirs.writes[at] &&
           ours[at].events() == theirs.events[at];
  }
  return same;
}

bool proposal() {
  fmt::print("\n## KEP-0752, sample case 1: {} nodes, {} endpoints\n", kep_nodes, kep_endpoints);
  bool same = true;
  for (std::size_t at = 0; at < kep.size(); ++at) {
    same = scenario(kep[at], steps.at(at)) && same;
  }
  fmt::print(
      "\nOf a slice with one endpoint the KEP counts about 1 kB where it is sent alone, and 100 bytes where "
      "the service is created.\n\nObjects and events are to be the KEP's: {}\n",
      same ? "yes" : "NO");
  return same;
}

// ---- Rolling updates as pods go today. ----

/// A cluster's size; the last one is extrapolated.
struct Cluster {
  std::uint32_t nodes;
  std::uint32_t endpoints;
  const char* mark;  ///< appended to the names of its records
};

void print_row(std::uint32_t batch, const std::string& watched, const Traffic& traffic,
               const Cluster& cluster) {
  fmt::print("| {} | {} | {} | {:.3g} | {} | {} |\n", batch, watched, traffic.writes.objects,
             traffic.events(), bytes_text(traffic.bytes(protobuf)), bytes_text(traffic.bytes(json)));
  keep_traffic(fmt::format("rolling update, {} nodes, {} endpoints{}, {}", cluster.nodes, cluster.endpoints,
                           cluster.mark, watched),
               traffic, "pods a batch", batch);
}

void rolling(const Cluster& cluster, std::initializer_list<std::uint32_t> batches) {
  fmt::print(
      "\n## Rolling update of {} endpoints for {} nodes{}, slices of {}, each pod seen as today (not ready, "
      "ready, terminating, gone)\n\n| pods a batch | watched | objects written | events to watchers | {}, "
      "all watchers | {}, all watchers |\n|---|---|---|---|---|---|\n",
      cluster.endpoints, cluster.nodes, cluster.mark, slice_capacity, protobuf.name, json.name);
  for (const auto batch : batches) {
    const auto whole = roll(cluster.endpoints, slice_capacity, batch, PodLife::as_today);
    print_row(batch, "everything", {whole, static_cast<double>(cluster.nodes)}, cluster);
    const auto apart = by_zone(cluster.nodes, cluster.endpoints, zones, [&](auto some) {
      return roll(some, slice_capacity, std::max(batch / zones, 1U), PodLife::as_today);
    });
    print_row(batch, fmt::format("own zone only ({} zones)", zones), apart, cluster);
  }
}

bool run_all() {
  fmt::print("# Fan-out of EndpointSlices, simulated (bench_fanout)\n");
  const bool same = proposal();
  rolling({kep_nodes, kep_endpoints, ""}, {1, 10, 100, 1'000});
  fmt::print("\nExtrapolated, not measured: the same arithmetic at a size that this machine cannot run.\n");
  rolling({15'000, 1'000'000, " (extrapolated)"}, {1'000, 10'000, 100'000});
  return same;
}

}  // namespace
}  // namespace lb::bench

int main() {
  try {
    return lb::bench::run_all() ? 0 : lb::bench::figure_missed;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_fanout: {}\n", error.what());
    return 1;
  }
}
