// SPDX-License-Identifier: Apache-2.0
// Writes a batch in this order: remove frontends, switch sets, add frontends, retire numbers.
#include "agent/tables/batch_writer.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "agent/tables/node_reserve.hpp"
#include "agent/tables/table_keys.hpp"
#include "maps/text.hpp"

namespace lb::agent {

using maps::error_code;

namespace {

std::string text_of(const lb_frontend_key& key) {
  return fmt::format("{}/{}", maps::socket_text(key.address, key.port), maps::word(key.protocol));
}

std::string full(std::string_view map, std::uint32_t limit, std::string_view option) {
  return fmt::format("{} is full (its limit is {}): raise {}", map, limit, option);
}

}  // namespace

/// A service port whose tables differ from its plan.
struct BatchWriter::PortWork {
  const std::shared_ptr<const ServicePortPlan>* plan = nullptr;  ///< null: the service port is removed
  ServiceState* state = nullptr;                                 ///< null: the service port is new
  bool is_whole = false;                                         ///< all of the plan is written
};

/// One service of a batch, and its progress.
struct BatchWriter::Work {
  ServiceOutcome outcome;
  std::vector<PortWork> ports;  ///< service ports of the change, and those that are removed
};

std::vector<ServiceOutcome> BatchWriter::write(std::vector<PlanChange> changes) {
  FrontendKeys claims;
  std::vector<Work> batch;
  batch.reserve(changes.size());
  for (PlanChange& change : changes) {
    const auto since = waiting_.waiting_since(change.service).value_or(tables_.reclaimer.epoch());
    batch.push_back(
        {.outcome = {.change = std::move(change), .since = since, .error = {}, .reason = {}}, .ports = {}});
    batch.back().ports = unwritten_ports(batch.back().outcome.change);
    for (const PortWork& port : batch.back().ports) {
      add_claims(claims, port);
    }
  }
  for (Work& work : batch) {
    remove_frontends(work, claims);
  }
  for (Work& work : batch) {
    publish_ports(work);
  }
  for (Work& work : batch) {
    finish(work);
  }
  for (Work& work : batch) {
    if (has_room_now(work)) {
      write_again(work);
    }
  }
  std::vector<ServiceOutcome> written;
  written.reserve(batch.size());
  for (Work& work : batch) {
    written.push_back(std::move(work.outcome));
  }
  return written;
}

/// Whether a table that was full has room now: services of the same batch may have left it afterwards.
bool BatchWriter::has_room_now(const Work& work) const {
  if (!is_full(work.outcome.error)) {
    return false;
  }
  return work.outcome.full == &Sizes::ranges      ? tables_.ranges.has_room()
         : work.outcome.full == &Sizes::frontends ? tables_.frontends.has_room()
                                                  : false;
}

void BatchWriter::write_again(Work& work) {
  auto& outcome = work.outcome;
  outcome = {.change = std::move(outcome.change), .since = outcome.since, .error = {}, .reason = {}};
  work.ports = unwritten_ports(outcome.change);
  publish_ports(work);
  finish(work);
}

/// A partial change of a large plan leaves thousands of service ports unchanged, each of which costs one
/// comparison. Both lists are sorted by key. Service ports adopted without a name have an empty key and no
/// plan.
std::vector<BatchWriter::PortWork> BatchWriter::unwritten_ports(const PlanChange& change) const {
  const auto& have = tables_.services.ports_of(change.service);
  std::vector<PortWork> unwritten;
  auto state = have.begin();
  auto plan = change.ports.begin();
  while (state != have.end() || plan != change.ports.end()) {
    const bool goes = plan == change.ports.end() || (state != have.end() && state->first < (*plan)->key);
    const bool comes = !goes && (state == have.end() || (*plan)->key < state->first);
    const PortWork port{goes ? nullptr : &*plan, comes ? nullptr : state->second.get()};
    if (goes || comes || !is_written(*port.state, *port.plan)) {
      unwritten.push_back(port);
    }
    if (!goes) {
      ++plan;
    }
    if (!comes) {
      ++state;
    }
  }
  return unwritten;
}

bool BatchWriter::is_written(const ServiceState& state, const std::shared_ptr<const ServicePortPlan>& plan) {
  return state.plan == plan && state.is_whole;
}

void BatchWriter::add_claims(FrontendKeys& claims, const PortWork& port) {
  if (port.plan == nullptr) {
    return;
  }
  const ServicePortPlan& plan = **port.plan;
  for (const FrontendPlan& frontend : plan.frontends) {
    claims.insert(key_of(plan.key, frontend));
  }
}

// A key that another service of this batch claims is not removed: one update moves it to that service,
// without a gap.
void BatchWriter::remove_frontends(Work& work, const FrontendKeys& claims) {
  for (const PortWork& port : work.ports) {
    if (port.state == nullptr) {
      continue;
    }
    erase_if(port.state->frontends, [&](const auto& key) {
      return !claims.contains(key) && erase_frontend(work, *port.state, key);
    });
  }
}

/// True if the frontend no longer points to this service, now or later.
bool BatchWriter::erase_frontend(Work& work, const ServiceState& state, const lb_frontend_key& key) {
  const error_code error = tables_.frontends.remove(key, state.number);
  if (error) {
    fail(work, error, fmt::format("frontend {} cannot be removed: {}", text_of(key), error.message()));
  }
  return !error;
}

void BatchWriter::publish_ports(Work& work) {
  for (PortWork& port : work.ports) {
    if (port.plan != nullptr) {
      publish_port(work, port);
    }
  }
}

void BatchWriter::publish_port(Work& work, PortWork& port) {
  const ServicePortPlan& plan = **port.plan;
  if (port.state == nullptr) {
    port.state = create_state(work, plan);
  }
  if (port.state == nullptr) {
    return;
  }
  ServiceState& state = *port.state;
  state.is_whole = false;
  const bool all_added = add_ranges(work, state, plan);
  const bool is_new = state.plan != *port.plan;
  const Shortage shortage = tables_.publisher.publish(state, *port.plan);
  if (shortage != Shortage::none) {
    restrict_old_plan(work, state, plan);
  }
  switch (shortage) {
    case Shortage::none: {
      if (is_new) {
        tables_.note_change(plan.key);
      }
      const bool others_removed = remove_ranges(work, state, range_keys(plan.source_ranges, state.number));
      const bool has_frontends = point_frontends(work, state, plan);
      port.is_whole = all_added && others_removed && has_frontends;
      return;
    }
    case Shortage::backends:
      return report_full(work, &Sizes::backends,
                         full("lb_backends", tables_.store.backends.size(), "--max-backends"));
    case Shortage::slots:
      return report_full(
          work, &Sizes::slots,
          fmt::format("lb_slots has no free run long enough (its limit is {}): raise --max-slots",
                      tables_.store.slots.size()));
  }
}

/// A service that keeps what it had obeys the source ranges of its new plan nevertheless.
void BatchWriter::restrict_old_plan(Work& work, ServiceState& state, const ServicePortPlan& plan) {
  if (plan.policy.source_ranges != LB_YES) {
    return;
  }
  tables_.publisher.restrict_sources(state);
  static_cast<void>(remove_ranges(work, state, range_keys(plan.source_ranges, state.number)));
}

/// Once the table is full, only frontends that it contains already are written: thousands of errors at each
/// retry would be useless. Returns whether all were written.
bool BatchWriter::point_frontends(Work& work, ServiceState& state, const ServicePortPlan& plan) {
  bool too_many = false;
  bool all = true;
  for (const FrontendPlan& frontend : plan.frontends) {
    const lb_frontend_key key = key_of(plan.key, frontend);
    if (too_many && !tables_.frontends.contains(key)) {
      continue;
    }
    if (const error_code error = tables_.frontends.put(key, frontend_of(key, frontend, state.number))) {
      all = false;
      too_many = too_many || is_full(error);
      note_full(work, error, &Sizes::frontends);
      fail(work, error,
           is_full(error) ? full("lb_frontends", tables_.frontends.limit(), "--max-frontends")
                          : fmt::format("frontend {} cannot be written: {}", text_of(key), error.message()));
      continue;
    }
    if (state.frontends.insert(key).second) {
      tables_.note_change(plan.key);
    }
  }
  return all;
}

// New ranges are written before the policy uses them, and old ones are deleted after: a client that both the
// old and the new ranges allow is allowed all the time, and no others are. In a full table the old ones go
// first. Clients in ranges that are not written are denied, whatever the service had before: a restriction
// must not wait for room.
bool BatchWriter::add_ranges(Work& work, ServiceState& state, const ServicePortPlan& plan) {
  const auto wanted = range_keys(plan.source_ranges, state.number);
  error_code error = tables_.ranges.add(state.ranges, wanted);
  if (is_full(error) && remove_ranges(work, state, wanted)) {
    error = tables_.ranges.add(state.ranges, wanted);
  }
  if (!error) {
    return true;
  }
  note_full(work, error, &Sizes::ranges);
  fail(work, error,
       fmt::format("some of its source ranges cannot be written, and their clients are denied (lb_ranges "
                   "holds {}, {} of them for the node's own): {}",
                   tables_.ranges.limit(), node_reserve(tables_.ranges.limit()), error.message()));
  return false;
}

bool BatchWriter::remove_ranges(Work& work, ServiceState& state, const std::vector<lb_range_key>& wanted) {
  const error_code error = tables_.ranges.remove_others(state.ranges, Ranges(wanted.begin(), wanted.end()));
  if (error) {
    fail(work, error, fmt::format("a source range cannot be removed: {}", error.message()));
  }
  return !error;
}

ServiceState* BatchWriter::create_state(Work& work, const ServicePortPlan& plan) {
  const auto created = tables_.services.create(plan.key);
  if (!created) {
    fail(work, created.error(),
         created.error() == boost::system::errc::filename_too_long
             ? "its name is too long"
             : fmt::format("its name cannot be written: {}", created.error().message()));
    return nullptr;
  }
  if (*created == nullptr) {
    report_full(work, &Sizes::services,
                full("lb_services", tables_.reclaimer.service_pool().limit(), "--max-services"));
  }
  return *created;
}

// Removes frontends that another service claimed but did not get.
void BatchWriter::finish(Work& work) {
  for (const PortWork& port : work.ports) {
    if (port.state == nullptr) {
      continue;
    }
    ServiceState& state = *port.state;
    FrontendKeys planned;
    add_claims(planned, port);
    erase_if(state.frontends,
             [&](const auto& key) { return !planned.contains(key) && erase_frontend(work, state, key); });
    state.is_whole = port.is_whole && state.frontends.size() == planned.size();
  }
  retire_ports(work);
}

void BatchWriter::retire_ports(Work& work) {
  ServiceTable::States retired;
  for (const PortWork& port : work.ports) {
    if (port.plan == nullptr && retire_port(work, *port.state)) {
      retired.insert(port.state);
    }
  }
  tables_.services.forget(work.outcome.change.service, retired);
}

// The name is retired last: if the agent is killed before, the next one withdraws the service again.
bool BatchWriter::retire_port(Work& work, ServiceState& state) {
  if (!state.frontends.empty() || !remove_ranges(work, state, {})) {
    return false;
  }
  if (!tables_.services.is_usable(state.number)) {
    return true;
  }
  if (!state.ids.empty()) {
    tables_.note_change(state.key);
  }
  tables_.publisher.withdraw(state);
  const error_code error = tables_.services.retire(state);
  if (error) {
    fail(work, error, fmt::format("its name cannot be retired: {}", error.message()));
  }
  return !error;
}

void BatchWriter::note_full(Work& work, const error_code& error, TableSizes::Table table) {
  if (!is_full(error)) {
    return;
  }
  work.outcome.full = table;
  sizes_.note_full(table);
}

void BatchWriter::fail(Work& work, const error_code& error, std::string reason) {
  work.outcome.progress = Progress::failed;
  if (!work.outcome.reason.empty()) {
    return;
  }
  work.outcome.error = error;
  work.outcome.reason = std::move(reason);
}

// Waiting for a grace period or a sweep is not reported, unless neither can free anything.
void BatchWriter::report_full(Work& work, TableSizes::Table table, const std::string& what) {
  if (!tables_.reclaimer.may_free_more(work.outcome.since)) {
    sizes_.note_full(table);
    return fail(work, make_error_code(boost::system::errc::no_space_on_device),
                what + "; what the service had is kept");
  }
  tables_.reclaimer.request_sweep();
  if (work.outcome.progress == Progress::written) {
    work.outcome.progress = Progress::waiting;
  }
}

}  // namespace lb::agent
