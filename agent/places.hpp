// The places of the file system that the kernel's objects need: the pin directory on a bpf file system and
// the cgroup whose processes are served. Checked and made at start; every failure is a StartError.
#pragma once

#include <cstdint>
#include <string>

#include "maps/map.hpp"
#include "maps/mapset.hpp"

namespace lb::agent {

/// Makes the pin directory and those below it, for root alone. Mounts the bpf file system at /sys/fs/bpf
/// where that is not done yet and `pins` lies below it.
void prepare_pins(const maps::Pins& pins);

/// Removes those directories where they are empty.
void remove_empty_pins(const maps::Pins& pins);

/// The inode number of the host's root cgroup.
inline constexpr std::uint64_t host_root_cgroup = 1;

struct Cgroup {
  maps::Fd directory;
  std::uint64_t id = 0;
  std::string path;
};

/// Opens a directory of the cgroup v2 file system; an empty path means its root, found in /proc/self/mounts.
/// The root of a cgroup namespace is refused: programs there would miss every pod.
[[nodiscard]] Cgroup open_cgroup(const std::string& path);

/// Is it still what its path leads to?
[[nodiscard]] bool is_cgroup(const Cgroup& cgroup);

}  // namespace lb::agent
