// SPDX-License-Identifier: Apache-2.0
// Reads uname, and the configuration only of kernels with PREEMPT_RT.
#include "agent/programs/preemption.hpp"

#include <sys/utsname.h>

#include <charconv>
#include <initializer_list>
#include <string>
#include <utility>

#include "agent/base/read_file.hpp"

namespace lb::agent {
namespace {

/// Major and minor version; 0.0 for a release that does not begin with numbers.
std::pair<unsigned, unsigned> version_of(std::string_view release) {
  std::pair<unsigned, unsigned> version;
  const auto* end = release.data() + release.size();
  const auto [dot, error] = std::from_chars(release.data(), end, version.first);
  if (error != std::errc{} || dot == end || *dot != '.') {
    return {};
  }
  std::from_chars(dot + 1, end, version.second);
  return version;
}

std::string config_of(const std::string& release) {
  for (const auto& path : {"/boot/config-" + release, "/lib/modules/" + release + "/config"}) {
    if (auto config = read_file(path); !config.empty()) {
      return config;
    }
  }
  return {};
}

}  // namespace

KernelBuild running_kernel() {
  utsname kernel{};
  if (::uname(&kernel) != 0) {
    return {};
  }
  KernelBuild build{kernel.release, kernel.version, {}};
  if (has_realtime(build.version)) {
    build.config = config_of(build.release);
  }
  return build;
}

/// A configuration names every option that the kernel has, also those that are not set.
Preemption preemption_of(const KernelBuild& kernel) {
  constexpr std::pair optional_since = {6U, 18U};
  if (!has_realtime(kernel.version)) {
    return Preemption::none;
  }
  if (kernel.config.find("# CONFIG_PREEMPT_RT_NEEDS_BH_LOCK is not set") != std::string::npos) {
    return Preemption::interleaved;
  }
  const auto version = version_of(kernel.release);
  const bool is_older = version.first != 0 && version < optional_since;
  return is_older || !kernel.config.empty() ? Preemption::serialized : Preemption::unknown;
}

std::string_view preemption_name(Preemption preemption) {
  switch (preemption) {
    case Preemption::none:
      return "none";
    case Preemption::serialized:
      return "serialized";
    case Preemption::interleaved:
      return "interleaved";
    case Preemption::unknown:
      break;
  }
  return "unknown";
}

std::string_view preemption_text(Preemption preemption) {
  switch (preemption) {
    case Preemption::none:
      return "no PREEMPT_RT";
    case Preemption::serialized:
      return "PREEMPT_RT, bottom halves serialized on each CPU: XDP asks for a route for every packet";
    case Preemption::interleaved:
      return "PREEMPT_RT, tasks interleave on a CPU: XDP asks for a route for every packet; a packet that "
             "preempts another one's processing is dropped in one of 16 cases (scratch_busy)";
    case Preemption::unknown:
      break;
  }
  return "PREEMPT_RT, tasks may interleave on a CPU (neither /boot nor /lib/modules has the configuration): "
         "XDP asks for a route for every packet; a packet that preempts another one's processing is dropped "
         "in one of 16 cases (scratch_busy)";
}

bool has_realtime(std::string_view version) { return version.find("PREEMPT_RT") != std::string_view::npos; }

}  // namespace lb::agent
