// SPDX-License-Identifier: Apache-2.0
// Sizes, memory and pins of the object's maps.
#include "agent/programs/pinned_maps.hpp"

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

#include "agent/base/error.hpp"
#include "agent/base/memory.hpp"
#include "maps/copy.hpp"

namespace lb::agent {
namespace {

/// Only tables of the agent are resized. Programs add and delete flows all the time: a copy would never be
/// complete.
enum class Resize : std::uint8_t { never, when_short };

struct WantedSize {
  std::string_view map;
  std::uint32_t entries;
  Resize resize;
};

std::optional<WantedSize> wanted_size(std::string_view map, const Sizes& sizes) {
  const std::array<WantedSize, 11> all = {{
      {"lb_frontends", sizes.frontends, Resize::when_short},
      {"lb_addresses", std::max<std::uint32_t>(sizes.frontends, LB_MAX_ADDRESSES), Resize::when_short},
      {"lb_ranges", sizes.ranges, Resize::when_short},
      {"lb_services", sizes.services, Resize::when_short},
      {"lb_names", sizes.services, Resize::when_short},
      {"lb_backends", sizes.backends, Resize::when_short},
      {"lb_slots", (sizes.slots + 1) / LB_SLOTS_A_PAIR, Resize::when_short},
      {"lb_flows4", sizes.flows, Resize::never},
      {"lb_flows6", sizes.flows, Resize::never},
      {"lb_unassured4", sizes.unassured, Resize::never},
      {"lb_unassured6", sizes.unassured, Resize::never},
  }};
  const auto* const found = std::ranges::find(all, map, &WantedSize::map);
  return found == all.end() ? std::nullopt : std::optional(*found);
}

/// Suffix of a new table's pin before it replaces the old one. The bpf file system permits no dots.
constexpr const char* beside = "_next";

bool grows(const bpf_map* map) {
  const auto wanted = wanted_size(bpf_map__name(map), {});
  return wanted && wanted->resize == Resize::when_short;
}

MapSize size_of(const bpf_map* map) {
  return {bpf_map__type(map), bpf_map__key_size(map), bpf_map__value_size(map), bpf_map__max_entries(map)};
}

constexpr std::uint64_t mebi = 1 << 20;

/// The storage of all sockets, of which the kernel keeps no sum (REL-140): measured 336 bytes for a TCP
/// socket, and 719 for a UDP socket, which counts as two units.
constexpr std::uint64_t sockets_bytes = LB_SOCKET_UNITS * std::uint64_t{360};

/// Bytes of the agent itself, of sockets, and of all maps, by `size`.
template <class Size>
std::uint64_t needed_bytes(const bpf_object* object, Size size) {
  constexpr std::uint64_t agent_itself = 64 * mebi;
  std::uint64_t needed = agent_itself + sockets_bytes;
  const bpf_map* map = nullptr;
  bpf_object__for_each_map(map, object) { needed += size(map); }
  return needed;
}

/// An error message if that exceeds the limit.
std::optional<std::string> lack(std::uint64_t needed) {
  const auto limit = memory_limit();
  if (!limit || *limit >= needed) {
    return std::nullopt;
  }
  return fmt::format("the memory limit of {} MiB is too small: full maps and the agent need {} MiB",
                     *limit / mebi, (needed + mebi - 1) / mebi);
}

std::uint32_t cpu_count() { return static_cast<std::uint32_t>(std::max(libbpf_num_possible_cpus(), 1)); }

bool same_shape(const maps::MapInfo& pinned, const bpf_map* map) {
  return pinned.type == bpf_map__type(map) && pinned.key_size == bpf_map__key_size(map) &&
         pinned.value_size == bpf_map__value_size(map);
}

/// The map pinned there; invalid if there is none. A map that cannot be opened must not count as missing: the
/// agent would serve from an empty one.
maps::Fd open_pinned(const std::string& path) {
  maps::Fd fd(bpf_obj_get(path.c_str()));
  const int error = errno;
  if (!fd && std::filesystem::exists(path)) {
    throw StartError(fmt::format("cannot open the map pinned at {} ({})", path, std::strerror(error)));
  }
  return fd;
}

struct PinnedMap {
  maps::Fd fd;
  maps::MapInfo info;
};

/// The map pinned there, if it is compatible. Errors end the start, for the same reason.
std::optional<PinnedMap> open_adoptable(const bpf_map* map, const std::string& path) {
  auto fd = open_pinned(path);
  if (!fd) {
    return std::nullopt;
  }
  auto info = maps::map_info(fd.get());
  if (!info) {
    throw StartError(
        fmt::format("cannot read the shape of the map pinned at {} ({})", path, info.error().message()));
  }
  if (!same_shape(*info, map)) {
    throw StartError(fmt::format("the map pinned at {} is not this version's", path),
                     "remove the pins of the other one first");
  }
  return PinnedMap{std::move(fd), std::move(*info)};
}

/// End of the last slots used by a service's set; nullopt if unknown.
std::optional<std::uint32_t> slots_in_use(const maps::Pins& pins) {
  auto services =
      maps::MappedArray<lb_service>::open(open_pinned(pins.map("lb_services")), maps::Access::read);
  if (!services) {
    return std::nullopt;
  }
  std::uint32_t end = 0;
  for (std::uint32_t number = 0; number < services->size(); ++number) {
    const auto service = services->load(number);
    for (const auto& set : {service.cluster, service.local}) {
      end = std::max(end, set.first + set.count);
    }
  }
  return end;
}

/// Only for slots is it known which are in use, and that they are at the start. Half of them stay free, or
/// the next change would enlarge the table again.
bool may_shrink(const bpf_map* map, const maps::Pins& pins) {
  if (std::string_view(bpf_map__name(map)) != "lb_slots") {
    return false;
  }
  const auto used = slots_in_use(pins);
  return used && *used <= bpf_map__max_entries(map) / 2 * LB_SLOTS_A_PAIR;
}

// libbpf's own adoption refuses another size and, before 1.6, every DEVMAP.
void adopt_map(bpf_map* map, const maps::Pins& pins, AdoptedMaps& adopted) {
  const auto path = pins.map(bpf_map__name(map)).string();
  std::error_code ignored;
  if (grows(map)) {
    std::filesystem::remove(path + beside, ignored);  // of a process that was killed
  }
  auto pinned = open_adoptable(map, path);
  if (!pinned) {
    return;
  }
  const auto& info = pinned->info;
  const bool grown = info.max_entries < bpf_map__max_entries(map) && grows(map);
  if (grown || (info.max_entries > bpf_map__max_entries(map) && may_shrink(map, pins))) {
    adopted.outgrown.push_back({bpf_map__name(map), std::move(pinned->fd)});
    return;
  }
  if (info.max_entries != bpf_map__max_entries(map)) {
    adopted.notes.push_back(
        fmt::format("{} keeps its {} entries, because it is pinned with that size; {} were asked for",
                    info.name, info.max_entries, bpf_map__max_entries(map)));
  }
  if (const int error = bpf_map__reuse_fd(map, pinned->fd.get()); error != 0) {
    throw StartError(fmt::format("cannot adopt the map pinned at {} ({})", path, std::strerror(-error)));
  }
}

/// Copies everything to a larger table, and the entries that fit to a smaller one.
maps::error_code copy(int from, int to) {
  const auto source = maps::map_info(from);
  const auto target = maps::map_info(to);
  const bool shrinks = source && target && target->max_entries < source->max_entries;
  return shrinks ? maps::copy_first_elements(from, to) : maps::copy_entries(from, to);
}

constexpr const char* scratch = "lb_scratch";

bool is_pinnable(const bpf_map* map) {
  return !bpf_map__is_internal(map) && is_pinned_map(bpf_map__name(map));
}

/// libbpf creates maps without names if its probe for names failed for lack of memory. The next agent and
/// operators find a map by its name.
bool is_named(const bpf_map* map) {
  const auto info = maps::map_info(bpf_map__fd(map));
  return info && !info->name.empty();
}

}  // namespace

bool is_pinned_map(std::string_view name) { return name != scratch; }

void set_sizes(bpf_object* object, const Sizes& sizes) {
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, object) {
    if (const auto size = wanted_size(bpf_map__name(map), sizes)) {
      bpf_map__set_max_entries(map, size->entries);
    }
  }
}

