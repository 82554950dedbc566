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

/// What later kernels than 6.1 have, and Sluice does without where it must.
enum class Feature : std::uint8_t {
  tcx,             ///< links for tc programs (6.6)
  fib_source,      ///< the FIB look-up says the source address (6.7)
  fib_mark,        ///< the FIB look-up knows packets' marks (6.10)
  csum_ipv6,       ///< checksum helpers that know IPv6 addresses (6.16)
  ct_lookup,       ///< programs can ask the kernel's conntrack
  socket_destroy,  ///< programs can end sockets (6.5)
  skb_sums,        ///< tc programs see how a packet is summed (6.2)
  sock_diag,       ///< sockets can be ended by netlink; asked for only where programs cannot
};
inline constexpr std::size_t feature_count = 8;

enum class FeatureState : std::uint8_t { present, absent, switched_off };

class Features {
 public:
  /// Tries each feature, except those whose names are in `without`. Throws StartError where the kernel does
  /// not show its types, without which libbpf loads none of our programs. After require_bpf().
  [[nodiscard]] static Features probe(const std::vector<std::string>& without);

  [[nodiscard]] FeatureState state(Feature feature) const noexcept;
  [[nodiscard]] bool usable(Feature feature) const noexcept;
  /// What is not used and what is used instead, as "tcx absent: clsact; …"; empty where all is there.
  [[nodiscard]] std::string missing() const;
  /// Has the kernel the tracepoints of frames that XDP sends and loses, with their types?
  [[nodiscard]] bool reports_sent_frames() const noexcept { return reports_sent_frames_; }

 private:
  [[nodiscard]] bool needs(Feature feature) const noexcept;

  std::array<FeatureState, feature_count> states_{};
  bool reports_sent_frames_ = false;
};

/// As --without and `status` call it.
[[nodiscard]] std::string_view feature_name(Feature feature);
/// What is used instead, as `status` calls it.
[[nodiscard]] std::string_view feature_fallback(Feature feature);
/// What has it: "Linux 6.6".
[[nodiscard]] std::string_view feature_source(Feature feature);

/// Throws StartError where the kernel refuses to load even the smallest program to this process, or would
/// refuse ours.
void require_bpf(const Privileges& privileges);

/// Throws StartError where the kernel lacks what Sluice cannot do without. After require_bpf(), as what
/// follows.
void require_kernel();

/// Throws StartError where programs are not compiled.
void require_jit();

/// Throws StartError where tc programs cannot be attached without TCX; what it tries it tries in a network
/// namespace of its own. The kernel may load its modules for that, as it would at the start.
void require_clsact();

/// Timer ticks a second, measured against the clock in about a tenth of a second. Throws StartError.
[[nodiscard]] std::uint32_t measure_hertz();

/// The usual timer frequency next to `measured` ticks a second; 0 if none is within a twentieth of it.
[[nodiscard]] std::uint32_t usual_hertz(double measured);

}  // namespace lb::agent
