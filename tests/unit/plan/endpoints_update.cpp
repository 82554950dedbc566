// SPDX-License-Identifier: Apache-2.0
// A list of endpoints that is updated in place equals one made from scratch.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "agent/plan/endpoints.hpp"
#include "build.hpp"
#include "tests/lib/seed.hpp"

namespace lb::test {
namespace {

using agent::Candidate;
using agent::CandidateList;
using agent::CompactSlice;

const agent::ServicePortKey key{"default/web", LB_TCP, LB_IPV4};

std::vector<Candidate> candidates_of(const CompactSlice& slice) {
  const agent::NodeView node;
  std::vector<Candidate> found;
  static_cast<void>(slice.append(key, "", {node, {}}, found));
  return found;
}

void append(std::vector<Candidate>& list, const std::vector<Candidate>& more) {
  list.insert(list.end(), more.begin(), more.end());
}

/// The number of addresses and slices, and the most endpoints in a slice.
struct Sizes {
  const char* name;
  std::uint32_t addresses;
  std::uint32_t slices;
  std::uint32_t endpoints;
  int steps;
};

/// Slices with few addresses, so that many share one; sometimes a slice has an address twice. Changed slices
/// often keep parts of their previous content.
class Slices {
 public:
  Slices(std::uint32_t seed, const Sizes& sizes) : random_(seed), sizes_(sizes) {}

  /// Adds, changes or removes up to three slices in one update.
  void change(CandidateList& edited) {
    std::vector<std::unique_ptr<CompactSlice>> retired;
    std::vector<Candidate> gone;
    std::vector<Candidate> fresh;
    std::map<std::string, bool> touched;
    for (auto left = below(3); left < 3; ++left) {
      touched["s" + std::to_string(below(sizes_.slices))] = below(5) == 0;
    }
    for (const auto& [name, goes] : touched) {
      auto made = std::make_unique<CompactSlice>(drawn(name));
      if (auto old = slices_.extract(name)) {
        if (below(4) > 0) {
          made = std::make_unique<CompactSlice>(drawn(name), *old.mapped());
        }
        append(gone, candidates_of(*old.mapped()));
        retired.push_back(std::move(old.mapped()));
      }
      if (goes) {
        continue;
      }
      append(fresh, candidates_of(*made));
      slices_.emplace(name, std::move(made));
    }
    edited.update(gone, fresh);
  }

  [[nodiscard]] CandidateList anew() const {
    std::vector<Candidate> all;
    for (const auto& [name, slice] : slices_) {
      append(all, candidates_of(*slice));
    }
    CandidateList list;
    list.update({}, all);
    return list;
  }

 private:
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }

  k8s::EndpointSlice drawn(const std::string& name) {
    auto& endpoints = told_[name];
    const auto most = below(2) == 0 ? 3U : sizes_.endpoints;
    if (below(2) == 0) {
      endpoints.clear();
    }
    endpoints.resize(endpoints.size() - below(static_cast<std::uint32_t>(endpoints.size()) + 1) / 4);
    while (endpoints.size() > sizes_.endpoints) {
      endpoints.pop_back();
    }
    for (auto left = below(most); left > 0; --left) {
      const auto place = below(sizes_.addresses);
      auto text = "10.1." + std::to_string(place / 250) + "." + std::to_string(place % 250);
      const auto kind = below(4);
      text += kind == 0 ? " unready" : kind == 1 ? " terminating" : kind == 2 ? " node=this" : "";
      endpoints.push_back(std::move(text));
    }
    return slice(name, endpoints);
  }

  std::mt19937 random_;
  Sizes sizes_;
  std::map<std::string, std::vector<std::string>> told_;
  std::map<std::string, std::unique_ptr<CompactSlice>> slices_;
};

struct Seen {
  agent::EndpointCounts counts;
  agent::BackendList backends;
  bool operator==(const Seen&) const = default;
};

Seen seen(CandidateList list) {
  return {list.counts(), list.backends({agent::trait::ready, agent::trait::local})};
}

TEST_CASE("a list of endpoints edited in place is as one made anew (SEM-4, SEM-29)") {
  const auto seed = test::seed();
  const auto sizes = GENERATE(Sizes{"few", 60, 6, 40, 2000}, Sizes{"many", 20'000, 12, 900, 150});
  INFO(sizes.name);
  Slices slices(seed, sizes);
  CandidateList edited;
  for (int step = 0; step < sizes.steps; ++step) {
    CAPTURE(seed, step);
    slices.change(edited);
    REQUIRE(seen(edited) == seen(slices.anew()));
  }
}

}  // namespace
}  // namespace lb::test
