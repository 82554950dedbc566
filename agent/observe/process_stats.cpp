// SPDX-License-Identifier: Apache-2.0
// Parses /proc/self/stat (proc(5)), whose second field may contain any character.
#include "agent/observe/process_stats.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <system_error>

#include "agent/base/read_file.hpp"

namespace lb::agent {
namespace {

/// Fields 3 to 24 of proc(5).
constexpr std::size_t first_field = 3;
using Fields = std::array<std::string, 22>;

std::optional<Fields> fields_of(const std::string& stat) {
  const auto name_end = stat.rfind(')');
  if (name_end == std::string::npos) {
    return std::nullopt;
  }
  std::istringstream words(stat.substr(name_end + 1));
  Fields fields;
  for (auto& field : fields) {
    if (!(words >> field)) {
      return std::nullopt;
    }
  }
  return fields;
}

std::uint64_t number(const Fields& fields, std::size_t field) {
  return std::strtoull(fields.at(field - first_field).c_str(), nullptr, 10);
}

/// Boot time in Unix seconds; 0 if /proc/stat does not have it.
double boot_time(const std::string& root) {
  std::istringstream lines(read_file(root + "/proc/stat"));
  for (std::string word; lines >> word;) {
    double seconds = 0;
    if (word == "btime" && lines >> seconds) {
      return seconds;
    }
  }
  return 0;
}

std::uint64_t open_descriptors(const std::string& root) {
  std::error_code error;
  const std::filesystem::directory_iterator all(root + "/proc/self/fd", error);
  return error ? 0 : static_cast<std::uint64_t>(std::distance(begin(all), end(all)));
}

}  // namespace

std::optional<ProcessStats> own_process(const std::string& root) {
  constexpr std::size_t utime = 14;
  constexpr std::size_t stime = 15;
  constexpr std::size_t starttime = 22;
  constexpr std::size_t vsize = 23;
  constexpr std::size_t rss = 24;
  const auto fields = fields_of(read_file(root + "/proc/self/stat"));
  if (!fields) {
    return std::nullopt;
  }
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  return ProcessStats{
      .cpu_seconds = static_cast<double>(number(*fields, utime) + number(*fields, stime)) / ticks,
      .start_time = boot_time(root) + static_cast<double>(number(*fields, starttime)) / ticks,
      .resident_bytes = number(*fields, rss) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)),
      .virtual_bytes = number(*fields, vsize),
      .open_descriptors = open_descriptors(root),
      .max_descriptors = descriptors.rlim_cur};
}

}  // namespace lb::agent
