// The privileges of this process, and why the kernel refuses bpf() to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lb::agent {

enum class Namespace : std::uint8_t { initial, other };

struct Privileges {
  std::uint64_t capabilities = 0;       ///< effective ones, as CapEff of /proc/self/status
  bool filtered = false;                ///< a seccomp filter looks at system calls
  Namespace user = Namespace::initial;  ///< whose capabilities count for bpf() only where it is the first
  std::optional<int> unprivileged_off;  ///< kernel.unprivileged_bpf_disabled
  std::string modules;                  ///< security modules, as /sys/kernel/security/lsm lists them
  bool operator==(const Privileges&) const = default;
};

/// `root` is "" but in tests.
[[nodiscard]] Privileges own_privileges(const std::string& root);

/// CAP_SYS_ADMIN includes some others.
[[nodiscard]] bool has_capability(const Privileges& privileges, int capability);

/// Of those that the agent needs: "CAP_BPF, CAP_PERFMON"; empty: it has all.
[[nodiscard]] std::string lacking_capabilities(const Privileges& privileges);

struct Refusal {
  std::string found;
  std::string advice;
};

/// Why the kernel answers bpf() with that errno value.
[[nodiscard]] Refusal bpf_refusal(const Privileges& privileges, int error);

}  // namespace lb::agent
