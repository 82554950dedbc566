// Tables::adopt: what an agent that starts finds pinned. Everything is read, nothing written; what a killed
// agent left half done is either taken up by the first whole plan or retired by it.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "agent/tables/tables.hpp"
#include "maps/text.hpp"

namespace lb::agent {

namespace {

std::size_t count(const std::vector<bool>& marks) {
  return static_cast<std::size_t>(std::ranges::count(marks, true));
}

}  // namespace

struct Tables::Adoption {
  std::vector<bool> services;  ///< numbers that are not free
  std::vector<bool> backends;  ///< ids that are not free
  std::unordered_map<std::uint32_t, ServiceState*> states;
  std::vector<std::uint32_t> retired;  ///< numbers without a living name
};

maps::result<Adopted> Tables::adopt() {
  Adoption found{.services = std::vector<bool>(reclaimer_.service_pool().limit()),
                 .backends = std::vector<bool>(reclaimer_.backend_pool().limit()),
                 .states = {},
                 .retired = {}};
  if (auto error = frontends_.load()) return error;
  if (auto error = addresses_.load()) return error;
  if (auto error = ranges_.load()) return error;
  if (auto error = adopt_names(found)) return error;
  adopt_frontends(found);
  adopt_ranges(found);
  adopt_backends(found);
  adopt_sets(found);
  const Adopted adopted{.services = found.states.size(),
                        .backends = count(found.backends),
                        .frontends = frontends_.held().size()};
  // Where nothing was, nobody can still be reading it.
  if (count(found.services) + adopted.backends + adopted.frontends == 0) return adopted;
  reclaimer_.adopt(found.backends, found.services);
  for (const std::uint32_t number : found.retired) {
    if (!found.states.contains(number)) reclaimer_.retire_service(number);
  }
  reclaimer_.flush();
  return adopted;
}

maps::error_code Tables::adopt_names(Adoption& found) {
  return store_.names.for_each([&](std::uint32_t number, const lb_name& name) {
    if (!usable(number)) return;
    found.services[number] = true;
    const ServicePortKey key{.name = std::string(maps::stored_text(name.service)),
                             .protocol = name.protocol,
                             .family = name.family};
    // A second number of one service port is nobody's.
    if (name.retired == LB_YES || find_state(service_of(key.name), key) != nullptr) {
      found.retired.push_back(number);
    } else {
      found.states[number] = &add_state(key, number);
    }
  });
}

// A frontend whose number has no living name belongs to a nameless service, which no plan names: it goes.
void Tables::adopt_frontends(Adoption& found) {
  for (const auto& [key, value] : frontends_.held()) {
    count_address(key, value, 1);
    count_node_port(key, 1);
    ServiceState*& state = found.states[value.service];
    if (state == nullptr) state = &add_state({}, value.service);
    state->frontends.insert(key);
    if (usable(value.service)) found.services[value.service] = true;
  }
}

void Tables::adopt_ranges(Adoption& found) {
  for (const auto& [key, value] : ranges_.held()) {
    if (!usable(key.service)) continue;  // the lists that belong to no service
    ServiceState*& state = found.states[key.service];
    if (state == nullptr) state = &add_state({}, key.service);
    state->ranges.insert(key);
    found.services[key.service] = true;
  }
}

void Tables::adopt_backends(Adoption& found) {
  for (std::uint32_t id = 1; id < store_.backends.size(); ++id) {
    const std::uint32_t number = store_.backends.load(id).service;
    if (number == 0) continue;
    found.backends[id] = true;
    const auto state = found.states.find(number);
    if (state != found.states.end()) {
      state->second->ids.push_back(id);
      continue;
    }
    if (usable(number) && !found.services[number]) {
      found.services[number] = true;
      found.retired.push_back(number);
    }
    reclaimer_.retire_backend(id);
  }
}

// A set that overlaps another one or leaves the array is nobody's work; it is written anew.
void Tables::adopt_sets(const Adoption& found) {
  for (const auto& [number, state] : found.states) {
    if (!usable(number)) continue;
    const lb_service service = store_.services.load(number);
    const maps::Extent cluster{.first = service.cluster.first, .count = service.cluster.count};
    const maps::Extent local{.first = service.local.first, .count = service.local.count};
    if (reclaimer_.claim(cluster)) state->cluster = cluster;
    if (reclaimer_.claim(local)) state->local = local;
  }
}

}  // namespace lb::agent
