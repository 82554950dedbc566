// Which slots, backend ids and service numbers are in use, and when retired ones may be reused: slots after a
// grace period; ids and numbers also only when no flow refers to them any more.
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
  /// `freed` is called after something that was retired has become free, or will not. All references and the
  /// callbacks of `grace` and `sweeper` must outlive this.
  IdReclaimer(const maps::Store& store, maps::GracePeriod& grace, maps::Sweeper& sweeper,
              std::function<void()> freed);
  IdReclaimer(const IdReclaimer&) = delete;
  IdReclaimer& operator=(const IdReclaimer&) = delete;

  // ---- Taking. Nothing: none is free now; see may_free_more(). ----
  [[nodiscard]] std::optional<maps::Extent> slots(std::uint32_t count);
  [[nodiscard]] std::optional<std::uint32_t> backend();
  [[nodiscard]] std::optional<std::uint32_t> service();

  // ---- Giving back what no reader has ever been shown. ----
  void cancel(maps::Extent extent) { slots_.release(extent); }
  void cancel_backend(std::uint32_t id) { backends_.release(id); }
  void cancel_service(std::uint32_t number) { services_.release(number); }

  // ---- Giving up what readers may still hold. A service's number goes after its last backend. ----
  void retire(maps::Extent extent);
  /// Its entry still holds what it meant.
  void retire_backend(std::uint32_t id);
  void retire_service(std::uint32_t number);
  /// The retired id of an endpoint that has come back: it has not been reused meanwhile.
  [[nodiscard]] std::optional<std::uint32_t> revive(const BackendKey& key);

  /// Begins the grace period of all that was retired so far. Call it after each batch of changes.
  void flush();
  /// Requests a sweep of the flow tables soon, because something is short.
  void request_sweep();
  /// Whether waiting, or a sweep, may yet free something.
  [[nodiscard]] bool may_free_more() const noexcept;

  // ---- At the start. ----
  /// What pinned maps use; everything else is free, but not before a grace period has passed.
  void adopt(const std::vector<bool>& used_backends, const std::vector<bool>& used_services);
  [[nodiscard]] bool claim(maps::Extent extent) { return slots_.claim(extent); }

  // ---- What is given up, and not free yet. ----
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
    std::uint64_t epoch;  ///< safe when more grace periods than this have passed
  };
  template <class T>
  [[nodiscard]] Retired<T> stamped(T what);
  void passed();
  void sweep_if_wanted();
  void swept(const maps::result<maps::Named>& named);
  void release_backends(const maps::Named& named);
  void forget(std::uint32_t number);
  void release_services(const maps::Named& named);
  [[nodiscard]] bool release_service(std::uint32_t number);

  maps::Store store_;
  maps::GracePeriod& grace_;
  maps::Sweeper& sweeper_;
  std::function<void()> freed_;
  maps::ExtentArena slots_;
  maps::IdPool backends_;
  maps::IdPool services_;

  std::uint64_t started_ = 0;    ///< grace periods
  std::uint64_t completed_ = 0;  ///< of those
  bool dirty_ = false;           ///< something was retired after the last one started
  bool closed_ = false;          ///< adopted, and no grace period has passed yet
  bool urgent_ = false;
  bool sweeping_ = false;
  std::uint64_t sweep_epoch_ = 0;
  std::size_t unswept_backends_ = 0;  ///< retired since the last sweep
  std::size_t unswept_services_ = 0;

  std::deque<Retired<maps::Extent>> retired_slots_;
  BackendIdMap<std::uint64_t> retired_backends_;                 ///< id to epoch
  std::unordered_map<std::uint32_t, std::uint32_t> retired_of_;  ///< service number to how many of those
  std::vector<Retired<std::uint32_t>> retired_services_;
};

}  // namespace lb::agent
