// SPDX-License-Identifier: Apache-2.0
// The walk over the tables, one bounded step per turn.
#include "maps/sweep.hpp"

#include <utility>

namespace lb::maps {

namespace {

constexpr int table_count = 5;
constexpr std::uint32_t max_affinity = 86400;  // seconds

void mark(std::vector<bool>& marks, std::uint32_t number) {
  if (number >= marks.size()) {
    marks.resize(std::size_t{number} + 1);
  }
  marks[number] = true;
}

}  // namespace

void Named::add(std::uint32_t backend_id, std::uint32_t service_number) {
  mark(backends, backend_id);
  mark(services, service_number);
}

FlowSweeper::FlowSweeper(FlowTables tables, Post post, UnassuredAge age, std::uint32_t step_entries)
    : tables_(tables), post_(std::move(post)), age_(std::move(age)), step_entries_(step_entries) {}

void FlowSweeper::sweep(std::function<void(result<Named>)> done) {
  done_ = std::move(done);
  table_ = 0;
  cursor_ = {};
  named_ = {};
  now_ = age_.now ? age_.now() : 0;
  post_([this] { step(); });
}

void FlowSweeper::step() {
  if (auto error = step_table()) {
    return finish(error);
  }
  if (cursor_.finished) {
    cursor_ = {};
    ++table_;
  }
  if (table_ == table_count) {
    return finish(std::exchange(named_, {}));
  }
  post_([this] { step(); });
}

void FlowSweeper::finish(result<Named> outcome) {
  auto done = std::exchange(done_, nullptr);
  done(std::move(outcome));
}

error_code FlowSweeper::step_table() {
  switch (table_) {
    case 0:
      return step_unassured(tables_.unassured4);
    case 1:
      return step_unassured(tables_.unassured6);
    case 2:
      return step_flows(tables_.flows4);
    case 3:
      return step_flows(tables_.flows6);
    default:
      return step_affinity();
  }
}

template <class Key, class Flow>
error_code FlowSweeper::step_unassured(const HashMap<Key, Flow>& table) {
  return table.step(cursor_, step_entries_, [this](const Key&, const Flow& flow) {
    if (!older(flow.track.seen, age_.seconds)) {
      named_.add(flow.track.backend, flow.track.service);
    }
  });
}

template <class Key, class Flow>
error_code FlowSweeper::step_flows(const HashMap<Key, Flow>& table) {
  return table.step(cursor_, step_entries_, [this](const Key&, const Flow& flow) {
    named_.add(flow.track.backend, flow.track.service);
  });
}

error_code FlowSweeper::step_affinity() {
  cursor_.finished = tables_.affinity == nullptr;
  if (cursor_.finished) {
    return {};
  }
  return tables_.affinity->step(cursor_, step_entries_,
                                [this](const lb_affinity_key& key, const lb_affinity& entry) {
                                  if (!older(entry.used, max_affinity)) {
                                    named_.add(entry.backend, key.service);
                                  }
                                });
}

bool FlowSweeper::older(std::uint32_t seen, std::uint32_t seconds) const {
  // Modulo 2^32, as the programs count; with a second of tolerance for the current one.
  return age_.now && now_ - seen > seconds + 1 && now_ - seen < (1U << 31U);
}

}  // namespace lb::maps
