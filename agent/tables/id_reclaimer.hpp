// SPDX-License-Identifier: Apache-2.0
// Tracks which slots, backend ids and service numbers are in use, and when retired ones may be reused: slots
// after a grace period; ids and numbers also only when no flow refers to them any more.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "agent/tables/backend_ids.hpp"
#include "maps/arena.hpp"
#include "maps/grace.hpp"
#include "maps/mapset.hpp"
#include "maps/sweep.hpp"

namespace lb::agent {

class IdReclaimer {
 public:
  /// `freed` is called after something retired has become free, or could not be freed. All references and the
  /// callbacks of `grace` and `sweeper` must outlive this.
  IdReclaimer(const maps::Store& store, maps::GracePeriod& grace, maps::Sweeper& sweeper,
              std::function<void()> freed);
  IdReclaimer(const IdReclaimer&) = delete;
  IdReclaimer& operator=(const IdReclaimer&) = delete;

  // ---- Allocating. nullopt: none is free now; see may_free_more(). ----
  [[nodiscard]] std::optional<maps::Extent> slots(std::uint32_t count);
  [[nodiscard]] std::optional<std::uint32_t> backend();
  [[nodiscard]] std::optional<std::uint32_t> service();

  // ---- Releasing what was never visible to programs. ----
  void cancel(maps::Extent extent) { slots_.release(extent); }
  void cancel_backend(std::uint32_t id) { backends_.release(id); }
  void cancel_service(std::uint32_t number) { services_.release(number); }

  // ---- Retiring what programs may still use. A service's number goes after its last backend. ----
  void retire(maps::Extent extent);
  /// The id's entry in lb_backends must still have its key.
  void retire_backend(std::uint32_t id);
  void retire_service(std::uint32_t number);
  /// The retired id of a backend with this key, if it has not been reused.
  [[nodiscard]] std::optional<std::uint32_t> find_retired(const BackendKey& key) const;
  /// Takes a retired id back into use. Call it only once nothing can fail: an id that were retired again at
  /// each attempt would never be free.
  void revive(std::uint32_t id);

  /// Starts a grace period for everything retired so far. Call it after each batch of changes.
  void flush();
  /// Requests a sweep of the flow tables soon, because ids or slots are short.
  void request_sweep();
  /// Grace periods started so far.
  [[nodiscard]] std::uint64_t epoch() const noexcept { return started_; }
  /// Whether a grace period or a sweep may free more of what was retired up to epoch `since`. What others
  /// retire later does not count: on a busy node something is retired all the time.
  [[nodiscard]] bool may_free_more(std::uint64_t since) const noexcept;

  // ---- Adopting pinned maps. ----
  /// Marks the ids and numbers that pinned maps use; all others are free after a grace period.
  void adopt(const std::vector<bool>& used_backends, const std::vector<bool>& used_services);
  [[nodiscard]] bool claim(maps::Extent extent) { return slots_.claim(extent); }

  // ---- Retired, and not free yet. ----
  [[nodiscard]] std::uint64_t retired_slots() const;
  [[nodiscard]] std::uint64_t retired_backends() const { return retired_backends_.size(); }
  [[nodiscard]] std::uint64_t retired_services() const { return retired_services_.size(); }

  [[nodiscard]] const maps::ExtentArena& slot_arena() const noexcept { return slots_; }
  [[nodiscard]] const maps::IdPool& backend_pool() const noexcept { return backends_; }
  [[nodiscard]] const maps::IdPool& service_pool() const noexcept { return services_; }

 private:
  template <class T>
  struct Retired {
    T what;
    std::uint64_t epoch;  ///< free once more grace periods than this have completed
  };
  /// Another program may have overwritten the id's entry since it was retired.
  struct RetiredBackend {
    std::uint64_t epoch;
    std::uint32_t service;  ///< service number
  };
  template <class T>
  [[nodiscard]] Retired<T> stamped(T what);
  void passed();
  void sweep_if_wanted();
  void swept(const maps::result<maps::Named>& named);
  void release_backends(const maps::Named& named);
  void forget_backend_of(std::uint32_t number);
  void release_services(const maps::Named& named);
  [[nodiscard]] bool release_service(std::uint32_t number);

  maps::Store store_;
  maps::GracePeriod& grace_;
  maps::Sweeper& sweeper_;
  std::function<void()> freed_;
  maps::ExtentArena slots_;
  maps::IdPool backends_;
  maps::IdPool services_;

  std::uint64_t started_ = 0;    ///< grace periods started
  std::uint64_t completed_ = 0;  ///< grace periods completed
  bool dirty_ = false;           ///< something was retired after the last grace period started
  bool closed_ = false;          ///< adopted, and no grace period has completed yet
  bool urgent_ = false;
  bool sweeping_ = false;
  std::uint64_t sweep_epoch_ = 0;     ///< the sweep under way frees what was retired before
  std::uint64_t swept_epoch_ = 0;     ///< the same of the last sweep that ended
  std::size_t unswept_backends_ = 0;  ///< retired since the last sweep
  std::size_t unswept_services_ = 0;

  std::deque<Retired<maps::Extent>> retired_slots_;
  BackendIdMap<RetiredBackend> retired_backends_;
  std::unordered_map<std::uint32_t, std::uint32_t> retired_of_;  ///< service number to retired backends
  std::vector<Retired<std::uint32_t>> retired_services_;
};

}  // namespace lb::agent
