// SPDX-License-Identifier: Apache-2.0
// Applies batches, retries, and reports problems.
#include "agent/tables/tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_set.hpp>
#include <iterator>
#include <string_view>
#include <utility>

#include "agent/tables/node_reserve.hpp"
#include "agent/tables/table_keys.hpp"
#include "agent/tables/table_stats.hpp"

namespace lb::agent {

using maps::error_code;

namespace {

/// Whether a table has fewer entries in use than before.
bool has_room(const std::vector<Fill>& before, const std::vector<Fill>& now) {
  return !std::ranges::equal(before, now, std::ranges::less_equal(), &Fill::used, &Fill::used);
}

}  // namespace

Tables::Tables(const maps::Store& store, maps::GracePeriod& grace, maps::Sweeper& sweeper, Complain complain,
               std::uint32_t consistent_slots)
    : problems_(std::move(complain)),
      tables_(store, grace, sweeper, [this] { rerun(Progress::waiting); }, consistent_slots) {}

maps::result<Adopted> Tables::adopt() { return Adoption(tables_).run(); }

void Tables::apply(Batch batch, std::vector<PlanChange> changes) {
  if (batch == Batch::whole) {
    changes = whole(std::move(changes));
    waiting_.clear();
  }
  started_ = true;
  write_addresses();
  write_ranges();
  run(std::move(changes));
}

/// Services in the maps that the plan does not contain are removed first; services that are not planned yet
/// stay unchanged.
std::vector<PlanChange> Tables::whole(std::vector<PlanChange> changes) {
  boost::unordered_flat_set<std::string_view> named;
  for (const PlanChange& change : changes) {
    named.insert(change.service);
  }
  std::vector<PlanChange> all;
  for (const auto& [service, ports] : tables_.services.all()) {
    if (!named.contains(service)) {
      all.push_back({.service = service, .ports = {}});
    }
  }
  std::erase_if(changes, [](const PlanChange& change) { return change.state == PlanState::waiting; });
  std::ranges::move(changes, std::back_inserter(all));
  return all;
}

// Addresses are written after the frontends of the whole batch, so that a port that arrives together with its
// service is never rejected.
void Tables::run(std::vector<PlanChange> changes) {
  const auto before = waiting_.has(Progress::failed) ? fills() : std::vector<Fill>();
  auto written = writer_.write(std::move(changes));
  if (const error_code error = tables_.addresses.write_touched()) {
    report_addresses(error);
  }
  if (std::exchange(ranges_were_full_, false)) {
    write_ranges();  // the batch may have made room
  }
  tables_.reclaimer.flush();
  note_refusal(written);
  for (ServiceOutcome& outcome : written) {
    report(std::move(outcome));
  }
  if (!before.empty() && has_room(before, fills())) {
    waiting_.note_room();
  }
  if (complete()) {
    waiting_.note_success();
    sizes_.note_success();
  }
  report_udp_change();
}

void Tables::report_udp_change() {
  if (std::exchange(tables_.udp_changed, false) && udp_changed_) {
    udp_changed_();
  }
}

/// An error may concern one service only: a tenant could otherwise take the node out of its load balancers.
void Tables::note_refusal(const std::vector<ServiceOutcome>& written) {
  const auto is_written = [](const auto& each) { return each.progress == Progress::written; };
  const auto is_refusal = [](const auto& each) {
    return each.progress == Progress::failed && !is_full(each.error) &&
           each.error != boost::system::errc::filename_too_long;
  };
  if (std::ranges::any_of(written, is_written)) {
    refuses_all_ = false;
  } else if (std::ranges::any_of(written, is_refusal)) {
    refuses_all_ = !tables_.services.takes_writes();
  }
}

void Tables::report(ServiceOutcome outcome) {
  const std::string& service = outcome.change.service;
  if (outcome.progress == Progress::written) {
    problems_.end(service);
  }
  if (outcome.progress == Progress::failed) {
    problems_.report(service, "Service " + service, outcome.reason);
  }
  waiting_.keep(std::move(outcome.change), outcome.progress, outcome.since);
}

void Tables::set_addresses(std::vector<NodeAddress> addresses) {
  tables_.addresses.set_node(addresses);
  write_addresses();
}

void Tables::write_addresses() {
  if (started_) {
    report_addresses(tables_.addresses.write());
  }
}

void Tables::report_addresses(const error_code& error) {
  if (!error) {
    return problems_.end("addresses");
  }
  if (is_full(error)) {
    sizes_.note_full(&Sizes::frontends);
  }
  problems_.report(
      "addresses", "Node",
      fmt::format("its addresses and those of services cannot be written (lb_addresses holds {}, {} of them "
                  "for the node's own): {}",
                  tables_.addresses.limit(), node_reserve(tables_.addresses.limit()), error.message()));
}

void Tables::set_ranges(std::uint32_t list, const std::vector<k8s::Prefix>& ranges) {
  if (tables_.ranges.set_list(list, ranges)) {
    write_ranges();
  }
}

void Tables::write_ranges() {
  if (!started_) {
    return;
  }
  const error_code error = tables_.ranges.write_lists();
  if (!error) {
    return problems_.end("ranges");
  }
  ranges_were_full_ = is_full(error);
  if (is_full(error)) {
    sizes_.note_full(&Sizes::ranges);
  }
  problems_.report("ranges", "Node",
                   "the ranges of pods, ClusterIPs and IPsec policies cannot be written: " + error.message());
}

void Tables::set_kernel_ports(const ReservedPorts::Bits& bits) { tables_.reserved_ports.set_kernel(bits); }

std::vector<Repaired> Tables::repair() {
  if (!started_) {
    return {};  // before the first batch the maps are the previous agent's
  }
  auto repaired = lb::agent::repair(tables_);
  report_udp_change();
  return repaired;
}

void Tables::retry() {
  waiting_.note_retry();
  sizes_.note_retry();
  tables_.reclaimer.request_sweep();
  write_addresses();
  write_ranges();
  rerun(Progress::failed);
}

void Tables::rerun(Progress which) {
  auto changes = waiting_.with(which);
  if (!changes.empty()) {
    run(std::move(changes));
  }
}

std::optional<std::chrono::milliseconds> Tables::retry_in() const {
  const bool is_pending = tables_.addresses.is_pending() || tables_.ranges.is_pending();
  if (!is_pending && !waiting_.has(Progress::failed)) {
    return std::nullopt;
  }
  return waiting_.pause();
}

bool Tables::complete() const {
  return waiting_.empty() && !tables_.addresses.is_pending() && !tables_.ranges.is_pending();
}

bool Tables::failed(const std::string& service) const { return waiting_.has_failed(service); }

std::optional<Sizes> Tables::larger() const { return sizes_.larger(waiting_); }

std::optional<Sizes> Tables::smaller(std::uint32_t min_slots) const {
  return complete() ? sizes_.smaller(min_slots) : std::nullopt;
}

bool Tables::lower_slots(std::uint32_t limit) { return sizes_.lower_slots(limit); }

std::vector<Fill> Tables::fills() const { return fills_of(tables_); }

ExtentStats Tables::extents() const { return extents_of(tables_); }

std::pair<std::vector<ServiceStats>, std::uint64_t> Tables::services(std::size_t max_services) const {
  return services_of(tables_, waiting_, max_services);
}

}  // namespace lb::agent
