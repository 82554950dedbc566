// SPDX-License-Identifier: Apache-2.0
// Reads the pinned maps when an agent starts.
#include "agent/tables/adoption.hpp"

#include <algorithm>
#include <string>

#include "maps/text.hpp"

namespace lb::agent {

namespace {

std::size_t count(const std::vector<bool>& marks) {
  return static_cast<std::size_t>(std::ranges::count(marks, true));
}

}  // namespace

Adoption::Adoption(TableSet& tables)
    : tables_(tables),
      services_(tables.reclaimer.service_pool().limit()),
      backends_(tables.reclaimer.backend_pool().limit()) {}

maps::result<Adopted> Adoption::run() {
  if (auto error = tables_.addresses.load()) {
    return error;
  }
  if (auto error = tables_.frontends.load()) {
    return error;
  }
  if (auto error = tables_.ranges.load()) {
    return error;
  }
  if (auto error = adopt_names()) {
    return error;
  }
  adopt_frontends();
  adopt_ranges();
  adopt_backends();
  adopt_sets();
  const Adopted adopted{.services = states_.size(),
                        .backends = count(backends_),
                        .frontends = tables_.frontends.entries().size()};
  // Empty maps need no grace period: no program can still be reading an entry that did not exist.
  if (count(services_) + adopted.backends + adopted.frontends > 0) {
    reclaim();
  }
  return adopted;
}

void Adoption::reclaim() {
  tables_.reclaimer.adopt(backends_, services_);
  for (const std::uint32_t number : retired_) {
    if (!states_.contains(number)) {
      tables_.reclaimer.retire_service(number);
    }
  }
  tables_.reclaimer.flush();
}

maps::error_code Adoption::adopt_names() {
  return tables_.store.names.for_each([&](std::uint32_t number, const lb_name& name) {
    if (!tables_.services.is_usable(number)) {
      return;
    }
    services_[number] = true;
    const ServicePortKey key{.name = std::string(maps::stored_text(name.service)),
                             .protocol = name.protocol,
                             .family = name.family};
    // If a service port has a second number, that number is retired.
    if (name.retired == LB_YES || tables_.services.contains(key)) {
      retired_.push_back(number);
    } else {
      states_[number] = &tables_.services.add(key, number);
    }
  });
}

/// A number without a valid name becomes a nameless service, which no plan contains: the first whole plan
/// removes it.
ServiceState& Adoption::state_of(std::uint32_t number) {
  ServiceState*& state = states_[number];
  if (state == nullptr) {
    state = &tables_.services.add({}, number);
  }
  return *state;
}

void Adoption::adopt_frontends() {
  for (const auto& [key, value] : tables_.frontends.entries()) {
    state_of(value.service).frontends.insert(key);
    if (tables_.services.is_usable(value.service)) {
      services_[value.service] = true;
    }
  }
}

void Adoption::adopt_ranges() {
  for (const auto& [key, value] : tables_.ranges.entries()) {
    if (!tables_.services.is_usable(key.service)) {
      continue;  // skip lists that belong to no service
    }
    state_of(key.service).ranges.insert(key);
    services_[key.service] = true;
  }
}

void Adoption::adopt_backends() {
  const auto& entries = tables_.store.backends;
  for (std::uint32_t id = 1; id < entries.size(); ++id) {
    const std::uint32_t number = entries.load(id).service;
    if (number == 0) {
      continue;
    }
    backends_[id] = true;
    const auto state = states_.find(number);
    if (state != states_.end()) {
      state->second->ids.push_back(id);
      continue;
    }
    if (tables_.services.is_usable(number) && !services_[number]) {
      services_[number] = true;
      retired_.push_back(number);
    }
    tables_.reclaimer.retire_backend(id);
  }
}

// A set that overlaps another one or exceeds the array is damaged; it is written again.
void Adoption::adopt_sets() {
  for (const auto& [number, state] : states_) {
    if (!tables_.services.is_usable(number)) {
      continue;
    }
    const lb_service service = tables_.store.services.load(number);
    const maps::Extent cluster{.first = service.cluster.first, .count = service.cluster.count};
    const maps::Extent local{.first = service.local.first, .count = service.local.count};
    if (tables_.reclaimer.claim(cluster)) {
      state->cluster = cluster;
    }
    if (tables_.reclaimer.claim(local)) {
      state->local = local;
    }
  }
}

}  // namespace lb::agent
