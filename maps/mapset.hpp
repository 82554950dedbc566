// SPDX-License-Identifier: Apache-2.0
// All pinned maps of one Sluice, opened by name; for the agent and for the commands of operators.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "maps/abi/abi.h"
#include "maps/map.hpp"
#include "maps/mapped.hpp"

namespace lb::maps {

/// The paths of pins below one directory of a bpf file system: BASE/vLAYOUT/{maps,links}/NAME.
class Pins {
 public:
  explicit Pins(std::filesystem::path base, std::uint32_t layout = LB_LAYOUT);
  [[nodiscard]] const std::filesystem::path& base() const noexcept { return base_; }
  [[nodiscard]] std::filesystem::path version() const;
  [[nodiscard]] std::filesystem::path maps() const { return version() / "maps"; }
  [[nodiscard]] std::filesystem::path map(std::string_view name) const { return maps() / name; }
  [[nodiscard]] std::filesystem::path links() const { return version() / "links"; }
  [[nodiscard]] std::filesystem::path link(std::string_view name) const { return links() / name; }
  /// Other layouts that are pinned beside ours, the oldest first.
  [[nodiscard]] std::vector<std::uint32_t> other_layouts() const;
  /// The newest other layout; 0: none.
  [[nodiscard]] std::uint32_t other_layout() const;

 private:
  std::filesystem::path base_;
  std::uint32_t layout_;
};

enum class OpenFault : std::uint8_t {
  nothing_here,  ///< no Sluice was started on these pins
  other_layout,  ///< the pins are another version's
  missing,       ///< one map is not pinned
  mismatch,      ///< one map has another size than in this version
  refused,       ///< the kernel refused; see `cause`
};

struct OpenError {
  OpenFault fault = OpenFault::refused;
  std::string where;  ///< path of the directory or of the map
  error_code cause;
  std::uint32_t layout = 0;  ///< the layout found, with other_layout
  /// A message with advice.
  [[nodiscard]] std::string message() const;
};

template <class T>
using Opened = boost::system::result<T, OpenError>;

/// The maps that Tables writes: the kernel's, or test doubles.
struct Store {
  Table<lb_frontend_key, lb_frontend>& frontends;
  Table<lb_address_key, lb_address>& addresses;
  Table<lb_range_key, lb_range>& ranges;
  Table<std::uint32_t, lb_name>& names;
  MappedArray<lb_service>& services;
  MappedArray<std::uint32_t>& slots;
  MappedArray<lb_backend>& backends;
  MappedArray<std::uint64_t>& reserved;
};

class MapSet {
 public:
  /// Access::read opens the maps read-only, whatever the privileges.
  [[nodiscard]] static Opened<MapSet> open(const Pins& pins, Access access);

  HashMap<lb_frontend_key, lb_frontend> frontends;
  HashMap<lb_address_key, lb_address> addresses;
  HashMap<lb_range_key, lb_range> ranges;
  HashMap<std::uint32_t, lb_name> names;  ///< skip `retired` entries: their services are gone
  MappedArray<lb_service> services;       ///< by service number, 0 is unused
  MappedArray<std::uint32_t> slots;
  MappedArray<lb_backend> backends;  ///< by id; service 0 means free
  MappedArray<lb_node> node;         ///< one element
  MappedArray<std::uint64_t> reserved;
  HashMap<lb_flow4_key, lb_flow4> flows4;
  HashMap<lb_flow6_key, lb_flow6> flows6;
  HashMap<lb_flow4_key, lb_flow4> unassured4;
  HashMap<lb_flow6_key, lb_flow6> unassured6;
  HashMap<lb_affinity_key, lb_affinity> affinity;

  [[nodiscard]] Store store();
  /// Unmaps the large arrays: the start has read every element, later work touches few.
  void unmap() noexcept;
  /// Sum over the CPUs.
  [[nodiscard]] result<lb_stats> stats() const;

 private:
  Fd stats_;
};

}  // namespace lb::maps
