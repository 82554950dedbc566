// SPDX-License-Identifier: Apache-2.0
// Lists of backends in chunks: equal regardless of how they are divided, shared where nothing changed, and
// published as if made from scratch.
#include "agent/plan/backends.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "agent/plan/endpoints.hpp"
#include "tests/lib/seed.hpp"
#include "tests/unit/tables/fakes.hpp"

namespace {

using namespace lb::tables_test;
using lb::agent::BackendChunk;
using lb::agent::BackendList;
using lb::agent::BackendPlan;
using lb::agent::Candidate;
using lb::agent::CandidateList;
namespace trait = lb::agent::trait;

constexpr lb::agent::Sets ready_ones{.cluster = trait::ready, .local = trait::ready | trait::local};

BackendPlan numbered(std::uint32_t number) {
  BackendPlan made = backend(static_cast<std::uint8_t>(number));
  made.address.bytes[14] = static_cast<std::uint8_t>(number >> 8U);
  return made;
}

Backends many(std::uint32_t count) {
  Backends backends;
  for (std::uint32_t number = 0; number < count; ++number) {
    backends.push_back(numbered(number));
  }
  return backends;
}

std::shared_ptr<const BackendChunk> chunk(const Backends& all, std::ptrdiff_t from, std::ptrdiff_t to) {
  return std::make_shared<const BackendChunk>(Backends(all.begin() + from, all.begin() + to));
}

TEST_CASE("lists of backends are equal however they are divided") {
  const auto all = many(600);
  const BackendList list = all;
  CHECK(list.size() == 600);
  CHECK(std::ranges::equal(list, all));
  const BackendList other(BackendList::Chunks{chunk(all, 0, 1), chunk(all, 1, 1), chunk(all, 1, 200),
                                              chunk(all, 200, 400), chunk(all, 400, 600)});
  CHECK(other.chunks().size() == 4);
  CHECK(list == other);
  auto changed = all;
  changed[599].weight = 2;
  CHECK_FALSE(list == BackendList(changed));
  changed.pop_back();
  CHECK_FALSE(list == BackendList(changed));
  CHECK(BackendList() == BackendList(Backends{}));
  CHECK(BackendList().begin() == BackendList().begin());
  CHECK_THROWS_AS(BackendChunk(many(BackendChunk::max_size + 1)), std::length_error);
}

TEST_CASE("a list of backends knows its sets, with their weights") {
  auto backends = many(300);
  backends[3].weight = 0;
  backends[7].in_local = true;
  backends[299].in_cluster = false;
  const BackendList once = backends;
  CHECK(once.members(LB_CLUSTER) == lb::agent::Members{.count = 298, .weights = 298, .divisor = 1});
  CHECK(once.members(LB_LOCAL) == lb::agent::Members{.count = 1, .weights = 1, .divisor = 1});
  for (auto& backend : backends) {
    backend.weight = backend.weight == 0 ? 0 : 6;
  }
  CHECK(BackendList(backends).members(LB_CLUSTER).are_equal());
  backends[290].weight = 9;
  const auto weighed = BackendList(backends).members(LB_CLUSTER);
  CHECK(weighed == lb::agent::Members{.count = 298, .weights = (297 * 6) + 9, .divisor = 3});
  CHECK_FALSE(weighed.are_equal());
}

TEST_CASE("slots are the weights without their common divisor (choice I)") {
  using Weights = std::vector<std::uint8_t>;
  const auto slots = [](const Weights& weights) {
    Backends backends = many(static_cast<std::uint32_t>(weights.size()));
    for (std::size_t at = 0; at < weights.size(); ++at) {
      backends[at].weight = weights[at];
    }
    return BackendList(backends).members(LB_CLUSTER).slots();
  };
  CHECK(slots({}) == 0);
  CHECK(slots({0, 0}) == 0);
  CHECK(slots({1, 1, 1}) == 3);
  CHECK(slots({100, 100}) == 2);
  CHECK(slots({60, 0, 40}) == 5);
  CHECK(slots({7, 3}) == 10);
}

/// A slice's candidates by number, in a list that is edited.
class Edited {
 public:
  void set(std::uint32_t number, lb::agent::Traits traits) {
    const auto place = numbered(number);
    candidates_[number] = {place.address, place.port, 1, lb::agent::ReachedBy::unknown, traits, &name_};
    touched_.insert(number);
  }
  void drop(std::uint32_t number) {
    candidates_.erase(number);
    touched_.insert(number);
  }
  BackendList take() {
    std::vector<Candidate> gone;
    std::vector<Candidate> fresh;
    for (const auto number : std::exchange(touched_, {})) {
      if (const auto old = taken_.find(number); old != taken_.end()) {
        gone.push_back(old->second);
      }
      if (const auto now = candidates_.find(number); now != candidates_.end()) {
        fresh.push_back(now->second);
      }
    }
    taken_ = candidates_;
    list_.update(gone, fresh);
    return list_.backends(ready_ones);
  }
  /// The last two bytes of the address of every backend that accepts new flows.
  [[nodiscard]] std::multiset<std::uint32_t> eligible(lb::agent::Traits wanted) const {
    std::multiset<std::uint32_t> numbers;
    for (const auto& [number, candidate] : candidates_) {
      if (lb::agent::has_all(candidate.traits, wanted)) {
        numbers.insert(number);
      }
    }
    return numbers;
  }