std::uint64_t needed_memory(const bpf_object* object) {
  return needed_bytes(object,
                      [cpus = cpu_count()](const bpf_map* map) { return full_bytes(size_of(map), cpus); });
}

void require_memory(bpf_object* object) {
  if (const auto found = lack(needed_memory(object))) {
    throw StartError(*found, "raise the limit or make the maps smaller with --max-flows and --max-unassured");
  }
}

std::optional<std::string> memory_shortage(const bpf_object* object, const Sizes& sizes) {
  const auto both = [&sizes, cpus = cpu_count()](const bpf_map* map) {
    auto size = size_of(map);
    auto bytes = full_bytes(size, cpus);
    const auto wanted = wanted_size(bpf_map__name(map), sizes);
    if (wanted && wanted->resize == Resize::when_short && wanted->entries > size.entries) {
      size.entries = wanted->entries;
      bytes += full_bytes(size, cpus);
    }
    return bytes;
  };
  const auto found = lack(needed_bytes(object, both));
  return found ? std::optional(*found + "; raise the limit") : std::nullopt;
}

void require_adoptable(const bpf_object* object, const maps::Pins& pins) {
  const bpf_map* map = nullptr;
  bpf_object__for_each_map(map, object) {
    if (is_pinnable(map)) {
      static_cast<void>(open_adoptable(map, pins.map(bpf_map__name(map))));
    }
  }
}

AdoptedMaps adopt_maps(bpf_object* object, const maps::Pins& pins) {
  AdoptedMaps adopted;
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, object) {
    if (is_pinnable(map)) {
      adopt_map(map, pins, adopted);
    }
  }
  return adopted;
}

void replace_outgrown(bpf_object* object, const maps::Pins& pins, const std::vector<Outgrown>& outgrown) {
  const auto fd_of = [object](const Outgrown& each) {
    return bpf_object__find_map_fd_by_name(object, each.name.c_str());
  };
  for (const auto& each : outgrown) {
    if (const auto error = copy(each.table.get(), fd_of(each))) {
      throw StartError(fmt::format("cannot give {} another size: {}", each.name, error.message()));
    }
  }
  for (const auto& each : outgrown) {
    const auto place = pins.map(each.name);
    const auto next = pins.map(each.name + beside);
    std::error_code error;
    if (bpf_obj_pin(fd_of(each), next.c_str()) != 0) {
      throw StartError(fmt::format("cannot pin the map {} ({})", next.string(), std::strerror(errno)));
    }
    std::filesystem::rename(next, place, error);
    if (error) {
      throw StartError(fmt::format("cannot pin the map {} ({})", place.string(), error.message()));
    }
  }
}

void pin_maps(bpf_object* object, const maps::Pins& pins) {
  std::error_code ignored;
  std::filesystem::remove(pins.map(scratch), ignored);  // of an earlier version, which pinned it
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
