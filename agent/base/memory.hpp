// How much memory the maps need when they are full, and how much the agent's memory cgroup allows: the kernel
// charges maps to it and would kill the agent (REL-62).
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

/// Bytes of kernel memory of a full map. An estimate, too high by the size of its buckets at most.
[[nodiscard]] std::uint64_t full_bytes(const MapSize& map, std::uint32_t cpus);

/// Bytes that this process's memory cgroup and its ancestors allow; nothing if there is no limit or it cannot
/// be read.
[[nodiscard]] std::optional<std::uint64_t> memory_limit();

/// The path of a cgroup in the text of /proc/PID/cgroup; an empty controller name means version 2.
[[nodiscard]] std::optional<std::string> cgroup_path(std::string_view text, std::string_view controller);

/// The path relative to a mount of the file system that shows `root`, both as the same cgroup namespace
/// sees them ("/../.." is above it); empty: the mount itself; nothing: the path is not visible in that mount.
[[nodiscard]] std::optional<std::string> below_mount(std::string_view path, std::string_view root);

/// Parses the text of memory.max: nothing for "max" and for anything but a number.
[[nodiscard]] std::optional<std::uint64_t> parse_limit(std::string_view text);

}  // namespace lb::agent
