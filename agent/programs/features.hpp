// SPDX-License-Identifier: Apache-2.0
// The features of this kernel: probed, never derived from its version. Needs the privileges of the agent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/privileges.hpp"

namespace lb::agent {

/// Features of kernels after 6.1, and parts of the programs, each of which Sluice can do without.
enum class Feature : std::uint8_t {
  tcx,               ///< links for tc programs (6.6)
  fib_source,        ///< the FIB lookup returns the source address (6.7)
  fib_mark,          ///< the FIB lookup uses packets' marks (6.10)
  csum_ipv6,         ///< checksum helpers support IPv6 addresses (6.16)
  ct_lookup,         ///< programs can look up conntrack entries
  socket_destroy,    ///< programs can destroy sockets (6.5)
  skb_sums,          ///< tc programs see a packet's checksum state (6.2)
  sock_diag,         ///< sock_diag can destroy sockets
  storage_iterator,  ///< programs can iterate over sockets' storage
  socket_reconnect,  ///< sockets of other processes can be connected again
  tc_fastpath,       ///< tc handles most packets by the fast path
  xdp_fastpath,      ///< XDP likewise
  egress_verdicts,   ///< tc egress decides about what leaves for services untranslated
};
inline constexpr std::size_t feature_count = 13;

/// `refused`: the kernel refuses a program that uses it, and accepts the program without it.
enum class FeatureState : std::uint8_t { present, absent, switched_off, refused };

class Features {
 public:
  /// Probes each feature, except those whose names are in `without`. Throws StartError if the kernel has no
  /// BTF, without which libbpf loads none of our programs. Call after require_bpf().
  [[nodiscard]] static Features probe(const std::vector<std::string>& without);

  [[nodiscard]] FeatureState state(Feature feature) const noexcept;
  [[nodiscard]] bool usable(Feature feature) const noexcept;
  /// The same without that feature, which the kernel refuses.
  [[nodiscard]] Features refused(Feature feature) const;
  /// What is used instead of that feature, in `status`.
  [[nodiscard]] std::string_view fallback(Feature feature) const;
  /// Unused features and their fallbacks, as "tcx absent: clsact; …"; empty if all are present.
  [[nodiscard]] std::string missing() const;
  /// Whether the kernel has the tracepoints of frames that XDP transmits and drops, with their types.
  [[nodiscard]] bool reports_sent_frames() const noexcept { return reports_sent_frames_; }

 private:
  std::array<FeatureState, feature_count> states_{};
  bool reports_sent_frames_ = false;
};

/// Whether the kernel is built with PREEMPT_RT, where tasks interleave on a CPU while they process packets:
/// its description of the build says so.
[[nodiscard]] bool is_realtime();

/// The name in --without and `status`.
[[nodiscard]] std::string_view feature_name(Feature feature);
/// The kernel that introduced it: "Linux 6.6".
[[nodiscard]] std::string_view feature_source(Feature feature);

/// Throws StartError if this process cannot load even the smallest program, or could not load ours.
void require_bpf(const Privileges& privileges);

/// Throws StartError if the kernel lacks a feature that Sluice needs. Call this and the following functions
/// after require_bpf().
void require_kernel();

/// Throws StartError if the kernel does not compile programs (JIT).
void require_jit();

/// Throws StartError if tc programs cannot be attached without TCX; tests that in its own network namespace.
/// The kernel may load modules for it, as at the start.
void require_clsact();

/// Timer ticks per second, measured against the clock in about a tenth of a second. Throws StartError.
[[nodiscard]] std::uint32_t measure_hertz();

/// The usual timer frequency closest to `measured` ticks per second; 0 if none is within a twentieth of it.
[[nodiscard]] std::uint32_t usual_hertz(double measured);

}  // namespace lb::agent
