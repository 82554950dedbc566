// SPDX-License-Identifier: Apache-2.0
// Ends flows: the decision (pure), and a walk over the tables in bounded, paced steps. Programs create the
// entries; only this erases unused ones.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "agent/base/clock.hpp"
#include "agent/options/config.hpp"
#include "maps/abi/abi.h"
#include "maps/map.hpp"

namespace lb::agent {

/// Why a flow ended.
enum class Ending : std::uint8_t {
  closed,       ///< both sides closed it, or one reset it
  half_closed,  ///< one side closed it, and it was then idle for its timeout
  idle,         ///< it was idle for its timeout
  orphaned,     ///< one of its two entries was missing
};

struct EndingName {
  Ending ending;
  std::string_view name;
};

inline constexpr std::array<EndingName, 4> endings = {{{Ending::closed, "closed"},
                                                       {Ending::half_closed, "half_closed"},
                                                       {Ending::idle, "idle"},
                                                       {Ending::orphaned, "orphaned"}}};

/// nearly_full: nine tenths of the table are in use.
enum class TableFill : std::uint8_t { normal, nearly_full };

/// Parameters of the decision besides the entries. `now` is in seconds of lb_clock.
struct ExpiryTerms {
  FlowTimeouts timeouts;
  TableFill fill = TableFill::normal;
  std::uint32_t now = 0;
};

/// Seconds of lb_clock since `then`, which may be slightly later than `now`: programs run on meanwhile.
/// Modulo 2^32, as programs count.
[[nodiscard]] std::uint32_t age(std::uint32_t now, std::uint32_t then);

/// False if the flow lives whatever its other entry says. Cheap, called for each entry of a walk.
[[nodiscard]] bool may_have_ended(const ExpiryTerms& terms, lb_protocol protocol, const lb_track& entry);

/// The reason why the flow of these two entries has ended; nullopt while it lives. `other` is null if there
/// is no other entry. The flow's age is that of its younger entry, because a one-way stream refreshes only
/// one of them.
[[nodiscard]] std::optional<Ending> ending(const ExpiryTerms& terms, lb_protocol protocol,
                                           const lb_track& entry, const lb_track* other);

/// The key of a flow's other entry, derived from this entry's rewrite.
[[nodiscard]] lb_flow4_key other_key(const lb_flow4_key& key, const lb_flow4& flow);
[[nodiscard]] lb_flow6_key other_key(const lb_flow6_key& key, const lb_flow6& flow);

/// `round` is the time between two visits of an entry, `min_pause` the minimum between two steps, which
/// makes rounds over tables of more than a million entries longer. It bounds the cost for any table size; on
/// a slow machine `rest` does (bench/expiry.cpp).
struct Pacing {
  std::chrono::seconds round;
  std::chrono::milliseconds min_pause;
  unsigned rest;  ///< minimum pause after a step, as a multiple of its processor time
};

/// How fast the tables are walked.
struct ExpiryPace {
  std::uint32_t step_entries = 512;  ///< entries per turn of the event loop
  Pacing even{.round = std::chrono::seconds{60}, .min_pause = std::chrono::milliseconds{25}, .rest = 120};
  /// While one of the tables is nearly full.
  Pacing urgent{.round = std::chrono::seconds{15}, .min_pause = std::chrono::milliseconds{6}, .rest = 15};
};

class FlowExpiry {
 public:
  using Flows4 = maps::HashMap<lb_flow4_key, lb_flow4>;
  using Flows6 = maps::HashMap<lb_flow6_key, lb_flow6>;

  /// Fill of one table at the end of its last walk.
  struct Fullness {
    std::uint64_t entries = 0;
    TableFill fill = TableFill::normal;
  };

  /// Clock functions: seconds of lb_clock, and the processor time of this thread.
  struct Clocks {
    std::function<std::uint32_t()> now;
    std::function<std::chrono::nanoseconds()> taken = thread_time;
  };

  /// The tables must outlive this.
  FlowExpiry(Flows4& flows4, Flows6& flows6, FlowTimeouts timeouts, Clocks clocks, ExpiryPace pace = {});

  /// Checks the next few entries, and returns the pause before the next step. An error ends this round; the
  /// next step begins a new one.
  [[nodiscard]] maps::result<std::chrono::milliseconds> step();

  /// Flows (not entries) ended since the agent started, by Ending.
  [[nodiscard]] const std::array<std::uint64_t, endings.size()>& ended() const noexcept { return ended_; }
  /// Fill of the tables for IPv4 and IPv6.
  [[nodiscard]] const std::array<Fullness, 2>& fullness() const noexcept { return fullness_; }
  [[nodiscard]] std::uint32_t rounds() const noexcept { return round_; }

 private:
  template <class Key, class Flow>
  [[nodiscard]] maps::error_code step_table(maps::HashMap<Key, Flow>& table);
  template <class Table, class Key>
  void end_if_over(Table& table, const ExpiryTerms& terms, const Key& key);
  void finish_table();
  [[nodiscard]] std::chrono::milliseconds pause(std::chrono::nanoseconds taken);
  [[nodiscard]] const Pacing& pacing() const;

  Flows4& flows4_;
  Flows6& flows6_;
  FlowTimeouts timeouts_;
  Clocks clocks_;
  ExpiryPace pace_;
  std::array<Fullness, 2> fullness_{};
  std::array<std::uint64_t, endings.size()> ended_{};
  std::size_t table_ = 0;
  std::uint64_t counted_ = 0;  ///< entries of this table in this round
  std::uint32_t round_ = 0;
  std::chrono::milliseconds slept_{};  ///< sum of pauses in this round
  maps::raw::Cursor cursor_;
};

}  // namespace lb::agent
