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

/// Bytes of kernel memory of a full map. An estimate that errs upwards by the size of its buckets.
[[nodiscard]] std::uint64_t full_bytes(const MapSize& map, std::uint32_t cpus);

/// Bytes that this process's memory cgroup and its ancestors allow; nothing where there is no limit or no way
/// to know it.
[[nodiscard]] std::optional<std::uint64_t> memory_limit();

/// The path of a cgroup in the text of /proc/PID/cgroup: of version 2 for an empty controller name.
[[nodiscard]] std::optional<std::string> cgroup_path(std::string_view text, std::string_view controller);

/// That path below where its file system is mounted, which shows `root`, both as the same cgroup namespace
/// sees them
/// ("/../.." is above it); empty: the mount itself; nothing: it is not shown there.
[[nodiscard]] std::optional<std::string> below_mount(std::string_view path, std::string_view root);

/// The text of memory.max: nothing for "max" and for what is no number.
[[nodiscard]] std::optional<std::uint64_t> parse_limit(std::string_view text);

}  // namespace lb::agent
