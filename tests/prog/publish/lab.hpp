// SPDX-License-Identifier: Apache-2.0
// A reader on one processor that continuously selects by the programs' selection functions, and counts
// backends that its service cannot have had. Also makes the endpoints that the reader recognises.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "agent/plan/plan.hpp"
#include "tests/prog/lib/real_maps.hpp"

namespace lb::tables_test {

/// The checker's counters.
struct Counted {
  std::uint64_t selections = 0;
  std::uint64_t misses = 0;
  std::uint64_t strangers = 0;
  std::uint64_t torn = 0;
  std::uint64_t untimely = 0;
  [[nodiscard]] std::uint64_t wrong() const noexcept { return misses + strangers + torn + untimely; }
  [[nodiscard]] std::string text() const;
};

struct CheckerOptions {
  std::uint32_t held = 0;     ///< idle steps between the load of a set and that of its slot
  std::uint32_t modulus = 0;  ///< generations repeat after this number; 0: never
};

class SelectionChecker {
 public:
  SelectionChecker(const RealMaps& maps, CheckerOptions options);
  SelectionChecker(const SelectionChecker&) = delete;
  SelectionChecker& operator=(const SelectionChecker&) = delete;
  ~SelectionChecker();

  /// Called before and after each publication, so that the checker knows which generations are allowed.
  void starts(std::uint32_t service, std::uint32_t generation);
  void shown(std::uint32_t service, std::uint32_t generation);
  [[nodiscard]] Counted counted() const;

  /// Starts the selections; from here on the calling thread is pinned to another processor.
  void begin();

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

/// Endpoint `index` of one of the two services (0 or 1) in a generation.
[[nodiscard]] lb_backend tagged_backend(std::uint32_t service, std::uint32_t generation, std::uint32_t index);
/// The whole plan of a service in a generation, with its frontend.
[[nodiscard]] std::shared_ptr<agent::ServicePortPlan> tagged_plan(std::uint32_t service,
                                                                  std::uint32_t generation,
                                                                  std::uint32_t count);
[[nodiscard]] agent::PlanChange tagged_change(std::uint32_t service, std::uint32_t generation,
                                              std::uint32_t count);

}  // namespace lb::tables_test
