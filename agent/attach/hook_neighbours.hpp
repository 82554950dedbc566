// SPDX-License-Identifier: Apache-2.0
// Programs of other software at the same hooks, which run before or after ours.
#pragma once

#include <linux/bpf.h>

#include <cstdint>
#include <string>
#include <vector>

#include "agent/attach/hook_id.hpp"

namespace lb::agent {

/// Whether several programs may be attached to a hook.
enum class Sharing : std::uint8_t { possible, refused };

enum class Order : std::uint8_t { before_us, after_us };

struct Neighbour {
  HookId hook;
  std::string name;  ///< of the program or filter
  Order order = Order::after_us;
  bool operator==(const Neighbour&) const = default;
};

/// Programs at both tc hooks of a device, in the order in which they run; none for a hook without our
/// program.
[[nodiscard]] std::vector<Neighbour> neighbours_of(std::uint32_t device, const std::string& name);

/// Likewise for several devices, by name; a removed device has none.
[[nodiscard]] std::vector<Neighbour> neighbours_of(const std::vector<std::string>& devices);

/// Programs and filters of others at the tc hooks of a device, whether ours are attached or not, as "eth0
/// ingress: cil_from_netdev".
[[nodiscard]] std::vector<std::string> others_at_tc(const std::string& device);

/// Programs of others attached directly to that hook of a cgroup (a descriptor of its directory), and whether
/// they share the hook.
struct CgroupPrograms {
  std::vector<std::string> programs;
  Sharing sharing = Sharing::possible;
};
[[nodiscard]] CgroupPrograms cgroup_programs(int cgroup, bpf_attach_type type);

/// "eth0 ingress: cil_from_netdev before us; …"; empty: no neighbours.
[[nodiscard]] std::string neighbours_text(const std::vector<Neighbour>& neighbours);

}  // namespace lb::agent
