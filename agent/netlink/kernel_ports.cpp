// SPDX-License-Identifier: Apache-2.0
// Parses two files of /proc/sys, and subtracts port ranges.
#include "agent/netlink/kernel_ports.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "agent/base/read_file.hpp"

namespace lb::agent {
namespace {

constexpr unsigned enough_ports = 1000;

/// Parses a number at the front of `text` and removes it.
std::optional<std::uint16_t> take_port(std::string_view& text) {
  std::uint16_t port = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{}) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  return port;
}

std::optional<PortRange> take_range(std::string_view text, std::string_view between) {
  const auto first = take_port(text);
  if (first && text.empty()) {
    return PortRange{*first, *first};
  }
  const auto start = text.find_first_not_of(between);
  if (!first || start == 0 || start == std::string_view::npos) {
    return std::nullopt;
  }
  text.remove_prefix(start);
  const auto last = take_port(text);
  return last && *last >= *first ? std::optional(PortRange{*first, *last}) : std::nullopt;
}

unsigned count(const PortRange& range) { return range.last == 0 ? 0U : range.last - range.first + 1U; }

unsigned count_all(const std::vector<PortRange>& ranges) {
  unsigned total = 0;
  for (const auto& range : ranges) {
    total += count(range);
  }
  return total;
}

bool apart(const PortRange& one, const PortRange& other) {
  return one.last < other.first || other.last < one.first;
}

/// `range` without `hole`: at most two ranges.
std::vector<PortRange> without(const PortRange& range, const PortRange& hole) {
  if (hole.last == 0 || apart(range, hole)) {
    return {range};
  }
  std::vector<PortRange> left;
  if (range.first < hole.first) {
    left.push_back({range.first, static_cast<std::uint16_t>(hole.first - 1)});
  }
  if (range.last > hole.last) {
    left.push_back({static_cast<std::uint16_t>(hole.last + 1), range.last});
  }
  return left;
}

void set_bits(std::array<std::uint64_t, LB_RESERVED_WORDS>& bits, const PortRange& range) {
  for (std::uint32_t port = range.first; port <= range.last && range.last != 0; ++port) {
    bits.at(port / 64) |= std::uint64_t{1} << port % 64;
  }
}

}  // namespace

std::vector<PortRange> parse_port_list(std::string_view text) {
  std::vector<PortRange> ranges;
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of(",\n"), text.size());
    if (const auto range = take_range(text.substr(0, end), "-")) {
      ranges.push_back(*range);
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return ranges;
}

KernelPorts read_kernel_ports() {
  const auto range = read_file("/proc/sys/net/ipv4/ip_local_port_range");
  const auto reserved = read_file("/proc/sys/net/ipv4/ip_local_reserved_ports");
  return {.ephemeral = take_range(range, " \t").value_or(PortRange{}), .reserved = parse_port_list(reserved)};
}

std::vector<PortRange> source_ports(const std::vector<PortRange>& wanted, const KernelPorts& kernel) {
  std::vector<PortRange> left;
  for (const auto& range : wanted) {
    std::ranges::copy(without(range, kernel.ephemeral), std::back_inserter(left));
  }
  std::ranges::sort(left, std::ranges::greater{}, count);
  left.resize(std::min<std::size_t>(left.size(), 2));
  std::ranges::sort(left, {}, &PortRange::first);
  return count_all(left) < std::min(enough_ports, count_all(wanted)) ? wanted : left;
}

std::array<std::uint64_t, LB_RESERVED_WORDS> reserved_bits(const std::vector<PortRange>& chosen,
                                                           const KernelPorts& kernel) {
  std::array<std::uint64_t, LB_RESERVED_WORDS> bits{};
  for (const auto& range : kernel.reserved) {
    set_bits(bits, range);
  }
  const bool outside =
      std::ranges::all_of(chosen, [&](const auto& range) { return apart(range, kernel.ephemeral); });
  if (outside) {
    set_bits(bits, kernel.ephemeral);
  }
  return bits;
}

}  // namespace lb::agent
