#include "agent/netlink/default_devices.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

namespace lb::agent {
namespace {

std::vector<std::vector<std::string>> rows(std::string_view text) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    rows.emplace_back(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
  }
  return rows;
}

bool all_zero(std::string_view digits) { return digits.find_first_not_of('0') == std::string_view::npos; }

/// Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
bool is_default_ipv4(const std::vector<std::string>& row) {
  return row.size() >= 8 && row[0] != "*" && all_zero(row[1]) && all_zero(row[7]);
}

/// Destination, its prefix length, source, its length, next hop, metric, reference count, use, flags, device.
/// The kernel's route that refuses what has none is a default route of lo.
bool is_default_ipv6(const std::vector<std::string>& row) {
  return row.size() >= 10 && all_zero(row[0]) && all_zero(row[1]) && row[9] != "lo";
}

std::string read(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

std::string default_route_devices(std::string_view ipv4, std::string_view ipv6) {
  std::vector<std::string> devices;
  const auto add = [&devices](const std::string& name) {
    if (std::ranges::find(devices, name) == devices.end()) devices.push_back(name);
  };
  for (const auto& row : rows(ipv4)) {
    if (is_default_ipv4(row)) add(row[0]);
  }
  for (const auto& row : rows(ipv6)) {
    if (is_default_ipv6(row)) add(row[9]);
  }
  std::string text;
  for (const auto& name : devices) text += (text.empty() ? "" : ",") + name;
  return text;
}

std::string default_route_devices() {
  return default_route_devices(read("/proc/net/route"), read("/proc/net/ipv6_route"));
}

}  // namespace lb::agent
