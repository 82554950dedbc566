// SPDX-License-Identifier: Apache-2.0
// The candidates of one service port: sorted, in blocks, and merged.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "agent/plan/endpoints.hpp"

namespace lb::agent {
namespace {

constexpr std::size_t max_block = BackendChunk::max_size;
constexpr std::size_t usual = max_block * 3 / 4;  ///< leaves room for additions before a block is split
constexpr std::size_t few = max_block / 4;        ///< smaller blocks are merged with the previous one

/// Order of candidates in conflict; the smallest counts: not terminating, then ready, then serving (SEM-4).
auto conflict_order(const Candidate& candidate) {
  return std::tuple(has_all(candidate.traits, trait::terminating), !has_all(candidate.traits, trait::ready),
                    !has_all(candidate.traits, trait::serving), std::string_view(*candidate.slice));
}

OrderKey key_of(const Candidate& candidate) { return {candidate.address, candidate.port}; }

bool same_endpoint(const Candidate& left, const Candidate& right) {
  return left.address == right.address && left.port == right.port;
}

struct Keyed {
  OrderKey key;
  const Candidate* candidate;
};

/// Sorts candidates; equal ones, which only one slice can have, keep their order.
std::vector<Keyed> in_order(const std::vector<Candidate>& candidates) {
  std::vector<Keyed> sorted;
  sorted.reserve(candidates.size());
  for (const auto& candidate : candidates) {
    sorted.push_back({key_of(candidate), &candidate});
  }
  std::ranges::sort(sorted, [](const Keyed& left, const Keyed& right) {
    if (const auto order = left.key <=> right.key; order != 0) {
      return order < 0;
    }
    return std::pair(conflict_order(*left.candidate), left.candidate) <
           std::pair(conflict_order(*right.candidate), right.candidate);
  });
  return sorted;
}

std::vector<Candidate> all_of(const std::vector<Keyed>& sorted) {
  std::vector<Candidate> candidates;
  candidates.reserve(sorted.size());
  for (const Keyed& keyed : sorted) {
    candidates.push_back(*keyed.candidate);
  }
  return candidates;
}

/// Candidates of one address and port, some of which change.
struct Change {
  OrderKey key;
  std::span<const Keyed> gone;
  std::span<const Keyed> fresh;
};

/// Removes the candidates with this key from the front of `sorted` and returns them.
std::span<const Keyed> take(std::span<const Keyed>& sorted, const OrderKey& key) {
  const auto end = std::ranges::find_if(sorted, [&](const Keyed& keyed) { return keyed.key != key; });
  const auto taken = sorted.first(static_cast<std::size_t>(end - sorted.begin()));
  sorted = sorted.subspan(taken.size());
  return taken;
}

/// A slice that changes reports all its endpoints again, most of them unchanged; these are left out.
std::vector<Change> changes_of(std::span<const Keyed> gone, std::span<const Keyed> fresh) {
  std::vector<Change> changes;
  while (!gone.empty() || !fresh.empty()) {
    const bool goes_first = fresh.empty() || (!gone.empty() && gone.front().key < fresh.front().key);
    const OrderKey key = (goes_first ? gone : fresh).front().key;
    const Change change{key, take(gone, key), take(fresh, key)};
    const bool stays = std::ranges::equal(
        change.gone, change.fresh,
        [](const Keyed& left, const Keyed& right) { return *left.candidate == *right.candidate; });
    if (!stays) {
      changes.push_back(change);
    }
  }
  return changes;
}

bool goes(const Candidate& candidate, const Change& change) {
  return std::ranges::any_of(change.gone,
                             [&](const Keyed& gone) { return gone.candidate->slice == candidate.slice; });
}

/// The candidates of a block with the changes applied.
std::vector<Candidate> edited(const std::vector<Candidate>& candidates, std::span<const Change> changes) {
  std::vector<Candidate> result;
  result.reserve(candidates.size() + changes.size());
  auto from = candidates.begin();
  for (const Change& change : changes) {
    const auto to = std::ranges::lower_bound(from, candidates.end(), change.key, {}, key_of);
    result.insert(result.end(), from, to);
    const auto here = static_cast<std::ptrdiff_t>(result.size());
    for (from = to; from != candidates.end() && key_of(*from) == change.key; ++from) {
      if (!goes(*from, change)) {
        result.push_back(*from);
      }
    }
    for (const Keyed& fresh : change.fresh) {
      const auto order = conflict_order(*fresh.candidate);
      result.insert(std::ranges::upper_bound(result.begin() + here, result.end(), order, {}, conflict_order),
                    *fresh.candidate);
    }
  }
  result.insert(result.end(), from, candidates.end());
  return result;
}

/// Calls `visit` with the candidates that count: the first one of each address and port.
template <class Visit>
void for_each_merged(const std::vector<Candidate>& candidates, Visit visit) {
  const Candidate* last = nullptr;
  for (const auto& candidate : candidates) {
    if (last == nullptr || !same_endpoint(*last, candidate)) {
      visit(candidate);
    }
    last = &candidate;
  }
}

/// Without branches: endpoints of all localities are mixed, so branches would be unpredictable.
lb_locality locality(const Candidate& candidate) {
  const int here = candidate.reached_by == ReachedBy::uplink ? LB_SAME_NODE_BY_UPLINK : LB_SAME_NODE;
  const int local = has_all(candidate.traits, trait::local) ? here : LB_ELSEWHERE;
  const int zone = has_all(candidate.traits, trait::same_zone) ? LB_SAME_ZONE : LB_ELSEWHERE;
  return static_cast<lb_locality>(std::max(local, zone));
}

std::vector<BackendPlan> backends_of(const std::vector<Candidate>& candidates, const Sets& sets) {
  std::vector<BackendPlan> backends;
  backends.reserve(candidates.size());
  for_each_merged(candidates, [&](const Candidate& candidate) {
    const bool in_cluster = has_all(candidate.traits, sets.cluster);
    const bool in_local = has_all(candidate.traits, sets.local);
    const bool serving = has_all(candidate.traits, trait::serving);
    if (!in_cluster && !in_local && !serving) {
      return;
    }
    backends.emplace_back(candidate.address, candidate.port, locality(candidate), in_cluster, in_local,
                          serving, candidate.weight);
  });
  return backends;
}

EndpointCounts count_endpoints(const std::vector<Candidate>& candidates) {
  EndpointCounts counts;
  for_each_merged(candidates, [&](const Candidate& candidate) { counts.add(candidate.traits); });
  return counts;
}

}  // namespace

/// Builds blocks, from the first to the last.
class CandidateList::Editor {
 public:
  explicit Editor(std::vector<Block>& blocks) : blocks_(blocks) {}

