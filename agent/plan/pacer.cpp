// Between the model and the tables: writes plans in parts.
#include "agent/plan/pacer.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "agent/plan/endpoints.hpp"

namespace lb::agent {
namespace {

using Plan = std::shared_ptr<const ServicePortPlan>;

constexpr std::size_t backends_per_write = 16;
constexpr std::size_t removals_per_write = 2;  ///< removed backends, each with an entry in quarantine
constexpr std::size_t writes_per_port = 4;     ///< name, number, sets
/// With consistent selection: a write takes about 2 µs, and each backend 1 ns for each slot of a table.
constexpr std::size_t ranks_per_write = 2048;

template <class Entry>
std::size_t differences(const std::vector<Entry>& have, const std::vector<Entry>& want) {
  std::vector<Entry> all;
  std::ranges::set_symmetric_difference(have, want, std::back_inserter(all));
  return all.size();
}

/// Positions in two sorted lists.
struct Reached {
  BackendList::Iterator have;
  BackendList::Iterator want;
  std::size_t work = 0;  ///< in sixteenths of a write
};

/// Walks both lists for up to `writes`, and over at least one backend if `writes` is not 0. Skips shared
/// chunks.
Reached go_through(const BackendList& have, const BackendList& want, std::size_t writes) {
  constexpr std::size_t ended = backends_per_write / removals_per_write;
  const auto goes_first = [](const BackendPlan& left, const BackendPlan& right) {
    return OrderKey{left.address, left.port} < OrderKey{right.address, right.port};
  };
  const auto have_end = have.end();
  const auto want_end = want.end();
  Reached reached{have.begin(), want.begin()};
  auto& [old, next, work] = reached;
  while ((old != have_end || next != want_end) && work / backends_per_write < writes) {
    const bool both = old != have_end && next != want_end;
    if (both && share_chunk(old, next)) {
      old.skip_chunk();
      next.skip_chunk();
    } else if (both && old->address == next->address && old->port == next->port) {
      work += *old++ == *next++ ? 0 : 1;
    } else if (next == want_end || (both && goes_first(*old, *next))) {
      work += ended;
      ++old;
    } else {
      ++work;
      ++next;
    }
  }
  return reached;
}

/// How many writes it takes to fill the tables of consistent selection.
class TableCost {
 public:
  explicit TableCost(std::uint32_t slots) : slots_(slots) {}

  /// Each table ranks all members of its set.
  [[nodiscard]] std::size_t of(const ServicePortPlan& plan) const {
    if (plan.policy.selection != LB_CONSISTENT) return 0;
    const std::size_t members =
        plan.backends.members(LB_CLUSTER).count + plan.backends.members(LB_LOCAL).count;
    return members * slots_ / ranks_per_write;
  }
  /// `work`: what go_through() found. A table is filled again if a backend or the selection changes.
  [[nodiscard]] std::size_t between(const ServicePortPlan& have, const ServicePortPlan& want,
                                    std::size_t work) const {
    return work > 0 || have.policy.selection != want.policy.selection ? of(want) : 0;
  }

