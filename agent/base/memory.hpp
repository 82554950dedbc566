// SPDX-License-Identifier: Apache-2.0
// The memory that full maps need, and the limit of the agent's memory cgroup: the kernel charges maps to it
// and would kill the agent (REL-62).
#pragma once

#include <linux/bpf.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lb::agent {

struct MapSize {
  bpf_map_type type = BPF_MAP_TYPE_UNSPEC;
  std::uint32_t key_size = 0;    ///< bytes
  std::uint32_t value_size = 0;  ///< bytes
  std::uint32_t entries = 0;
};

/// Bytes of kernel memory of a full map. An estimate, too high by at most the size of its buckets.
[[nodiscard]] std::uint64_t full_bytes(const MapSize& map, std::uint32_t cpus);

/// Bytes that this process's memory cgroup and its ancestors allow; nullopt if there is no limit or it cannot
/// be read.
[[nodiscard]] std::optional<std::uint64_t> memory_limit();

/// The path of a cgroup in the text of /proc/PID/cgroup; an empty controller name means version 2.
[[nodiscard]] std::optional<std::string> cgroup_path(std::string_view text, std::string_view controller);

/// The path relative to a mount of the file system whose root is `root`, both as seen from the same cgroup
/// namespace ("/../.." is above it); empty: the mount itself; nullopt: the path is not visible in that mount.
[[nodiscard]] std::optional<std::string> below_mount(std::string_view path, std::string_view root);

/// A mounted cgroup file system.
struct CgroupMount {
  std::string root;       ///< the cgroup that is mounted, in the form of /proc/PID/cgroup
  std::string directory;  ///< where
};

/// The first mount in the text of /proc/PID/mountinfo that has the cgroup `path`. There may be others: of the
/// host's cgroups in a container, or one that another mount covers.
[[nodiscard]] std::optional<CgroupMount> cgroup_mount(std::string_view mountinfo, std::string_view controller,
                                                      std::string_view path);

/// Parses the text of memory.max: nullopt for "max" and for anything but a number.
[[nodiscard]] std::optional<std::uint64_t> parse_limit(std::string_view text);

}  // namespace lb::agent
