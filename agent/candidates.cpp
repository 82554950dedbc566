// The candidates of one service port: kept in order, merged, and looked at.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "agent/endpoints.hpp"

namespace lb::agent {
namespace {

/// Of endpoints in conflict the smaller one counts: not terminating, then ready, then serving (SEM-4).
auto conflict_order(const Candidate& candidate) {
  return std::tuple(has_all(candidate.traits, trait::terminating), !has_all(candidate.traits, trait::ready),
                    !has_all(candidate.traits, trait::serving), std::string_view(candidate.slice->name()));
}

bool same_place(const Candidate& left, const Candidate& right) {
  using Words = std::array<std::uint64_t, 2>;
  const auto mine = std::bit_cast<Words>(left.address.bytes);
  const auto other = std::bit_cast<Words>(right.address.bytes);
  return ((mine[0] ^ other[0]) | (mine[1] ^ other[1]) | static_cast<std::uint64_t>(left.port ^ right.port)) ==
         0;
}

struct Keyed {
  OrderKey key;
  const Candidate* candidate;
};

bool comes_before(const Keyed& left, const Keyed& right) {
  if (left.key != right.key) return left.key < right.key;
  return conflict_order(*left.candidate) < conflict_order(*right.candidate);
}

Keyed keyed(const Candidate& candidate) { return {OrderKey(candidate.address, candidate.port), &candidate}; }

/// Full equals, which only one slice can have, stay in their order.
std::vector<Keyed> in_order(const std::vector<Candidate>& fresh) {
  std::vector<Keyed> sorted;
  sorted.reserve(fresh.size());
  for (const auto& candidate : fresh) sorted.push_back(keyed(candidate));
  std::sort(sorted.begin(), sorted.end(), [](const Keyed& left, const Keyed& right) {
    if (const auto order = left.key <=> right.key; order != 0) return order < 0;
    return std::pair(conflict_order(*left.candidate), left.candidate) <
           std::pair(conflict_order(*right.candidate), right.candidate);
  });
  return sorted;
}

/// Where those that go are, in order. Those of one address and port are few.
std::vector<std::size_t> find(const std::vector<Candidate>& candidates, const std::vector<Candidate>& gone) {
  const auto key_of = [](const Candidate& candidate) { return keyed(candidate).key; };
  std::vector<std::size_t> places;
  for (const auto& wanted : gone) {
    auto at = std::ranges::lower_bound(candidates, key_of(wanted), {}, key_of);
    for (; at != candidates.end() && same_place(*at, wanted); ++at) {
      if (at->slice == wanted.slice) places.push_back(static_cast<std::size_t>(at - candidates.begin()));
    }
  }
  std::ranges::sort(places);
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

/// One comes before the candidate at a place; or, without one, the candidate there goes.
struct Edit {
  std::size_t at;
  const Candidate* fresh;
};

/// In order of their places. `holes` and `fresh` are sorted.
std::vector<Edit> edits(const std::vector<Candidate>& candidates, const std::vector<std::size_t>& holes,
                        const std::vector<Keyed>& fresh) {
  std::vector<Edit> edits;
  edits.reserve(holes.size() + fresh.size());
  auto hole = holes.begin();
  const auto add_holes_before = [&](std::size_t place) {
    for (; hole != holes.end() && *hole < place; ++hole) edits.push_back({*hole, nullptr});
  };
  auto from = candidates.begin();
  for (const auto& next : fresh) {
    from = std::lower_bound(from, candidates.end(), next, [](const Candidate& old, const Keyed& mine) {
      return comes_before(keyed(old), mine);
    });
    const auto at = static_cast<std::size_t>(from - candidates.begin());
    add_holes_before(at);
    edits.push_back({at, next.candidate});
  }
  add_holes_before(candidates.size());
  return edits;
}

/// Candidates that stay, and by how many places they move to the end.
struct Stay {
  std::ptrdiff_t begin;
  std::ptrdiff_t end;
  std::ptrdiff_t by;
};

/// What is before each edit, and last what is after all of them.
std::vector<Stay> stays_between(const std::vector<Edit>& edits, std::size_t size) {
  std::vector<Stay> stays;
  stays.reserve(edits.size() + 1);
  std::ptrdiff_t begin = 0;
  std::ptrdiff_t by = 0;
  for (const auto& edit : edits) {
    const auto at = static_cast<std::ptrdiff_t>(edit.at);
    const bool goes = edit.fresh == nullptr;
    stays.push_back({begin, at, by});
    begin = goes ? at + 1 : at;
    by += goes ? -1 : 1;
  }
  stays.push_back({begin, static_cast<std::ptrdiff_t>(size), by});
  return stays;
}

/// In place: where one comes for one that goes, nothing behind them moves. What moves to the front goes
/// first, from the front, then what moves to the end, from the end: so nobody is written over.
void carry_out(const std::vector<Edit>& edits, std::vector<Candidate>& candidates) {
  const auto stays = stays_between(edits, candidates.size());
  const auto size = static_cast<std::size_t>(stays.back().end + stays.back().by);
  candidates.reserve(size);  // resize() alone would take twice the memory
  candidates.resize(std::max(size, candidates.size()));
  const auto first = candidates.begin();
  for (const auto& stay : stays) {
    if (stay.by < 0) std::move(first + stay.begin, first + stay.end, first + stay.begin + stay.by);
  }
  for (const auto& stay : std::views::reverse(stays)) {
    if (stay.by > 0) std::move_backward(first + stay.begin, first + stay.end, first + stay.end + stay.by);
  }
  for (std::size_t i = 0; i < edits.size(); ++i) {
    if (edits[i].fresh != nullptr)
      first[static_cast<std::ptrdiff_t>(edits[i].at) + stays[i].by] = *edits[i].fresh;
  }
  candidates.resize(size);
}

/// Calls `visit` with those candidates that count: of equals the first.
template <class Visit>
void for_each_merged(const std::vector<Candidate>& candidates, Visit visit) {
  const Candidate* last = nullptr;
  for (const auto& candidate : candidates) {
    if (last == nullptr || !same_place(*last, candidate)) visit(candidate);
    last = &candidate;
  }
}

/// Without branches: endpoints of all localities come in a mix that no branch predictor learns.
lb_locality locality(Traits traits) {
  const int local = has_all(traits, trait::local) ? LB_SAME_NODE : LB_ELSEWHERE;
  const int zone = has_all(traits, trait::same_zone) ? LB_SAME_ZONE : LB_ELSEWHERE;
  return static_cast<lb_locality>(std::max(local, zone));
}

}  // namespace

void CandidateList::update(const std::vector<Candidate>& gone, const std::vector<Candidate>& fresh) {
  const auto sorted = in_order(fresh);
  carry_out(edits(candidates_, find(candidates_, gone), sorted), candidates_);
}

/// Of 100,000 endpoints few differ in their traits: equals are counted first, and added up once.
Census CandidateList::see(const Sets& sets, std::vector<BackendPlan>& backends) const {
  Census census;
  std::array<std::uint32_t, trait::first_unused> equals{};
  backends.clear();
  backends.reserve(candidates_.size());
  for_each_merged(candidates_, [&](const Candidate& candidate) {
    if (candidate.traits < equals.size()) {
      ++equals[candidate.traits];
    } else {
      census.add(candidate.traits);
    }
    const bool in_cluster = has_all(candidate.traits, sets.cluster);
    const bool in_local = has_all(candidate.traits, sets.local);
    const bool serving = has_all(candidate.traits, trait::serving);
    if (!in_cluster && !in_local && !serving) return;
    backends.emplace_back(candidate.address, candidate.port, locality(candidate.traits), in_cluster, in_local,
                          serving, candidate.weight);
  });
  for (Traits traits = 0; traits < equals.size(); ++traits) {
    if (equals[traits] > 0) census.add(traits, equals[traits]);
  }
  return census;
}

}  // namespace lb::agent
