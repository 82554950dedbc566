// What EndpointSlices cost the API server when a service changes, by simulation of the controller's published
// rules: how many objects are written, and how many bytes leave for all watchers. Prints tables; needs no
// privileges.
//
// Source of the arithmetic: KEP-0752, "Estimation": 5,000 nodes, 20,000 endpoints. Source of the rules: the
// Kubernetes documentation, "Distribution of EndpointSlices": fill slices that change anyway, then put what
// is left into the fullest slice that takes all of it, and else create one rather than update several.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <random>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace lb::bench {
namespace {

constexpr std::uint32_t slice_capacity = 100;
constexpr std::uint32_t zones = 3;

/// Bytes of one watch event of a slice: measured at a real API server for slices of 100 endpoints (MEASURES:
/// a list of 100,000 is 12.1 MB as protobuf and 48.3 MB as JSON), less what a slice without endpoints takes.
struct Encoding {
  const char* name;
  double slice;
  double endpoint;
};
constexpr Encoding protobuf{"protobuf", 420, 117};
constexpr Encoding json{"JSON", 1100, 472};

/// What one change of a service makes the controller write, in objects and in the endpoints they hold.
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

/// The slices of one service, or of one of its zones where slices are kept apart by zone. Endpoints are only
/// counted: all that a slice's fate depends on is how many it holds.
class Packer {
 public:
  explicit Packer(Writes& writes) : writes_(writes) {}

  /// `fresh` endpoints come and those at `gone` (places among all, distinct) go, in one pass of the
  /// controller.
  void pass(std::vector<std::uint32_t> gone, std::uint32_t fresh) {
    filled_.clear();
    auto touched = remove(std::move(gone));
    for (const auto slice : touched) {
      const auto room = std::min(slice_capacity - sizes_[slice], fresh);
      if (room > 0) filled_.push_back(slice);
      sizes_[slice] += room;
      fresh -= room;
    }
    place(fresh);
    for (const auto slice : touched) writes_.write(sizes_[slice]);
    std::erase(sizes_, 0U);
  }

  /// As many endpoints change their conditions and stay where they are.
  void touch(std::vector<std::uint32_t> places) {
    const auto hits = by_slice(std::move(places));
    for (std::size_t slice = 0; slice < hits.size(); ++slice) {
      if (hits[slice] > 0) writes_.write(sizes_[slice]);
    }
  }

  /// What came in the last pass, in which nothing went, changes its conditions.
  void touch_fresh() {
    for (const auto slice : filled_) writes_.write(sizes_[slice]);
  }

  [[nodiscard]] std::uint32_t endpoints() const { return std::accumulate(sizes_.begin(), sizes_.end(), 0U); }
  [[nodiscard]] std::size_t slices() const { return sizes_.size(); }

 private:
  /// How many of these places lie in each slice.
  [[nodiscard]] std::vector<std::uint32_t> by_slice(std::vector<std::uint32_t> places) const {
    std::vector<std::uint32_t> hits(sizes_.size(), 0);
    std::ranges::sort(places);
    std::uint32_t slice = 0;
    std::uint32_t end = sizes_.empty() ? 0 : sizes_[0];
    for (const auto place : places) {
      while (place >= end) end += sizes_[++slice];
      ++hits[slice];
    }
    return hits;
  }

  /// The slices that lose some, by number.
  std::vector<std::uint32_t> remove(std::vector<std::uint32_t> gone) {
    const auto losses = by_slice(std::move(gone));
    std::vector<std::uint32_t> touched;
    for (std::uint32_t slice = 0; slice < losses.size(); ++slice) {
      if (losses[slice] == 0) continue;
      sizes_[slice] -= losses[slice];
      touched.push_back(slice);
    }
    // The fullest first, so that the emptiest may go.
    std::ranges::sort(touched, [this](auto left, auto right) {
      return sizes_[left] != sizes_[right] ? sizes_[left] > sizes_[right] : left < right;
    });
    return touched;
  }