 private:
  std::size_t slots_;
};

/// Writes for backends that differ between two plans.
std::size_t backend_writes(const ServicePortPlan& have, const ServicePortPlan& want, std::size_t enough,
                           TableCost table) {
  const auto work = go_through(have.backends, want.backends, enough).work;
  return work / backends_per_write + table.between(have, want, work);
}

/// Without its tables.
std::size_t writes_of(const ServicePortPlan& plan, std::size_t backends_in_one) {
  return writes_per_port + plan.frontends.size() + plan.source_ranges.size() +
         plan.backends.size() / backends_in_one;
}

std::size_t writes_between(const ServicePortPlan& have, const ServicePortPlan& want, std::size_t enough,
                           TableCost table) {
  return differences(have.frontends, want.frontends) + differences(have.source_ranges, want.source_ranges) +
         backend_writes(have, want, enough, table) + 1;
}

/// Moves from one sorted list towards another by up to `writes` entries; adds entries before it removes
/// others.
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

/// A service port with nothing written yet.
ServicePortPlan unwritten(const ServicePortPlan& want) {
  ServicePortPlan plan = want;
  plan.frontends.clear();
  plan.source_ranges.clear();
  plan.backends = {};
  return plan;
}

/// Whether a set of `part` is empty although it is empty in neither `have` nor `want`.
bool is_emptier(const BackendList& part, const BackendList& have, const BackendList& want) {
  return std::ranges::any_of(std::array{LB_CLUSTER, LB_LOCAL}, [&](lb_scope scope) {
    return part.members(scope).count == 0 && have.members(scope).count > 0 && want.members(scope).count > 0;
  });
}

/// The wanted backends up to a position in the order, and from there on the present ones.
BackendList nearer_backends(const ServicePortPlan& have, const ServicePortPlan& want, std::size_t& writes,
                            TableCost table) {
  const bool is_consistent = want.policy.selection == LB_CONSISTENT;
  const auto max_writes = is_consistent ? std::numeric_limits<std::size_t>::max() : writes;
  const auto reached = go_through(have.backends, want.backends, max_writes);
  const auto cost = reached.work / backends_per_write + table.between(have, want, reached.work) + 1;
  writes -= std::min(writes, cost);
  if (reached.have == have.backends.end() && reached.want == want.backends.end()) return want.backends;
  auto part = BackendList::joined(want.backends, reached.want, have.backends, reached.have);
  if (is_emptier(part, have.backends, want.backends)) return want.backends;
  return part;
}

Plan shared(ServicePortPlan plan) { return std::make_shared<const ServicePortPlan>(std::move(plan)); }

/// First adds ranges, under the old policy; then changes the backends, under the new policy, then the
/// frontends; removes the old ranges last.
Plan nearer(const ServicePortPlan& have, const Plan& want, std::size_t& writes, TableCost table) {
  const auto cost = writes_between(have, *want, writes + 1, table);
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
  plan.backends = nearer_backends(have, *want, writes, table);
  if (plan.backends.chunks() != want->backends.chunks()) {
    plan.frontends = have.frontends;
    return shared(std::move(plan));
  }
  plan.frontends = nearer(have.frontends, want->frontends, writes);
  if (plan.frontends == want->frontends) {
    plan.source_ranges = nearer(have.source_ranges, want->source_ranges, writes);
  }
  return plan == *want ? want : shared(std::move(plan));  // an equal copy would be published once more
}

/// Removes up to `writes` worth of the last backends, in whole chunks.
BackendList fewer(const BackendList& backends, std::size_t& writes) {
  auto chunks = backends.chunks();
  while (!chunks.empty() && writes > 0) {
    writes -= std::min(writes, chunks.back()->size() / removals_per_write + 1);
    chunks.pop_back();
  }
  return BackendList(std::move(chunks));
}

/// Removes frontends first, because a packet must not match a frontend without the rest. What no frontend
/// leads to needs no table of consistent selection. Returns nullptr once everything is removed.
Plan going(const Plan& have, std::size_t& writes) {
  if (const auto cost = writes_of(*have, removals_per_write); cost <= writes) {
    writes -= cost;
    return nullptr;
  }
  ServicePortPlan plan = *have;
  plan.frontends = nearer(plan.frontends, {}, writes);
  if (plan.frontends.empty()) plan.source_ranges = nearer(plan.source_ranges, {}, writes);
  if (plan.frontends.empty() && plan.source_ranges.empty()) {
    plan.policy.selection = LB_RANDOM;
    plan.backends = fewer(plan.backends, writes);
  }
  return shared(std::move(plan));
}

struct Pair {
  const Plan* have = nullptr;
  const Plan* want = nullptr;
};

/// Pairs plans with the same key.
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

std::size_t writes_between(const ServicePlans& have, const ServicePlans& want, std::size_t enough,
                           std::uint32_t consistent_slots) {
  const TableCost table(consistent_slots);
  std::size_t count = 0;
  for (const auto& [old, next] : pairs_of(have, want)) {
    if (count >= enough) break;
    if (old == nullptr) {
      count += writes_of(**next, backends_per_write) + table.of(**next);
    } else if (next == nullptr) {
      count += writes_of(**old, removals_per_write);
    } else if (*old != *next) {
      count += writes_between(**old, **next, enough - count, table);
    }
  }
  return count;
}

ServicePlans part_towards(const ServicePlans& have, const ServicePlans& want, std::size_t writes,
                          std::uint32_t consistent_slots) {
  const TableCost table(consistent_slots);
  const auto pairs = pairs_of(have, want);
  std::vector<Plan> parts(pairs.size());
  for (std::size_t at = 0; at < pairs.size(); ++at) {  // removals first, to make room
    const auto& [old, next] = pairs[at];
    if (old != nullptr && next == nullptr) parts[at] = writes == 0 ? *old : going(*old, writes);
  }
  for (std::size_t at = 0; at < pairs.size(); ++at) {
    const auto& [old, next] = pairs[at];
    if (next == nullptr) continue;
    if (writes == 0 || (old != nullptr && *old == *next)) {
      if (old != nullptr) parts[at] = *old;
    } else if (old != nullptr) {
      parts[at] = nearer(**old, *next, writes, table);
    } else {
      writes -= std::min(writes, writes_per_port);
      parts[at] = nearer(unwritten(**next), *next, writes, table);
    }
  }
  std::erase(parts, nullptr);
  return parts;
}

void Pacer::apply(Batch batch, std::vector<PlanChange> changes) {
  if (batch == Batch::whole) {
    prepare(changes);
    pass_whole();
  } else {
    pass_changes(std::move(changes));
  }
  ask_for_more();
}

bool Pacer::prepare(std::vector<PlanChange>& changes) {
  for (auto& change : changes) prepare_one(std::move(change));
  changes.clear();
  return true;
}

void Pacer::prepare_one(PlanChange change) {
  if (is_awaited(change)) return;
  const auto writes = first_ == FirstBatch::in_parts ? writes_for(change) : 0;
  prepared_writes_ += writes;
  if (change.state == PlanState::planned && std::max(writes, prepared_writes_) > max_writes_) {
    return wait_in_turn(std::move(change));
  }
  note(change);
  auto& prepared = prepared_[change.service];
  prepared = std::move(change);
}

/// Removed services come first.
void Pacer::pass_whole() {
  std::vector<PlanChange> gone;
  std::vector<PlanChange> others;
  for (auto& [service, change] : std::exchange(prepared_, {})) {
    const bool is_gone = change.ports.empty() && change.state == PlanState::planned;
    (is_gone ? gone : others).push_back(std::move(change));
  }
  std::ranges::move(others, std::back_inserter(gone));
  plans_.apply(Batch::whole, std::move(gone));
}

void Pacer::pass_changes(std::vector<PlanChange> changes) {
  std::vector<PlanChange> small;
  for (auto& change : changes) {
    if (is_awaited(change)) continue;
    if (change.state == PlanState::planned && writes_for(change) > max_writes_) {
      wait_in_turn(std::move(change));
    } else {
      note(change);
      small.push_back(std::move(change));
    }
  }
  if (!small.empty()) plans_.apply(Batch::changes, std::move(small));
}

/// Replaces the waiting plans of this service, if there are any.
bool Pacer::is_awaited(PlanChange& change) {
  const auto waiting = wanted_.find(change.service);
  if (waiting == wanted_.end()) return false;
  waiting->second = std::move(change.ports);
  return true;
}

void Pacer::wait_in_turn(PlanChange change) {
  turns_.push_back(change.service);
  wanted_.emplace(std::move(change.service), std::move(change.ports));
}

std::size_t Pacer::writes_for(const PlanChange& change) const {
  const auto passed = passed_.find(change.service);
  return writes_between(passed == passed_.end() ? ServicePlans{} : passed->second, change.ports,
                        max_writes_ + 1, consistent_slots_);
}

void Pacer::note(const PlanChange& passed) {
  if (passed.state == PlanState::waiting) return;
  if (passed.ports.empty()) {
    passed_.erase(passed.service);
  } else {
    passed_.insert_or_assign(passed.service, passed.ports);
  }
}

/// The next part for the service whose turn it is, of about `writes` writes, which it subtracts.
PlanChange Pacer::next_part(std::size_t& writes) {
  const auto service = std::move(turns_.front());
  turns_.pop_front();
  const auto want = wanted_.find(service);
  const auto& passed = passed_[service];
  const auto cost = writes_between(passed, want->second, writes + 1, consistent_slots_);
  PlanChange part{service, part_towards(passed, want->second, writes, consistent_slots_)};
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
  constexpr std::size_t min_writes = 2;  // with fewer, a part may make no progress
  asked_for_more_ = false;
  std::vector<PlanChange> parts;  // Removed services come first: another service may get their frontends next
  std::vector<PlanChange> others;
  for (std::size_t writes = max_writes_; writes >= min_writes && !turns_.empty();) {
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
