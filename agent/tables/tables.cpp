// The order of one batch: frontends go, sets flip, frontends come, numbers are retired; then what failed is
// kept.
#include "agent/tables/tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "agent/tables/table_keys.hpp"
#include "maps/text.hpp"

namespace lb::agent {

using maps::error_code;

namespace {

constexpr auto first_pause = std::chrono::milliseconds(100);
constexpr unsigned most_doublings = 8;  // 25.6 s

std::string text_of(const lb_frontend_key& key) {
  return fmt::format("{}/{}", maps::socket_text(key.address, key.port), maps::word(key.protocol));
}

/// Nothing where the name does not fit.
std::optional<lb_name> name_of(const ServicePortKey& key, lb_bool retired) {
  lb_name name{};
  if (key.name.size() >= sizeof(name.service)) return std::nullopt;
  std::memcpy(static_cast<void*>(name.service), key.name.data(), key.name.size());
  name.protocol = key.protocol;
  name.family = key.family;
  name.retired = retired;
  return name;
}

std::string full(std::string_view map, std::uint32_t limit, std::string_view option) {
  return fmt::format("{} is full (its limit is {}): raise {}", map, limit, option);
}

}  // namespace

/// A service port that is not in the tables as it shall be.
struct Tables::PortWork {
  const std::shared_ptr<const ServicePortPlan>* plan = nullptr;  ///< null: it goes
  ServiceState* state = nullptr;                                 ///< null: it comes
  std::optional<std::uint64_t> whole_since;                      ///< all of the plan is written
};

/// One service of a batch, and how far it came.
struct Tables::Work {
  PlanChange change;
  std::vector<PortWork> ports;  ///< those of `change`, and those that go
  Pause pause = Pause::none;
  std::string reason;
};

std::string service_of(const std::string& service_port) {
  return service_port.substr(0, service_port.find(':'));
}

Tables::Tables(const maps::Store& store, maps::GracePeriod& grace, maps::Sweeper& sweeper, Complain complain,
               std::uint32_t consistent_slots)
    : store_(store),
      complain_(std::move(complain)),
      frontends_(store.frontends),
      addresses_(store.addresses),
      ranges_(store.ranges),
      reserved_ports_(store.reserved),
      reclaimer_(store, grace, sweeper, [this] { resume(); }),
      publisher_(store, reclaimer_, consistent_slots) {}

void Tables::apply(Batch batch, std::vector<PlanChange> changes) {
  if (batch == Batch::whole) {
    boost::unordered_flat_set<std::string_view> named;
    for (const PlanChange& change : changes) named.insert(change.service);
    std::vector<PlanChange> gone;
    for (const auto& [service, ports] : services_) {
      if (!named.contains(service)) gone.push_back({.service = service, .ports = {}});
    }
    std::erase_if(changes, [](const PlanChange& change) { return change.standing == Standing::waiting; });
    std::ranges::move(changes, std::back_inserter(gone));
    changes = std::move(gone);
    pending_.clear();
  }
  started_ = true;
  write_addresses();
  write_ranges();
  run(std::move(changes));
}

void Tables::run(std::vector<PlanChange> changes) {
  Claims claims;
  std::vector<Work> batch;
  batch.reserve(changes.size());
  for (PlanChange& change : changes) {
    batch.push_back({.change = std::move(change), .ports = {}, .pause = Pause::none, .reason = {}});
    batch.back().ports = unwritten_ports(batch.back().change);
    for (const PortWork& port : batch.back().ports) add_claims(claims, port);
  }
  for (Work& work : batch) remove_frontends(work, claims);
  for (Work& work : batch) publish_ports(work);
  for (Work& work : batch) finish(work);
  write_service_addresses();
  reclaimer_.flush();
  for (Work& work : batch) report(work);
  if (complete()) {
    failures_ = 0;
    short_.clear();
  }
}

/// A part of a large plan leaves thousands of service ports as they are: each costs no more than a look. Both
/// lists are in the order of their keys. What was adopted without a name has no key, and no plan.
std::vector<Tables::PortWork> Tables::unwritten_ports(const PlanChange& change) const {
  static const Ports none;
  const auto found = services_.find(change.service);
  const Ports& have = found == services_.end() ? none : found->second;
  std::vector<PortWork> unwritten;
  auto state = have.begin();
  auto plan = change.ports.begin();
  while (state != have.end() || plan != change.ports.end()) {
    const bool goes = plan == change.ports.end() || (state != have.end() && state->first < (*plan)->key);
    const bool comes = !goes && (state == have.end() || (*plan)->key < state->first);
    const PortWork port{goes ? nullptr : &*plan, comes ? nullptr : state->second.get(), {}};
    if (goes || comes || !is_written(*port.state, *port.plan)) unwritten.push_back(port);
    if (!goes) ++plan;
    if (!comes) ++state;
  }
  return unwritten;
}

bool Tables::is_written(const ServiceState& state, const std::shared_ptr<const ServicePortPlan>& plan) const {
  return state.plan == plan && state.whole_since == takeovers_;
}

void Tables::add_claims(Claims& claims, const PortWork& port) {
  if (port.plan == nullptr) return;
  const ServicePortPlan& plan = **port.plan;
  for (const FrontendPlan& frontend : plan.frontends) claims.insert(key_of(plan.key, frontend));
}

// A key that another service of this batch claims is not removed: it passes in one update, without a hole.
void Tables::remove_frontends(Work& work, const Claims& claims) {
  for (const PortWork& port : work.ports) {
    if (port.state == nullptr) continue;
    erase_if(port.state->frontends, [&](const auto& key) {
      return !claims.contains(key) && erase_frontend(work, *port.state, key);
    });
  }
}

/// Whether it points to this service no more.
bool Tables::erase_frontend(Work& work, const ServiceState& state, const lb_frontend_key& key) {
  const auto value = frontends_.find(key);
  if (!value || value->service != state.number) return true;
  const error_code error = remove_frontend(key);
  if (error) fail(work, fmt::format("frontend {} cannot be removed: {}", text_of(key), error.message()));
  return !error;
}

void Tables::publish_ports(Work& work) {
  for (PortWork& port : work.ports) {
    if (port.plan != nullptr) publish_port(work, port);
  }
}

void Tables::publish_port(Work& work, PortWork& port) {
  const ServicePortPlan& plan = **port.plan;
  if (port.state == nullptr) port.state = create_state(work, plan);
  if (port.state == nullptr) return;
  ServiceState& state = *port.state;
  state.whole_since.reset();
  if (!add_ranges(work, state, plan)) return;
  switch (publisher_.publish(state, *port.plan)) {
    case Shortage::none: {
      const bool has_ranges = remove_ranges(work, state, range_keys(plan.source_ranges, state.number));
      const bool has_frontends = point_frontends(work, state, plan);
      if (has_ranges && has_frontends) port.whole_since = takeovers_;
      return;
    }
    case Shortage::backends:
      return fall_short(work, &Sizes::backends,
                        full("lb_backends", store_.backends.size(), "--max-backends"));
    case Shortage::slots:
      return fall_short(
          work, &Sizes::slots,
          fmt::format("lb_slots has no free run long enough (its limit is {}): raise --max-slots",
                      store_.slots.size()));
  }
}

/// Once the table has refused a new frontend, only those that it has already are written: thousands of
/// refusals at each retry would be for nothing. Are all of them written?
bool Tables::point_frontends(Work& work, ServiceState& state, const ServicePortPlan& plan) {
  bool too_many = false;
  bool all = true;
  for (const FrontendPlan& frontend : plan.frontends) {
    const lb_frontend_key key = key_of(plan.key, frontend);
    if (too_many && !frontends_.find(key)) continue;
    if (const error_code error = put_frontend(key, frontend_of(key, frontend, state.number))) {
      all = false;
      too_many = too_many || is_full(error);
      if (is_full(error)) note_short(&Sizes::frontends);
      fail(work, is_full(error)
                     ? full("lb_frontends", frontends_.limit(), "--max-frontends")
                     : fmt::format("frontend {} cannot be written: {}", text_of(key), error.message()));
      continue;
    }
    state.frontends.insert(key);
  }
  return all;
}

// All are there before the policy asks for them, and the old ones go after: never shut to somebody who may
// come in before and after, nor open to everybody.
bool Tables::add_ranges(Work& work, ServiceState& state, const ServicePortPlan& plan) {
  for (const lb_range_key& key : range_keys(plan.source_ranges, state.number)) {
    if (const error_code error = ranges_.put(key, {.service = state.number})) {
      if (is_full(error)) note_short(&Sizes::ranges);
      fail(work, fmt::format("its source ranges cannot be written (lb_ranges holds {}): {}", ranges_.limit(),
                             error.message()));
      return false;
    }
    state.ranges.insert(key);
  }
  return true;
}

bool Tables::remove_ranges(Work& work, ServiceState& state, const std::vector<lb_range_key>& wanted) {
  const Ranges kept(wanted.begin(), wanted.end());
  erase_if(state.ranges, [&](const lb_range_key& key) {
    if (kept.contains(key)) return false;
    const error_code error = ranges_.erase(key);
    if (error) fail(work, fmt::format("a source range cannot be removed: {}", error.message()));
    return !error;
  });
  return state.ranges.size() == kept.size();
}

ServiceState* Tables::create_state(Work& work, const ServicePortPlan& plan) {
  const auto name = name_of(plan.key, LB_NO);
  if (!name) {
    fail(work, "its name is too long");
    return nullptr;
  }
  const auto number = reclaimer_.service();
  if (!number) {
    fall_short(work, &Sizes::services,
               full("lb_services", reclaimer_.service_pool().limit(), "--max-services"));
    return nullptr;
  }
  // The name comes first: an agent that is killed from here on leaves a number that the next one can tell.
  if (const error_code error = store_.names.put(*number, *name, maps::Put::any)) {
    reclaimer_.cancel_service(*number);
    fail(work, fmt::format("its name cannot be written: {}", error.message()));
    return nullptr;
  }
  return &add_state(plan.key, *number);
}

ServiceState& Tables::add_state(const ServicePortKey& key, std::uint32_t number) {
  auto& state = *services_[service_of(key.name)].emplace(key, std::make_unique<ServiceState>())->second;
  state.key = key;
  state.number = number;
  return state;
}

ServiceState* Tables::find_state(const std::string& service, const ServicePortKey& key) {
  const auto found = services_.find(service);
  if (found == services_.end()) return nullptr;
  const auto state = found->second.find(key);
  return state == found->second.end() ? nullptr : state->second.get();
}

// What another service claimed and did not get is removed here after all.
void Tables::finish(Work& work) {
  for (const PortWork& port : work.ports) {
    if (port.state == nullptr) continue;
    ServiceState& state = *port.state;
    FrontendKeys planned;
    add_claims(planned, port);
    erase_if(state.frontends,
             [&](const auto& key) { return !planned.contains(key) && erase_frontend(work, state, key); });
    if (state.frontends.size() == planned.size()) state.whole_since = port.whole_since;
  }
  retire_ports(work);
}

void Tables::retire_ports(Work& work) {
  boost::unordered_flat_set<const ServiceState*> retired;
  for (const PortWork& port : work.ports) {
    if (port.plan == nullptr && retire_port(work, *port.state)) retired.insert(port.state);
  }
  const auto found = services_.find(work.change.service);
  if (found == services_.end() || retired.empty()) return;
  std::erase_if(found->second, [&](const auto& port) { return retired.contains(port.second.get()); });
  if (found->second.empty()) services_.erase(found);
}

// The name goes last: an agent that is killed before leaves a service that the next one withdraws again.
bool Tables::retire_port(Work& work, ServiceState& state) {
  if (!state.frontends.empty() || !remove_ranges(work, state, {})) return false;
  if (!usable(state.number)) return true;
  publisher_.withdraw(state);
  const auto name = name_of(state.key, LB_YES);
  if (const error_code error = name ? store_.names.put(state.number, *name, maps::Put::any) : error_code{}) {
    fail(work, fmt::format("its name cannot be retired: {}", error.message()));
    return false;
  }
  reclaimer_.retire_service(state.number);
  return true;
}

void Tables::fail(Work& work, std::string reason) {
  work.pause = Pause::failed;
  if (work.reason.empty()) work.reason = std::move(reason);
}

// Waiting for a grace period or a sweep is no trouble, unless nothing can come of it.
void Tables::fall_short(Work& work, std::uint32_t Sizes::* table, const std::string& what) {
  if (!reclaimer_.may_gain()) {
    note_short(table);
    return fail(work, what + "; what the service had is kept");
  }
  reclaimer_.press();
  if (work.pause == Pause::none) work.pause = Pause::waiting;
}

void Tables::report(Work& work) {
  const std::string service = work.change.service;
  if (work.pause == Pause::none) {
    reported_.erase(service);
    pending_.erase(service);
    return;
  }
  if (work.pause == Pause::failed && std::exchange(reported_[service], work.reason) != work.reason) {
    complain_({.object = "Service " + service, .where = {}, .reason = work.reason});
  }
  pending_.insert_or_assign(service, Pending{.change = std::move(work.change), .pause = work.pause});
}

void Tables::resume() { rerun(Pause::waiting); }

void Tables::retry() {
  ++failures_;
  short_.clear();  // told again by what is still refused
  reclaimer_.press();
  write_addresses();
  write_ranges();
  rerun(Pause::failed);
}

void Tables::rerun(Pause which) {
  std::vector<PlanChange> changes;
  for (const auto& [service, pending] : pending_) {
    if (pending.pause == which) changes.push_back(pending.change);
  }
  if (!changes.empty()) run(std::move(changes));
}

std::optional<std::chrono::milliseconds> Tables::retry_in() const {
  const bool failed =
      std::ranges::any_of(pending_, [](const auto& entry) { return entry.second.pause == Pause::failed; });
  if (!failed && !addresses_pending_ && !ranges_pending_) return std::nullopt;
  return first_pause * (1U << std::min(failures_, most_doublings));
}

bool Tables::failed(const std::string& service) const {
  const auto found = pending_.find(service);
  return found != pending_.end() && found->second.pause == Pause::failed;
}

}  // namespace lb::agent