  void place(std::uint32_t fresh) {
    for (; fresh >= slice_capacity; fresh -= slice_capacity) create(slice_capacity);
    if (fresh == 0) return;
    auto best = sizes_.end();
    for (auto slice = sizes_.begin(); slice != sizes_.end(); ++slice) {
      const bool fits = *slice + fresh <= slice_capacity;
      if (fits && (best == sizes_.end() || *slice > *best)) best = slice;
    }
    if (best == sizes_.end()) return create(fresh);
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
  std::vector<std::uint32_t> sizes_;
  std::vector<std::uint32_t> filled_;  ///< by the last pass
};

/// `count` distinct places of `of`.
std::vector<std::uint32_t> draw(std::uint32_t count, std::uint32_t of, std::mt19937_64& random) {
  std::unordered_set<std::uint32_t> drawn;
  while (drawn.size() < count) drawn.insert(static_cast<std::uint32_t>(random() % of));
  return {drawn.begin(), drawn.end()};
}

/// How a pod's end shows: in the proposal at once; today it is first marked as terminating, and its successor
/// first as not ready, so that one replaced pod is seen four times.
enum class PodLife : std::uint8_t { replaced, as_today };

struct Rolled {
  Writes writes;
  std::size_t slices = 0;
};

/// All `endpoints` replaced, `batch` at a time.
Rolled roll(std::uint32_t endpoints, std::uint32_t batch, PodLife life) {
  Rolled rolled;
  Packer packer(rolled.writes);
  packer.pass({}, endpoints);
  rolled.writes = {};
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
  rolled.slices = packer.slices();
  return rolled;
}

std::string bytes_text(double bytes) {
  constexpr std::array<const char*, 6> units = {"B", "kB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  for (; bytes >= 1000 && unit + 1 < units.size(); ++unit) bytes /= 1000;
  return fmt::format("{:.3g} {}", bytes, units.at(unit));
}

void print_row(const char* what, std::uint32_t nodes, const Writes& writes, double share) {
  const auto watched = static_cast<double>(nodes) * share;
  fmt::print("| {} | {} | {:.3g} | {} | {} |\n", what, writes.objects,
             static_cast<double>(writes.objects) * watched, bytes_text(writes.bytes(protobuf) * watched),
             bytes_text(writes.bytes(json) * watched));
}

void print_head(const char* title) {
  fmt::print(
      "\n{}\n\n| | objects written | events to watchers | protobuf, all watchers | JSON, all watchers "
      "|\n|---|---|---|---|---|\n",
      title);
}

/// Every node watches everything, or only slices of its own zone, which then hold endpoints of one zone
/// alone.
void compare(std::uint32_t nodes, std::uint32_t endpoints, std::uint32_t batch, PodLife life) {
  const auto whole = roll(endpoints, batch, life);
  print_row(fmt::format("batches of {}", batch).c_str(), nodes, whole.writes, 1.0);
  Writes apart;
  for (std::uint32_t zone = 0; zone < zones; ++zone) {
    const auto part = roll(endpoints / zones, std::max(batch / zones, 1U), life);
    apart.objects += part.writes.objects;
    apart.endpoints += part.writes.endpoints;
  }
  print_row(fmt::format("batches of {}, own zone only ({} zones)", batch, zones).c_str(), nodes, apart,
            1.0 / zones);
}

/// The proposal's table.
void proposal(std::uint32_t nodes, std::uint32_t endpoints) {
  print_head(
      fmt::format("## {} nodes, {} endpoints, slices of {}", nodes, endpoints, slice_capacity).c_str());
  Writes made;
  Packer packer(made);
  packer.pass({}, endpoints);
  print_row("service created", nodes, made, 1.0);
  const Writes before = made;
  packer.touch({endpoints / 2});
  print_row("one endpoint changed", nodes, {made.objects - before.objects, made.endpoints - before.endpoints},
            1.0);
  print_row("rolling update, one by one", nodes, roll(endpoints, 1, PodLife::replaced).writes, 1.0);
}

void rolling(std::uint32_t nodes, std::uint32_t endpoints, std::initializer_list<std::uint32_t> batches) {
  print_head(fmt::format("Rolling update of {} endpoints for {} nodes, each pod seen as today (not ready, "
                         "ready, terminating, gone)",
                         endpoints, nodes)
                 .c_str());
  for (const auto batch : batches) compare(nodes, endpoints, batch, PodLife::as_today);
}

}  // namespace
}  // namespace lb::bench

int main() {
  using namespace lb::bench;
  fmt::print("# Fan-out of EndpointSlices, simulated (bench_fanout)\n");
  proposal(5'000, 20'000);
  rolling(5'000, 20'000, {1, 10, 100, 1'000});
  fmt::print("\nExtrapolated, not measured: the same arithmetic at a size that nobody here can run.\n");
  rolling(15'000, 1'000'000, {1'000, 10'000, 100'000});
}
