// SPDX-License-Identifier: Apache-2.0
// Opens pins by name and describes errors.
#include "maps/mapset.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

namespace lb::maps {

namespace fs = std::filesystem;

namespace {

std::optional<std::uint32_t> layout_of(const std::string& directory) {
  std::uint32_t layout = 0;
  const char* end = directory.data() + directory.size();
  if (directory.size() < 2 || directory[0] != 'v') {
    return std::nullopt;
  }
  const auto [rest, error] = std::from_chars(directory.data() + 1, end, layout);
  if (error != std::errc{} || rest != end) {
    return std::nullopt;
  }
  return layout;
}

result<Fd> get_pinned(const fs::path& path, Access access) {
  struct bpf_obj_get_opts options{};
  options.sz = sizeof(options);
  options.file_flags = access == Access::read ? BPF_F_RDONLY : 0;
  const int fd = bpf_obj_get_opts(path.c_str(), &options);
  if (fd < 0) {
    return error_code{errno, boost::system::generic_category()};
  }
  return Fd(fd);
}

OpenError classify(const fs::path& path, const error_code& error) {
  using boost::system::errc::message_size;
  using boost::system::errc::no_such_file_or_directory;
  OpenFault fault = OpenFault::refused;
  if (error == no_such_file_or_directory) {
    fault = OpenFault::missing;
  }
  if (error == message_size) {
    fault = OpenFault::mismatch;
  }
  return {.fault = fault, .where = path.string(), .cause = error};
}

/// Opens one after the other and keeps the first error.
class Opener {
 public:
  Opener(const Pins& pins, Access access) : pins_(pins), access_(access) {}

  Opener& open(std::string_view name, Fd& into) {
    return take(name, access_, into, [](Fd fd) { return result<Fd>(std::move(fd)); });
  }
  template <class Key, class Value>
  Opener& open(std::string_view name, HashMap<Key, Value>& into) {
    return take(name, access_, into, [](Fd fd) { return HashMap<Key, Value>::open(std::move(fd)); });
  }
  /// The kernel does not map memory of a read-only descriptor (EINVAL): the mapping itself is read-only.
  template <class T>
  Opener& open(std::string_view name, MappedArray<T>& into) {
    return take(name, Access::write, into,
                [this](Fd fd) { return MappedArray<T>::open(std::move(fd), access_); });
  }
  [[nodiscard]] const std::optional<OpenError>& error() const noexcept { return error_; }

 private:
  template <class T, class View>
  Opener& take(std::string_view name, Access descriptor, T& into, View view) {
    if (error_) {
      return *this;
    }
    const fs::path path = pins_.map(name);
    auto fd = get_pinned(path, descriptor);
    auto opened = fd ? view(std::move(*fd)) : result<T>(fd.error());
    if (opened) {
      into = std::move(*opened);
    } else {
      error_ = classify(path, opened.error());
    }
    return *this;
  }

  const Pins& pins_;
  Access access_;
  std::optional<OpenError> error_;
};

std::optional<OpenError> check_directory(const Pins& pins) {
  std::error_code ignored;
  if (fs::is_directory(pins.maps(), ignored)) {
    return std::nullopt;
  }
  OpenError error{.fault = OpenFault::nothing_here, .where = pins.base().string(), .cause = {}};
  error.layout = pins.other_layout();
  if (error.layout != 0) {
    error.fault = OpenFault::other_layout;
  }
  return error;
}

}  // namespace

Pins::Pins(fs::path base, std::uint32_t layout) : base_(std::move(base)), layout_(layout) {}

fs::path Pins::version() const { return base_ / fmt::format("v{}", layout_); }

std::vector<std::uint32_t> Pins::other_layouts() const {
  std::vector<std::uint32_t> others;
  std::error_code error;
  for (fs::directory_iterator at(base_, error), end; !error && at != end; at.increment(error)) {
    const auto layout = layout_of(at->path().filename().string());
    if (layout && *layout != layout_) {
      others.push_back(*layout);
    }
  }
  std::ranges::sort(others);
  return others;
}

std::uint32_t Pins::other_layout() const {
  const auto others = other_layouts();
  return others.empty() ? 0 : others.back();
}

std::string OpenError::message() const {
  switch (fault) {
    case OpenFault::nothing_here:
      return fmt::format("no Sluice at {}: start `sluice agent`, or give its --pins directory", where);
    case OpenFault::other_layout:
      return fmt::format(
          "the maps at {} have layout {}, this program reads layout {}: use the sluice that made them", where,
          layout, LB_LAYOUT);
    case OpenFault::missing:
      return fmt::format("the map {} is missing: restart `sluice agent`, which makes it again", where);
    case OpenFault::mismatch:
      return fmt::format(
          "the map {} was made by another build with the same layout number: use that build's sluice", where);
    case OpenFault::refused:
      break;
  }
  return fmt::format("cannot open the map {}: {}{}", where, cause.message(),
                     cause.value() == EPERM || cause.value() == EACCES ? "; run as root" : "");
}

Opened<MapSet> MapSet::open(const Pins& pins, Access access) {
  if (auto error = check_directory(pins)) {
    return *error;
  }
  MapSet set;
  Opener opener(pins, access);
  opener.open("lb_frontends", set.frontends)
      .open("lb_addresses", set.addresses)
      .open("lb_ranges", set.ranges)
      .open("lb_names", set.names)
      .open("lb_services", set.services)
      .open("lb_slots", set.slots)
      .open("lb_backends", set.backends)
      .open("lb_node", set.node)
      .open("lb_reserved", set.reserved)
      .open("lb_flows4", set.flows4)
      .open("lb_flows6", set.flows6)
      .open("lb_unassured4", set.unassured4)
      .open("lb_unassured6", set.unassured6)
      .open("lb_affinity", set.affinity)
      .open("lb_stats", set.stats_);
  if (opener.error()) {
    return *opener.error();
  }
  return set;
}

void MapSet::unmap() noexcept {
  services.unmap();
  slots.unmap();
  backends.unmap();
}

Store MapSet::store() {
  return {.frontends = frontends,
          .addresses = addresses,
          .ranges = ranges,
          .names = names,
          .services = services,
          .slots = slots,
          .backends = backends,
          .reserved = reserved};
}

result<lb_stats> MapSet::stats() const {
  const int processors = libbpf_num_possible_cpus();
  if (processors < 0) {
    return error_code{-processors, boost::system::generic_category()};
  }
  std::vector<lb_stats> parts(static_cast<std::size_t>(processors));
  const std::uint32_t zero = 0;
  if (auto error = raw::get(stats_.get(), &zero, parts.data())) {
    return error;
  }
  std::array<std::uint64_t, LB_OUTCOME_COUNT> sums{};
  static_assert(sizeof(sums) == sizeof(lb_stats));
  for (const lb_stats& part : parts) {
    std::array<std::uint64_t, LB_OUTCOME_COUNT> counts;
    std::memcpy(counts.data(), &part, sizeof(part));
    for (std::size_t at = 0; at < sums.size(); ++at) {
      sums[at] += counts[at];
    }
  }
  lb_stats total;
  std::memcpy(&total, sums.data(), sizeof(total));
  return total;
}

}  // namespace lb::maps
