// SPDX-License-Identifier: Apache-2.0
// The directories that BPF objects need: the pin directory on a bpf file system, and the cgroup whose
// processes are served. Checked and created at start; every failure is a StartError.
#pragma once

#include <cstdint>
#include <string>

#include "agent/base/privileges.hpp"
#include "maps/map.hpp"
#include "maps/mapset.hpp"

namespace lb::agent {

/// Whether the bpf file system of the pins was mounted, or we mounted it.
enum class BpfMount : std::uint8_t { found, made };

/// Checks that the file system is mounted, or that a start can mount it: at /sys/fs/bpf, if `pins` is below
/// that and `privileges` allow it; and that only root can replace what is pinned there. Throws StartError
/// otherwise.
[[nodiscard]] BpfMount require_bpf_mount(const maps::Pins& pins, const Privileges& privileges);

/// Creates the pin directory and its subdirectories, accessible only to root, and mounts the file system if
/// necessary.
BpfMount prepare_pins(const maps::Pins& pins);

/// Unmounts the file system that prepare_pins() has mounted, unless it is in use by now.
void unmount_bpf();

/// Removes those directories that are empty.
void remove_empty_pins(const maps::Pins& pins);

/// The inode number of the host's root cgroup.
inline constexpr std::uint64_t host_root_cgroup = 1;

struct Cgroup {
  maps::Fd directory;
  std::uint64_t id = 0;
  std::string path;
  std::string note;  ///< message for the operator; empty: none
};

/// Opens a directory of the cgroup v2 file system; an empty path means its root, found in /proc/self/mounts.
/// Programs at the root of a cgroup namespace see only sockets below it. On a node that is itself a container
/// (kind) all pods are below it; if there is no cgroup of pods, the note says so.
[[nodiscard]] Cgroup open_cgroup(const std::string& path);

/// The mounted versions of the cgroup file system, from the text of /proc/self/mounts.
struct CgroupMounts {
  std::string version2;  ///< directory of the first mount; empty: none
  bool version1 = false;
};
[[nodiscard]] CgroupMounts cgroup_mounts(const std::string& mounts);
[[nodiscard]] std::string read_mounts();

/// Whether the path still refers to this cgroup.
[[nodiscard]] bool is_cgroup(const Cgroup& cgroup);

}  // namespace lb::agent