 private:
  std::string name_ = "slice";
  std::map<std::uint32_t, Candidate> candidates_;
  std::map<std::uint32_t, Candidate> taken_;
  std::set<std::uint32_t> touched_;
  CandidateList list_;
};

constexpr lb::agent::Traits is_ready = trait::ready | trait::serving;

std::size_t shared(const BackendList& left, const BackendList& right) {
  std::set<const BackendChunk*> known;
  for (const auto& chunk : left.chunks()) {
    known.insert(chunk.get());
  }
  return static_cast<std::size_t>(
      std::ranges::count_if(right.chunks(), [&](const auto& chunk) { return known.contains(chunk.get()); }));
}

TEST_CASE("what does not change keeps its chunks") {
  Edited edited;
  for (std::uint32_t number = 0; number < 20'000; ++number) {
    edited.set(number, is_ready);
  }
  const auto before = edited.take();
  const auto count = before.chunks().size();
  REQUIRE(count > 20'000 / BackendChunk::max_size);

  SECTION("reported again as it was") {
    for (std::uint32_t number = 0; number < 20'000; number += 7) {
      edited.set(number, is_ready);
    }
    const auto after = edited.take();
    CHECK(shared(before, after) == count);
  }
  SECTION("one of them is no longer ready") {
    edited.set(4711, trait::serving);
    const auto after = edited.take();
    CHECK(shared(before, after) == count - 1);
    CHECK(after.chunks().size() == count);
    CHECK(after.members(LB_CLUSTER).count == 19'999);
  }
  SECTION("one takes another one's place") {
    edited.drop(4711);
    edited.set(30'000, is_ready);
    const auto after = edited.take();
    CHECK(shared(before, after) >= count - 2);
    CHECK(after.size() == 20'000);
  }
  SECTION("nearly all go: those that stay are in few chunks") {
    for (std::uint32_t number = 0; number < 20'000; ++number) {
      if (number % 100 != 0) {
        edited.drop(number);
      }
    }
    const auto after = edited.take();
    CHECK(after.size() == 200);
    CHECK(after.chunks().size() < 10);
  }
}

std::multiset<std::uint32_t> slots_of(FakeKernel& kernel, lb_set set) {
  std::multiset<std::uint32_t> numbers;
  for (std::uint32_t at = 0; at < set.count; ++at) {
    const auto backend = kernel.backends.load(kernel.slots.load(set.first + at));
    numbers.insert(std::uint32_t{backend.address[14]} << 8U | backend.address[15]);
  }
  return numbers;
}

TEST_CASE("a plan of many chunks is published as its candidates are (SEM-29, SEM-30)") {
  const auto seed = lb::test::seed();
  std::mt19937 random(seed);
  FakeKernel kernel({.backends = 8192, .slots = 65'536});
  Agent agent(kernel);
  Edited edited;
  for (std::uint32_t number = 0; number < 3000; ++number) {
    edited.set(static_cast<std::uint32_t>(random() % 5000), is_ready);
  }
  for (int step = 0; step < 300; ++step) {
    CAPTURE(seed, step);
    for (auto left = random() % (step % 50 == 0 ? 2000 : 10); left > 0; --left) {
      const auto number = static_cast<std::uint32_t>(random() % 5000);
      switch (random() % 4) {
        case 0:
          edited.drop(number);
          break;
        case 1:
          edited.set(number, is_ready | trait::local);
          break;
        case 2:
          edited.set(number, trait::serving);
          break;
        default:
          edited.set(number, is_ready);
      }
      if (random() % 2 == 0) {
        static_cast<void>(edited.take());
      }
    }
    const auto plan = service("web", 1, {});
    plan->backends = edited.take();
    agent.tables.apply(step == 0 ? lb::agent::Batch::whole : lb::agent::Batch::changes, {change(plan)});
    agent.settle();
    const auto row = kernel.services.load(1);
    REQUIRE(slots_of(kernel, row.cluster) == edited.eligible(trait::ready));
    REQUIRE(slots_of(kernel, row.local) == edited.eligible(trait::ready | trait::local));
  }
  CHECK(agent.complaints.empty());
}

}  // namespace
