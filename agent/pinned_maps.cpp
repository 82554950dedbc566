// Sizes, memory and pins of the object's maps.
#include "agent/pinned_maps.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "agent/error.hpp"
#include "agent/memory.hpp"

namespace lb::agent {
namespace {

std::optional<std::uint32_t> wanted_size(std::string_view map, const Sizes& sizes) {
  const std::array<std::pair<std::string_view, std::uint32_t>, 10> table = {{
      {"lb_frontends", sizes.frontends},
      {"lb_addresses", std::max<std::uint32_t>(sizes.frontends, LB_MAX_ADDRESSES)},
      {"lb_services", sizes.services},
      {"lb_names", sizes.services},
      {"lb_backends", sizes.backends},
      {"lb_slots", (sizes.slots + 1) / LB_SLOTS_A_PAIR},
      {"lb_flows4", sizes.flows},
      {"lb_flows6", sizes.flows},
      {"lb_young4", sizes.young},
      {"lb_young6", sizes.young},
  }};
  const auto found = std::ranges::find(table, map, &std::pair<std::string_view, std::uint32_t>::first);
  return found == table.end() ? std::nullopt : std::optional(found->second);
}

bool same_shape(const maps::MapInfo& pinned, const bpf_map* map) {
  return pinned.type == bpf_map__type(map) && pinned.key_size == bpf_map__key_size(map) &&
         pinned.value_size == bpf_map__value_size(map);
}

/// What is pinned there; none: nothing. To take a map that cannot be opened for none would be to serve from
/// an empty one.
maps::Fd open_pinned(const std::string& path) {
  maps::Fd fd(bpf_obj_get(path.c_str()));
  const int error = errno;
  if (!fd && std::filesystem::exists(path)) {
    throw StartError(fmt::format("cannot open the map pinned at {} ({})", path, std::strerror(error)));
  }
  return fd;
}

// libbpf's own adoption refuses another size and, before 1.6, every DEVMAP.
void adopt_map(bpf_map* map, const std::string& path, std::vector<std::string>& notes) {
  const auto fd = open_pinned(path);
  if (!fd) {
    return;
  }
  const auto info = maps::map_info(fd.get());
  if (!info || !same_shape(*info, map)) {
    throw StartError(fmt::format(
        "the map pinned at {} is not this version's: remove the pins of the other one first", path));
  }
  if (info->max_entries != bpf_map__max_entries(map)) {
    notes.push_back(
        fmt::format("{} keeps its {} entries, because it is pinned with that size; {} were asked for",
                    info->name, info->max_entries, bpf_map__max_entries(map)));
  }
  if (const int error = bpf_map__reuse_fd(map, fd.get()); error != 0) {
    throw StartError(fmt::format("cannot adopt the map pinned at {} ({})", path, std::strerror(-error)));
  }
}

bool is_pinnable(const bpf_map* map) { return !bpf_map__is_internal(map); }

/// libbpf makes maps without names where its own question whether the kernel knows names met a lack of
/// memory. By a name a map is found again, by the next agent and by people.
bool is_named(const bpf_map* map) {
  const auto info = maps::map_info(bpf_map__fd(map));
  return info && !info->name.empty();
}

}  // namespace

void set_sizes(bpf_object* object, const Sizes& sizes) {
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, object) {
    if (const auto size = wanted_size(bpf_map__name(map), sizes)) {
      bpf_map__set_max_entries(map, *size);
    }
  }
}

void require_memory(bpf_object* object) {
  constexpr std::uint64_t mebi = 1 << 20;
  constexpr std::uint64_t agent_itself = 64 * mebi;
  const auto cpus = static_cast<std::uint32_t>(std::max(libbpf_num_possible_cpus(), 1));
  std::uint64_t needed = agent_itself;
  const bpf_map* map = nullptr;
  bpf_object__for_each_map(map, object) {
    needed += full_bytes(
        {bpf_map__type(map), bpf_map__key_size(map), bpf_map__value_size(map), bpf_map__max_entries(map)},
        cpus);
  }
  if (const auto limit = memory_limit(); limit && *limit < needed) {
    throw StartError(
        fmt::format("the memory limit of {} MiB is too small: full maps and the agent need {} MiB; raise the "
                    "limit or make "
                    "the maps smaller with --max-flows and --max-young",
                    *limit / mebi, (needed + mebi - 1) / mebi));
  }
}

std::vector<std::string> adopt_maps(bpf_object* object, const maps::Pins& pins) {
  std::vector<std::string> notes;
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, object) {
    if (is_pinnable(map)) {
      adopt_map(map, pins.map(bpf_map__name(map)), notes);
    }
  }
  return notes;
}

void pin_maps(bpf_object* object, const maps::Pins& pins) {
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, object) {
    const auto path = pins.map(bpf_map__name(map));
    if (!is_pinnable(map) || std::filesystem::exists(path)) {
      continue;
    }
    if (!is_named(map)) {
      throw StartError(fmt::format(
          "the kernel gave the map {} no name; memory may have been short, start again", bpf_map__name(map)));
    }
    if (bpf_obj_pin(bpf_map__fd(map), path.c_str()) != 0) {
      throw StartError(fmt::format("cannot pin the map {} ({})", path.string(), std::strerror(errno)));
    }
  }
}

std::size_t repin_maps(const bpf_object* object, const maps::Pins& pins) {
  std::size_t repinned = 0;
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, object) {
    const auto path = pins.map(bpf_map__name(map));
    std::error_code error;
    if (is_pinnable(map) && !std::filesystem::exists(path, error) &&
        bpf_obj_pin(bpf_map__fd(map), path.c_str()) == 0) {
      ++repinned;
    }
  }
  return repinned;
}

}  // namespace lb::agent
