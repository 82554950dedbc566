// SPDX-License-Identifier: Apache-2.0
// Whether the kernel is built with PREEMPT_RT, and what tasks of one CPU then do to one another while they
// process packets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lb::agent {

enum class Preemption : std::uint8_t {
  none,         ///< no PREEMPT_RT
  serialized,   ///< PREEMPT_RT with a lock that keeps other tasks of the CPU out while bottom halves are off
  interleaved,  ///< PREEMPT_RT without that lock (no PREEMPT_RT_NEEDS_BH_LOCK): tasks interleave
  unknown,      ///< PREEMPT_RT of a kernel that may have the lock or not, and does not show its configuration
};

/// How a kernel describes itself.
struct KernelBuild {
  std::string release;  ///< uname -r
  std::string version;  ///< uname -v
  std::string config;   ///< the file with the build's configuration; empty if there is none
};
/// The running kernel, with the configuration that distributions keep in /boot or below /lib/modules.
[[nodiscard]] KernelBuild running_kernel();

/// For people: programs are loaded for interleaved tasks on every kernel with PREEMPT_RT. Kernels before 6.18
/// always have the lock.
[[nodiscard]] Preemption preemption_of(const KernelBuild& kernel);
/// The word for it in JSON.
[[nodiscard]] std::string_view preemption_name(Preemption preemption);
/// What it means for Sluice.
[[nodiscard]] std::string_view preemption_text(Preemption preemption);

/// Whether a kernel's description of its build (uname -v) says PREEMPT_RT.
[[nodiscard]] bool has_realtime(std::string_view version);

}  // namespace lb::agent
