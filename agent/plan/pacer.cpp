// Between the model and the tables: plans are written in parts.
#include "agent/plan/pacer.hpp"

#include <algorithm>
#include <boost/unordered/unordered_flat_set.hpp>
#include <iterator>
#include <utility>

namespace lb::agent {
namespace {

using Plan = std::shared_ptr<const ServicePortPlan>;

constexpr std::size_t backends_a_write = 16;
constexpr std::size_t ended_a_write = 4;  ///< backends that go, each with an entry in quarantine
constexpr std::size_t writes_a_port = 4;  ///< name, number, sets

template <class Entry>
std::size_t differences(const std::vector<Entry>& have, const std::vector<Entry>& want) {
  std::vector<Entry> all;
  std::ranges::set_symmetric_difference(have, want, std::back_inserter(all));
  return all.size();
}

/// Of backends that two plans do not share.
std::size_t backend_writes(const ServicePortPlan& have, const ServicePortPlan& want) {
  const auto& chunks = have.backends.chunks();
  const boost::unordered_flat_set<std::shared_ptr<const BackendChunk>> kept(chunks.begin(), chunks.end());
  std::size_t count = 0;
  for (const auto& chunk : want.backends.chunks()) count += kept.contains(chunk) ? 0 : chunk->size();
  return count / backends_a_write;
}

std::size_t writes_of(const ServicePortPlan& plan, std::size_t backends_in_one) {
  return writes_a_port + plan.frontends.size() + plan.source_ranges.size() +
         plan.backends.size() / backends_in_one;
}

std::size_t writes_between(const ServicePortPlan& have, const ServicePortPlan& want) {
  return differences(have.frontends, want.frontends) + differences(have.source_ranges, want.source_ranges) +
         backend_writes(have, want) + 1;
}

/// Takes up to `writes` steps from one sorted list to another, or all; what comes is there before what goes
/// has gone.
template <class Entry>
std::vector<Entry> nearer(const std::vector<Entry>& have, const std::vector<Entry>& want,
                          std::size_t& writes) {
  std::vector<Entry> come;
  std::ranges::set_difference(want, have, std::back_inserter(come));
  std::vector<Entry> go;
  std::ranges::set_difference(have, want, std::back_inserter(go));
  const std::size_t coming = std::min(come.size(), writes);
  const std::size_t going = std::min(go.size(), writes - coming);
  writes -= coming + going;
  come.resize(coming);
  go.resize(going);
  std::vector<Entry> with;
  std::ranges::set_union(have, come, std::back_inserter(with));
  std::vector<Entry> entries;
  std::ranges::set_difference(with, go, std::back_inserter(entries));
  return entries;
}

template <class Entry>
bool has_all(const std::vector<Entry>& entries, const std::vector<Entry>& wanted) {
  return std::ranges::includes(entries, wanted);
}

std::vector<k8s::Prefix> both(const std::vector<k8s::Prefix>& left, const std::vector<k8s::Prefix>& right) {
  std::vector<k8s::Prefix> all;
  std::ranges::set_union(left, right, std::back_inserter(all));
  return all;
}

/// A port as it is before anything reaches it.
ServicePortPlan unreached(const ServicePortPlan& want) {
  ServicePortPlan plan = want;
  plan.frontends.clear();
  plan.source_ranges.clear();
  return plan;
}

Plan shared(ServicePortPlan plan) { return std::make_shared<const ServicePortPlan>(std::move(plan)); }

/// First the ranges that come, under the old policy; then all else, with the ranges that go; then those go.
Plan nearer(const ServicePortPlan& have, const Plan& want, std::size_t& writes) {
  const auto cost = writes_between(have, *want);
  if (cost <= writes) {
    writes -= cost;
    return want;
  }
  const auto ranges = both(have.source_ranges, want->source_ranges);
  if (!has_all(have.source_ranges, want->source_ranges)) {
    ServicePortPlan plan = have;
    plan.source_ranges = nearer(have.source_ranges, ranges, writes);
    return shared(std::move(plan));
  }
  ServicePortPlan plan = *want;
  plan.source_ranges = ranges;
  const auto backends = backend_writes(have, *want);
  writes -= std::min(writes, backends + 1);
  plan.frontends = nearer(have.frontends, want->frontends, writes);
  if (plan.frontends == want->frontends) {
    plan.source_ranges = nearer(have.source_ranges, want->source_ranges, writes);
  }
  return shared(std::move(plan));
}

/// Without so many of the last ones, in whole chunks.
BackendList fewer(const BackendList& backends, std::size_t& writes) {
  auto chunks = backends.chunks();
  while (!chunks.empty() && writes > 0) {
    writes -= std::min(writes, chunks.back()->size() / ended_a_write + 1);
    chunks.pop_back();
  }
  return BackendList(std::move(chunks));
}

/// Its frontends first, which nobody may find without the rest. Null: it is gone.
Plan going(const Plan& have, std::size_t& writes) {
  if (const auto cost = writes_of(*have, ended_a_write); cost <= writes) {
    writes -= cost;
    return nullptr;
  }
  ServicePortPlan plan = *have;
  plan.frontends = nearer(plan.frontends, {}, writes);
  if (plan.frontends.empty()) plan.source_ranges = nearer(plan.source_ranges, {}, writes);
  if (plan.frontends.empty() && plan.source_ranges.empty()) plan.backends = fewer(plan.backends, writes);
  return shared(std::move(plan));
}

struct Pair {
  const Plan* have = nullptr;
  const Plan* want = nullptr;
};

/// By key.
std::vector<Pair> pairs_of(const ServicePlans& have, const ServicePlans& want) {
  std::vector<Pair> pairs;
  auto old = have.begin();
  auto next = want.begin();
  while (old != have.end() || next != want.end()) {
    const bool goes = next == want.end() || (old != have.end() && (*old)->key < (*next)->key);
    const bool comes = !goes && (old == have.end() || (*next)->key < (*old)->key);
    pairs.push_back({comes ? nullptr : &*old++, goes ? nullptr : &*next++});
  }
  return pairs;
}

}  // namespace

std::size_t writes_between(const ServicePlans& have, const ServicePlans& want) {
  std::size_t count = 0;
  for (const auto& [old, next] : pairs_of(have, want)) {
    if (old == nullptr || next == nullptr) {
      count += old == nullptr ? writes_of(**next, backends_a_write) : writes_of(**old, ended_a_write);
    } else if (*old != *next) {
      count += writes_between(**old, **next);
    }
  }
  return count;
}

ServicePlans part_of_the_way(const ServicePlans& have, const ServicePlans& want, std::size_t writes) {
  const auto pairs = pairs_of(have, want);
  std::vector<Plan> parts(pairs.size());
  for (std::size_t at = 0; at < pairs.size(); ++at) {  // room first
    const auto& [old, next] = pairs[at];
    if (old != nullptr && next == nullptr) parts[at] = writes == 0 ? *old : going(*old, writes);
  }
  for (std::size_t at = 0; at < pairs.size(); ++at) {
    const auto& [old, next] = pairs[at];
    if (next == nullptr) continue;
    if (writes == 0 || (old != nullptr && *old == *next)) {
      if (old != nullptr) parts[at] = *old;
    } else if (old != nullptr) {
      parts[at] = nearer(**old, *next, writes);
    } else {
      writes -= std::min(writes, writes_a_port + (*next)->backends.size() / backends_a_write);
      parts[at] = nearer(unreached(**next), *next, writes);
    }
  }
  std::erase(parts, nullptr);
  return parts;
}

void Pacer::apply(Batch batch, std::vector<PlanChange> changes) {
  if (batch == Batch::whole) {
    wanted_.clear();
    turns_.clear();
    passed_.clear();
  }
  const bool is_bounded = batch == Batch::changes || first_ == FirstBatch::in_parts;
  std::size_t first = 0;  // writes of a first batch so far
  std::vector<PlanChange> small;
  for (auto& change : changes) {
    const auto writes = is_bounded ? writes_for(change) : 0;
    if (batch == Batch::whole) first += writes;
    if (const auto waiting = wanted_.find(change.service); waiting != wanted_.end()) {
      waiting->second = std::move(change.ports);
    } else if (change.standing == Standing::planned && std::max(writes, first) > most_) {
      turns_.push_back(change.service);
      wanted_.emplace(change.service, std::move(change.ports));
    } else {
      note(change);
      small.push_back(std::move(change));
    }
  }
  if (batch == Batch::whole || !small.empty()) plans_.apply(batch, std::move(small));
  ask_for_more();
}

std::size_t Pacer::writes_for(const PlanChange& change) const {
  const auto passed = passed_.find(change.service);
  return writes_between(passed == passed_.end() ? ServicePlans{} : passed->second, change.ports);
}

void Pacer::note(const PlanChange& passed) {
  if (passed.standing == Standing::waiting) return;
  if (passed.ports.empty()) {
    passed_.erase(passed.service);
  } else {
    passed_.insert_or_assign(passed.service, passed.ports);
  }
}

/// Of the service whose turn it is, with about so many writes at most, of which it takes its own.
PlanChange Pacer::next_part(std::size_t& writes) {
  const auto service = std::move(turns_.front());
  turns_.pop_front();
  const auto want = wanted_.find(service);
  const auto& passed = passed_[service];
  const auto cost = writes_between(passed, want->second);
  PlanChange part{service, part_of_the_way(passed, want->second, writes)};
  note(part);
  writes -= std::min(writes, cost);
  if (part.ports == want->second) {
    wanted_.erase(want);
  } else {
    turns_.push_back(service);
    writes = 0;
  }
  return part;
}

void Pacer::take_turn() {
  constexpr std::size_t least = 2;  // with fewer nothing need come nearer
  asked_for_more_ = false;
  std::vector<PlanChange> parts;  // Services that are gone come first: what they held may be another's next
  std::vector<PlanChange> others;
  for (std::size_t writes = most_; writes >= least && !turns_.empty();) {
    auto part = next_part(writes);
    (part.ports.empty() ? parts : others).push_back(std::move(part));
  }
  std::ranges::move(others, std::back_inserter(parts));
  if (!parts.empty()) plans_.apply(Batch::changes, std::move(parts));
  ask_for_more();
}

void Pacer::ask_for_more() {
  if (!turns_.empty() && !std::exchange(asked_for_more_, true)) more_();
}

}  // namespace lb::agent
