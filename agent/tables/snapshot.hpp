// SPDX-License-Identifier: Apache-2.0
// A snapshot of the maps' sizes and counters, for /metrics and `sluice status`. Plain values.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/plan/cluster_counts.hpp"
#include "agent/plan/plan.hpp"
#include "k8s/watch/api_source.hpp"
#include "maps/abi/abi.h"
#include "maps/grace.hpp"
#include "maps/mapset.hpp"

namespace lb::agent {

/// How many entries of one map are used.
struct Fill {
  std::string_view map;    ///< map name in the kernel; a string literal
  std::uint64_t used = 0;  ///< entries in use
  std::uint64_t limit = 0;
  /// entries in use that are retired until no packet and no flow can refer to them; nullopt: the map has no
  /// such
  std::optional<std::uint64_t> retired = std::nullopt;
};

/// How lb_slots is used.
struct ExtentStats {
  std::uint64_t used = 0;
  std::uint64_t longest_free = 0;  ///< slots in the longest free extent
};

/// One service port in one family.
struct ServiceStats {
  ServicePortKey key;
  struct Set {
    std::uint64_t eligible = 0;    ///< planned backends in the set, except weight 0
    std::uint64_t programmed = 0;  ///< backends in the set in the maps
  };
  Set cluster;
  std::optional<Set> local;  ///< nullopt: no policy uses the local set
};

struct Snapshot {
  std::vector<Fill> fills;
  /// Time since the flow tables in `fills` were counted; nullopt: not counted yet.
  std::optional<std::chrono::steady_clock::duration> flows_age;
  ExtentStats extents;
  ClusterCounts objects;
  std::vector<ServiceStats> services;   ///< the service ports listed one by one
  std::uint64_t services_left_out = 0;  ///< number of further service ports
  lb_stats outcomes{};                  ///< sum over the CPUs
  std::vector<k8s::ApiStats> api;
  std::map<std::string, std::uint64_t> frames_lost;        ///< frames that XDP lost, by device
  std::map<std::string, std::uint64_t> unserved_backends;  ///< by the device to which their routes lead
};

/// Whether the endpoint is gone, and the id is only kept until no packet and no flow can refer to it.
[[nodiscard]] bool is_retired(const lb_backend& backend);

/// Frontends, addresses, services, source ranges, slots and backends in use. Reads every entry: only for
/// commands, or rare use.
[[nodiscard]] maps::result<std::vector<Fill>> table_fills(const maps::MapSet& maps);
/// Entries of the tables that programs fill: flows and affinity. Reads every entry.
[[nodiscard]] maps::result<std::vector<Fill>> flow_fills(const maps::MapSet& maps);

/// Counts the tables that programs fill, in steps, so that no scrape blocks the agent.
class FlowCounter {
 public:
  /// `post` runs each step, of about `step_entries` entries, in its own turn of the event loop. `maps` must
  /// outlive this.
  FlowCounter(const maps::MapSet& maps, maps::Post post, std::uint32_t step_entries = 4096);

  /// Starts a count unless one is under way.
  void refresh();
  /// Results of the last complete count; all zero before the first.
  [[nodiscard]] const std::vector<Fill>& last() const noexcept { return last_; }
  /// When the last count ended; nullopt before the first.
  [[nodiscard]] std::optional<std::chrono::steady_clock::time_point> counted() const noexcept {
    return counted_;
  }

 private:
  void step();
  [[nodiscard]] maps::error_code step_table();

  const maps::MapSet& maps_;
  maps::Post post_;
  std::uint32_t step_entries_;
  std::vector<Fill> last_;
  std::optional<std::chrono::steady_clock::time_point> counted_;
  std::vector<Fill> counting_;  ///< empty: no count is under way
  std::size_t table_ = 0;
  maps::raw::Cursor cursor_;
};

/// One line of outcomes.h.
struct Outcome {
  std::string_view name;
  std::string_view action;
  std::string_view meaning;
  __u64 lb_stats::* count;
};

#define LB_OUTCOME_LINE(name, action, meaning) Outcome{#name, #action, meaning, &lb_stats::name},
inline constexpr std::array<Outcome, LB_OUTCOME_COUNT> outcomes = {{LB_OUTCOMES(LB_OUTCOME_LINE)}};
#undef LB_OUTCOME_LINE

}  // namespace lb::agent
