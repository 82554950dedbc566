// SPDX-License-Identifier: Apache-2.0
// Finds the backend ids and service numbers to which the flow tables still refer, in bounded steps: an id may
// get another meaning only if nothing refers to it. Deletes nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "maps/abi/abi.h"
#include "maps/grace.hpp"
#include "maps/map.hpp"

namespace lb::maps {

/// Indexed by number; shorter than the map if no higher number is referred to.
struct Named {
  std::vector<bool> backends;
  std::vector<bool> services;

  void add(std::uint32_t backend_id, std::uint32_t service_number);
  [[nodiscard]] bool backend(std::uint32_t id) const { return id < backends.size() && backends[id]; }
  [[nodiscard]] bool service(std::uint32_t number) const {
    return number < services.size() && services[number];
  }
};

class Sweeper {
 public:
  virtual ~Sweeper() = default;
  /// Calls `done` later, on the agent's thread, with all references, or with the error that stopped it. Only
  /// one sweep at a time.
  virtual void sweep(std::function<void(result<Named>)> done) = 0;
};

/// The tables to read. Flows move from unassured to assured, so the unassured tables are read first.
struct FlowTables {
  const HashMap<lb_flow4_key, lb_flow4>& unassured4;
  const HashMap<lb_flow6_key, lb_flow6>& unassured6;
  const HashMap<lb_flow4_key, lb_flow4>& flows4;
  const HashMap<lb_flow6_key, lb_flow6>& flows6;
  const HashMap<lb_affinity_key, lb_affinity>* affinity = nullptr;  ///< null: not read
};

/// The age at which an unassured entry no longer counts: the programs ignore it too. Without `now` every
/// entry counts. An affinity entry counts for a day, the longest timeout that a Service can have.
struct UnassuredAge {
  std::function<std::uint32_t()> now;  ///< seconds of lb_clock
  std::uint32_t seconds = 0;
};

class FlowSweeper final : public Sweeper {
 public:
  /// `post` runs each step, of about `step_entries` entries, in its own turn of the event loop.
  FlowSweeper(FlowTables tables, Post post, UnassuredAge age, std::uint32_t step_entries = 4096);
  void sweep(std::function<void(result<Named>)> done) override;

 private:
  void step();
  void finish(result<Named> outcome);
  [[nodiscard]] error_code step_table();
  template <class Key, class Flow>
  error_code step_unassured(const HashMap<Key, Flow>& table);
  template <class Key, class Flow>
  error_code step_flows(const HashMap<Key, Flow>& table);
  [[nodiscard]] error_code step_affinity();
  [[nodiscard]] bool older(std::uint32_t seen, std::uint32_t seconds) const;

  FlowTables tables_;
  Post post_;
  UnassuredAge age_;
  std::uint32_t step_entries_;
  int table_ = 0;
  std::uint32_t now_ = 0;
  raw::Cursor cursor_;
  Named named_;
  std::function<void(result<Named>)> done_;
};

}  // namespace lb::maps