  void keep(Block& block) { blocks_.push_back(std::move(block)); }

  /// Adds candidates in as many blocks as needed; a few are added to the previous block.
  void add(std::vector<Candidate> candidates) {
    if (candidates.empty()) {
      return;
    }
    if (candidates.size() < few && !blocks_.empty()) {
      auto& before = blocks_.back().candidates;
      if (before.size() + candidates.size() <= max_block) {
        before.insert(before.end(), candidates.begin(), candidates.end());
        candidates = std::move(before);
        blocks_.pop_back();
      }
    }
    if (candidates.size() <= max_block) {
      return push(std::move(candidates));
    }
    const auto parts = (candidates.size() + usual - 1) / usual;
    auto from = candidates.begin();
    for (std::size_t part = 1; part <= parts && from != candidates.end(); ++part) {
      const auto wanted = candidates.begin() + static_cast<std::ptrdiff_t>(candidates.size() * part / parts);
      const auto to = between_endpoints(candidates, std::max(from, wanted));
      if (from != to) {
        push({from, to});
      }
      from = to;
    }
  }

 private:
  using Position = std::vector<Candidate>::iterator;

  static Position between_endpoints(std::vector<Candidate>& candidates, Position at) {
    while (at != candidates.begin() && at != candidates.end() && same_endpoint(*(at - 1), *at)) {
      ++at;
    }
    return at;
  }

  void push(std::vector<Candidate> candidates) {
    const auto first = key_of(candidates.front());
    const auto counts = count_endpoints(candidates);
    blocks_.push_back({first, std::move(candidates), counts, nullptr});
  }

  std::vector<Block>& blocks_;
};

void CandidateList::update(const std::vector<Candidate>& gone, const std::vector<Candidate>& fresh) {
  const auto coming = in_order(fresh);
  if (blocks_.empty()) {
    return Editor(blocks_).add(all_of(coming));
  }
  const auto going = in_order(gone);
  const auto changed = changes_of(going, coming);
  if (changed.empty()) {
    return;
  }
  auto before = std::exchange(blocks_, {});
  blocks_.reserve(before.size() + 1);
  Editor editor(blocks_);
  auto from = changed.begin();
  for (std::size_t at = 0; at < before.size(); ++at) {
    const auto to = at + 1 < before.size() ? std::ranges::lower_bound(from, changed.end(),
                                                                      before[at + 1].first, {}, &Change::key)
                                           : changed.end();
    if (from == to) {
      editor.keep(before[at]);
    } else {
      editor.add(edited(before[at].candidates, {from, to}));
    }
    from = to;
  }
}

EndpointCounts CandidateList::counts() const noexcept {
  EndpointCounts counts;
  for (const auto& block : blocks_) {
    counts.add(block.counts);
  }
  return counts;
}

BackendList CandidateList::backends(const Sets& sets) {
  const bool are_others = std::exchange(sets_, sets) != sets;
  BackendList::Chunks chunks;
  chunks.reserve(blocks_.size());
  for (auto& block : blocks_) {
    if (!block.chunk || are_others) {
      block.chunk = std::make_shared<const BackendChunk>(backends_of(block.candidates, sets));
    }
    chunks.push_back(block.chunk);
  }
  return BackendList(std::move(chunks));
}

}  // namespace lb::agent
