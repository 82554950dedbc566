// SPDX-License-Identifier: Apache-2.0
// Reads and writes the sysctls in /proc/sys/net/netfilter.
#include "agent/netlink/conntrack.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "maps/map.hpp"

namespace lb::agent {
namespace {

constexpr std::uint64_t max_entries = 1U << 20;
constexpr std::uint64_t entries_per_bucket = 4;

/// Reads and writes numeric sysctl files, and collects failures.
class Settings {
 public:
  explicit Settings(std::string directory) : directory_(std::move(directory)) {}

  [[nodiscard]] std::optional<std::uint64_t> read(const std::string& name) {
    std::uint64_t value = 0;
    errno = 0;
    if (std::ifstream file(path(name)); file >> value) {
      return value;
    }
    fail(name);
    return std::nullopt;
  }

  /// Writes the file only if its value differs.
  void set(const std::string& name, std::uint64_t value) {
    if (const auto now = read(name); now && *now != value && !write(name, value)) {
      fail(name, *now, value);
    }
  }

  /// Writes the file only if its value is lower.
  void raise(const std::string& name, std::uint64_t value) {
    if (const auto now = read(name); now && *now < value && !write(name, value)) {
      fail(name, *now, value);
    }
  }

  [[nodiscard]] std::string problem() const {
    return failures_.empty()
               ? std::string()
               : fmt::format("cannot set conntrack: {}; see --conntrack-dir", fmt::join(failures_, "; "));
  }

 private:
  [[nodiscard]] std::string path(const std::string& name) const { return directory_ + "/" + name; }

  [[nodiscard]] bool write(const std::string& name, std::uint64_t value) const {
    const maps::Fd file(::open(path(name).c_str(), O_WRONLY | O_CLOEXEC | O_TRUNC));
    const auto line = fmt::format("{}\n", value);
    return file && ::write(file.get(), line.data(), line.size()) >= 0;
  }

  void fail(const std::string& name) { failures_.push_back(fmt::format("{}: {}", path(name), reason())); }
  void fail(const std::string& name, std::uint64_t now, std::uint64_t wanted) {
    failures_.push_back(fmt::format("{} is {} and not {}: {}", path(name), now, wanted, reason()));
  }

  /// The text of errno; EINVAL for a file whose content is not a number, which leaves errno 0.
  static std::string reason() { return std::generic_category().message(errno == 0 ? EINVAL : errno); }

  std::string directory_;
  std::vector<std::string> failures_;
};

}  // namespace

unsigned online_cpus() { return static_cast<unsigned>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN))); }

std::uint64_t conntrack_max(const ConntrackSettings& settings, unsigned cpus) {
  if (settings.max_per_core == 0) {
    return 0;
  }
  const auto scaled = std::uint64_t{settings.max_per_core} * cpus;
  return std::min(std::max(scaled, std::uint64_t{settings.min}), max_entries);
}

std::string conntrack_lack(const ConntrackSettings& settings) {
  return fmt::format(
      "nf_conntrack is not loaded ({} is not there): its settings stay as they are, and source "
      "ports are not kept from its connections",
      settings.directory);
}

bool has_conntrack(const ConntrackSettings& settings) {
  std::error_code error;
  return std::filesystem::exists(settings.directory + "/nf_conntrack_max", error);
}

std::string set_conntrack(const ConntrackSettings& settings, unsigned cpus) {
  Settings files(settings.directory);
  if (const auto max = conntrack_max(settings, cpus); max != 0) {
    files.raise("nf_conntrack_max", max);
    files.raise("nf_conntrack_buckets", max / entries_per_bucket);
  }
  const auto set_seconds = [&](const char* name, std::uint32_t seconds) {
    if (seconds != 0) {
      files.set(name, seconds);
    }
  };
  set_seconds("nf_conntrack_tcp_timeout_established", settings.established);
  set_seconds("nf_conntrack_tcp_timeout_close_wait", settings.close_wait);
  set_seconds("nf_conntrack_udp_timeout", settings.udp);
  set_seconds("nf_conntrack_udp_timeout_stream", settings.udp_stream);
  if (settings.window == TcpWindow::liberal) {
    files.set("nf_conntrack_tcp_be_liberal", 1);
  }
  const auto problem = files.problem();
  return problem.empty() || has_conntrack(settings)
             ? problem
             : fmt::format("{}; {}", conntrack_lack(settings), load_conntrack);
}

}  // namespace lb::agent
