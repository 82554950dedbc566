// SPDX-License-Identifier: Apache-2.0
// The privileges of this process, and why the kernel refuses bpf() to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lb::agent {

enum class Namespace : std::uint8_t { initial, other };

struct Privileges {
  std::uint64_t capabilities = 0;       ///< effective capabilities, as CapEff of /proc/self/status
  bool filtered = false;                ///< a seccomp filter checks system calls
  Namespace user = Namespace::initial;  ///< bpf() requires capabilities in the initial user namespace
  std::optional<int> unprivileged_off;  ///< kernel.unprivileged_bpf_disabled
  std::string modules;                  ///< Linux security modules, as in /sys/kernel/security/lsm
  bool operator==(const Privileges&) const = default;
};

/// `root` is "" except in tests.
[[nodiscard]] Privileges own_privileges(const std::string& root);

/// Whether the process has the capability; CAP_SYS_ADMIN includes some others.
[[nodiscard]] bool has_capability(const Privileges& privileges, int capability);

/// Missing capabilities of those that the agent needs: "CAP_BPF, CAP_PERFMON"; empty: none.
[[nodiscard]] std::string lacking_capabilities(const Privileges& privileges);

struct Refusal {
  std::string found;
  std::string advice;
};

/// Why bpf() fails with that errno value.
[[nodiscard]] Refusal bpf_refusal(const Privileges& privileges, int error);

}  // namespace lb::agent
