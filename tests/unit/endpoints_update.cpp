// A list of endpoints that is edited in place against one that is made anew.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "agent/endpoints.hpp"
#include "plan_build.hpp"
#include "tests/seed.hpp"

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

/// Slices of few addresses, so that many share one; sometimes with one address twice.
class Slices {
 public:
  explicit Slices(std::uint32_t seed) : random_(seed) {}

  /// Up to three slices come, change or go, in one update.
  void change(CandidateList& edited) {
    std::vector<std::unique_ptr<CompactSlice>> retired;
    std::vector<Candidate> gone;
    std::vector<Candidate> fresh;
    std::map<std::string, bool> touched;
    for (auto left = below(3); left < 3; ++left) touched["s" + std::to_string(below(6))] = below(5) == 0;
    for (const auto& [name, goes] : touched) {
      if (auto old = slices_.extract(name)) {
        append(gone, candidates_of(*old.mapped()));
        retired.push_back(std::move(old.mapped()));
      }
      if (goes) continue;
      auto made = std::make_unique<CompactSlice>(drawn(name));
      append(fresh, candidates_of(*made));
      slices_.emplace(name, std::move(made));
    }
    edited.update(gone, fresh);
  }

  [[nodiscard]] CandidateList anew() const {
    std::vector<Candidate> all;
    for (const auto& [name, slice] : slices_) append(all, candidates_of(*slice));
    CandidateList list;
    list.update({}, all);
    return list;
  }

 private:
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }

  k8s::EndpointSlice drawn(const std::string& name) {
    std::vector<std::string> endpoints;
    const auto most = below(2) == 0 ? 3U : 40U;
    for (auto left = below(most); left > 0; --left) {
      auto text = "10.1.0." + std::to_string(below(60));
      const auto kind = below(4);
      text += kind == 0 ? " unready" : kind == 1 ? " terminating" : kind == 2 ? " node=this" : "";
      endpoints.push_back(std::move(text));
    }
    return slice(name, endpoints);
  }

  std::mt19937 random_;
  std::map<std::string, std::unique_ptr<CompactSlice>> slices_;
};

struct Seen {
  agent::Census census;
  std::vector<agent::BackendPlan> backends;
  bool operator==(const Seen&) const = default;
};

Seen seen(const CandidateList& list) {
  Seen seen;
  seen.census = list.see({agent::trait::ready, agent::trait::local}, seen.backends);
  return seen;
}

TEST_CASE("a list of endpoints edited in place is as one made anew (SEM-4, SEM-29)") {
  const auto seed = test::seed();
  Slices slices(seed);
  CandidateList edited;
  for (int step = 0; step < 2000; ++step) {
    CAPTURE(seed, step);
    slices.change(edited);
    REQUIRE(seen(edited) == seen(slices.anew()));
  }
}

}  // namespace
}  // namespace lb::test
