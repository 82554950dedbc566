// SPDX-License-Identifier: Apache-2.0
// Sizes from the kernel's own layout (hashtab.c, arraymap.c), limits from both versions of the memory cgroup.
#include "agent/base/memory.hpp"

#include <bit>
#include <charconv>
#include <sstream>
#include <string>

#include "agent/base/read_file.hpp"

namespace lb::agent {
namespace {

constexpr std::uint64_t element_head = 48;  // struct htab_elem
constexpr std::uint64_t trie_head = 40;     // struct lpm_trie_node
constexpr std::uint64_t free_list_node = 8;
constexpr std::uint64_t bucket = 16;
// Larger values mean "no limit": the kernel stores pages in a signed number.
constexpr std::uint64_t no_limit = std::uint64_t{1} << 62;

std::uint64_t rounded(std::uint64_t bytes) { return (bytes + 7) / 8 * 8; }

std::uint64_t hash_bytes(const MapSize& map) {
  const auto element = element_head + rounded(map.key_size) + rounded(map.value_size) + free_list_node;
  return map.entries * element + std::bit_ceil(std::uint64_t{map.entries}) * bucket;
}

// A prefix may need an intermediate node in addition to its own.
std::uint64_t trie_node_pair(const MapSize& map) {
  return 2 * (trie_head + rounded(map.key_size) + rounded(map.value_size));
}

void lower(std::optional<std::uint64_t>& limit, std::optional<std::uint64_t> other) {
  if (other && *other < limit.value_or(no_limit)) {
    limit = other;
  }
}

/// The lowest limit from a cgroup up to the mount's root; `file` is the name of the limit's file.
std::optional<std::uint64_t> least_limit(std::string_view controller, const std::string& file) {
  const auto whole = cgroup_path(read_file("/proc/self/cgroup"), controller);
  const auto mount =
      whole ? cgroup_mount(read_file("/proc/self/mountinfo"), controller, *whole) : std::nullopt;
  auto path = mount ? below_mount(*whole, mount->root) : std::nullopt;
  std::optional<std::uint64_t> limit;
  while (path) {
    lower(limit, parse_limit(read_file(mount->directory + *path + "/" + file)));
    if (path->empty()) {
      break;
    }
    path->resize(path->rfind('/'));
  }
  return limit;
}

}  // namespace

std::uint64_t full_bytes(const MapSize& map, std::uint32_t cpus) {
  switch (map.type) {
    case BPF_MAP_TYPE_ARRAY:
      return map.entries * rounded(map.value_size);
    case BPF_MAP_TYPE_PERCPU_ARRAY:
      return map.entries * rounded(map.value_size) * cpus;
    case BPF_MAP_TYPE_LPM_TRIE:
      return map.entries * trie_node_pair(map);
    default:
      return hash_bytes(map);
  }
}

std::optional<std::uint64_t> memory_limit() {
  auto limit = least_limit("", "memory.max");
  lower(limit, least_limit("memory", "memory.limit_in_bytes"));
  return limit;
}

// Lines are "number:controllers:path"; version 2 has no controllers.
std::optional<std::string> cgroup_path(std::string_view text, std::string_view controller) {
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const auto controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers.find("," + std::string(controller) + ",") != std::string::npos) {
      return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

std::optional<CgroupMount> cgroup_mount(std::string_view mountinfo, std::string_view controller,
                                        std::string_view path) {
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number;
    CgroupMount mount;
    std::string word;
    words >> number >> number >> number >> mount.root >> mount.directory;
    while (words >> word && word != "-") {
    }
    std::string type;
    std::string device;
    std::string options;
    words >> type >> device >> options;
    const bool listed = ("," + options + ",").find("," + std::string(controller) + ",") != std::string::npos;
    if ((controller.empty() ? type == "cgroup2" : type == "cgroup" && listed) &&
        below_mount(path, mount.root)) {
      return mount;
    }
  }
  return std::nullopt;
}

std::optional<std::string> below_mount(std::string_view path, std::string_view root) {
  const auto plain = [](std::string_view text) { return text == "/" ? std::string_view() : text; };
  path = plain(path);
  root = plain(root);
  if (!path.starts_with(root) || (path.size() > root.size() && path[root.size()] != '/')) {
    return std::nullopt;
  }
  return std::string(path.substr(root.size()));
}

std::optional<std::uint64_t> parse_limit(std::string_view text) {
  std::uint64_t limit = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit);
  const bool number = error == std::errc() && end != text.data();
  return number && limit < no_limit ? std::optional(limit) : std::nullopt;
}

}  // namespace lb::agent
