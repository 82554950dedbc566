// The directories that BPF objects need: the pin directory on a bpf file system, and the cgroup whose
// processes are served. Checked and made at start; every failure is a StartError.
#pragma once

#include <cstdint>
#include <string>

#include "agent/base/privileges.hpp"
#include "maps/map.hpp"
#include "maps/mapset.hpp"

namespace lb::agent {

/// The bpf file system of the pins.
enum class BpfMount : std::uint8_t { found, made };

/// Is it mounted? If not, a start mounts it at /sys/fs/bpf, if `pins` is below that and `privileges`
/// allow it. Throws StartError if it is not mounted and cannot be.
[[nodiscard]] BpfMount require_bpf_mount(const maps::Pins& pins, const Privileges& privileges);

/// Makes the pin directory and those below it, for root alone, and mounts the file system if it is not
/// mounted.
BpfMount prepare_pins(const maps::Pins& pins);

/// Unmounts what prepare_pins() has mounted, unless it is in use by now.
void unmount_bpf();

/// Removes those directories where they are empty.
void remove_empty_pins(const maps::Pins& pins);

/// The inode number of the host's root cgroup.
inline constexpr std::uint64_t host_root_cgroup = 1;

struct Cgroup {
  maps::Fd directory;
  std::uint64_t id = 0;
  std::string path;
  std::string note;  ///< what an operator should know about it, in a sentence; empty: nothing
};

/// Opens a directory of the cgroup v2 file system; an empty path means its root, found in /proc/self/mounts.
/// Programs at the root of a cgroup namespace see only the sockets below it. On a node that is itself a
/// container (kind) all pods are below it; if no cgroup of pods is there, the note says so.
[[nodiscard]] Cgroup open_cgroup(const std::string& path);

/// Which versions of the cgroup file system are mounted, from the text of /proc/self/mounts.
struct CgroupMounts {
  std::string version2;  ///< the first directory; empty: none
  bool version1 = false;
};
[[nodiscard]] CgroupMounts cgroup_mounts(const std::string& mounts);
[[nodiscard]] std::string read_mounts();

/// Does its path still lead to it?
[[nodiscard]] bool is_cgroup(const Cgroup& cgroup);

}  // namespace lb::agent
