// SPDX-License-Identifier: Apache-2.0
// Queries programs and their maps from the kernel.
#include "agent/programs/program.hpp"

#include <bpf/bpf.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "agent/base/system_error.hpp"
#include "agent/programs/pinned_maps.hpp"
#include "maps/map.hpp"

namespace lb::agent {
namespace {

using boost::system::error_code;
using boost::system::generic_category;

// libbpf names the data sections of our object with the prefix "lb."; sections named by the compiler keep
// their name (".rodata.cst16"). None of our maps begins with either.
bool is_section(const maps::MapInfo& map) { return map.name.starts_with("lb.") || map.name.starts_with('.'); }

struct Section {
  std::vector<std::byte> content;
  bool operator==(const Section&) const = default;
};

/// The maps that two programs must share, and the configuration that must be equal. A map that is not pinned
/// is each load's own.
struct Bonds {
  std::vector<std::uint32_t> maps;
  std::vector<Section> constants;
  bool operator==(const Bonds&) const = default;
};

std::optional<Section> read_section(int fd, const maps::MapInfo& map) {
  Section section{std::vector<std::byte>(map.value_size)};
  constexpr std::uint32_t first = 0;
  if (maps::raw::get(fd, &first, section.content.data())) {
    return std::nullopt;
  }
  return section;
}

bool add_bond(Bonds& bonds, std::uint32_t id) {
  const maps::Fd fd(bpf_map_get_fd_by_id(id));
  const auto map = maps::map_info(fd.get());
  if (!map) {
    return false;
  }
  if (!is_section(*map)) {
    if (is_pinned_map(map->name)) {
      bonds.maps.push_back(id);
    }
    return true;
  }
  if ((map->flags & BPF_F_RDONLY_PROG) == 0) {
    return true;
  }
  auto section = read_section(fd.get(), *map);
  if (section) {
    bonds.constants.push_back(std::move(*section));
  }
  return section.has_value();
}

std::optional<Bonds> bonds_of(const ProgramInfo& program) {
  Bonds bonds;
  for (const auto id : program.maps) {
    if (!add_bond(bonds, id)) {
      return std::nullopt;
    }
  }
  std::ranges::sort(bonds.maps);
  return bonds;
}

}  // namespace

boost::system::result<ProgramInfo> program_info(int fd) {
  bpf_prog_info info{};
  std::uint32_t size = sizeof(info);
  if (bpf_prog_get_info_by_fd(fd, &info, &size) != 0) {
    return last_error();
  }
  ProgramInfo program{info.id, info.name, std::string(reinterpret_cast<const char*>(info.tag), BPF_TAG_SIZE),
                      std::vector<std::uint32_t>(info.nr_map_ids)};
  info = {};
  info.nr_map_ids = static_cast<std::uint32_t>(program.maps.size());
  info.map_ids = reinterpret_cast<std::uintptr_t>(program.maps.data());
  if (bpf_prog_get_info_by_fd(fd, &info, &size) != 0) {
    return last_error();
  }
  return program;
}

boost::system::result<ProgramInfo> program_info_of(std::uint32_t id) {
  const maps::Fd fd(bpf_prog_get_fd_by_id(id));
  if (!fd) {
    return last_error();
  }
  return program_info(fd.get());
}

bool same_program(std::uint32_t running, int loaded) {
  const auto one = program_info_of(running);
  const auto other = program_info(loaded);
  if (!one || !other || one->name != other->name || one->tag != other->tag) {
    return false;
  }
  const auto one_bonds = bonds_of(*one);
  return one_bonds && one_bonds == bonds_of(*other);
}

}  // namespace lb::agent
