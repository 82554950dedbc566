// Programs of other software at the same hooks, which run before or after ours.
#pragma once

#include <linux/bpf.h>

#include <cstdint>
#include <string>
#include <vector>

#include "agent/attach/hook_id.hpp"

namespace lb::agent {

/// May several programs be at a hook?
enum class Sharing : std::uint8_t { possible, refused };

enum class Order : std::uint8_t { before_us, after_us };

struct Neighbour {
  HookId hook;
  std::string name;  ///< of the program or filter
  Order order = Order::after_us;
  bool operator==(const Neighbour&) const = default;
};

/// At both tc hooks of a device, in the order in which they run. Where ours does not run there
/// are none.
[[nodiscard]] std::vector<Neighbour> neighbours_of(std::uint32_t device, const std::string& name);

/// At those of several devices, by their names; one that is gone has none.
[[nodiscard]] std::vector<Neighbour> neighbours_of(const std::vector<std::string>& devices);

/// Programs and filters that are not ours at the tc hooks of a device, whether ours run there or not, as
/// "eth0 ingress: cil_from_netdev".
[[nodiscard]] std::vector<std::string> others_at_tc(const std::string& device);

/// Programs that are not ours at that hook of a cgroup itself (a descriptor of its directory), and how they
/// were attached.
struct CgroupPrograms {
  std::vector<std::string> programs;
  Sharing sharing = Sharing::possible;
};
[[nodiscard]] CgroupPrograms cgroup_programs(int cgroup, bpf_attach_type type);

/// "eth0 ingress: cil_from_netdev before us; …"; empty where there are none.
[[nodiscard]] std::string neighbours_text(const std::vector<Neighbour>& neighbours);

}  // namespace lb::agent
