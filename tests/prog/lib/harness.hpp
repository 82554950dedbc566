// SPDX-License-Identifier: Apache-2.0
// The environment of a prog test: its own network namespace, the programs loaded into private, unpinned maps,
// and one call that runs a packet through a program. For tests/prog and bench only.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "maps/abi/abi.h"
#include "maps/abi/choices.h"
#include "maps/map.hpp"
#include "maps/mapped.hpp"

namespace lb::test {

using Bytes = std::vector<std::uint8_t>;
using LinkAddress = std::array<std::uint8_t, 6>;
using Counts = std::array<std::uint64_t, LB_OUTCOME_COUNT>;

enum class Hook : std::uint8_t { tc_in, tc_out, xdp, pod_in, pod_out };
inline constexpr std::array hooks = {Hook::tc_in, Hook::tc_out, Hook::xdp, Hook::pod_in, Hook::pod_out};

[[nodiscard]] std::string_view hook_name(Hook hook) noexcept;
[[nodiscard]] std::string_view outcome_name(std::size_t outcome) noexcept;
[[nodiscard]] std::optional<lb_outcome> outcome_named(std::string_view name) noexcept;
/// "new_remote+assured"; a name is repeated as often as it was counted, up to three times.
[[nodiscard]] std::string counts_text(const Counts& counts);

/// A new network namespace for the calling thread, with forwarding on and no addresses of its own; the
/// destructor returns to the old one, and the kernel removes the new one with all its devices.
class NetNamespace {
 public:
  NetNamespace();
  NetNamespace(const NetNamespace&) = delete;
  NetNamespace& operator=(const NetNamespace&) = delete;
  ~NetNamespace();

 private:
  maps::Fd before_;
};

/// Runs lines of `ip` in the thread's network namespace; throws an error with ip's message. `family`: 4 or 6;
/// 0: as each line's addresses say.
void run_ip(const std::string& lines, int family = 0);

/// Attaches an XDP program that does nothing: a test run may set a device's queue only while some program is
/// attached.
void attach_nothing(std::uint32_t device);
/// Replaces the attached XDP program by this one.
void attach_xdp(std::uint32_t device, int program);

/// Settings made before loading: the configuration and the sizes of the maps.
struct Settings {
  Settings();
  lb_config config{};
  lb_choices choices{.tc_fastpath = LB_YES, .xdp_fastpath = LB_YES, .egress_verdicts = LB_YES, .pad = 0};
  std::uint32_t flows = 4096;
  std::uint32_t unassured = 16384;
  std::uint32_t slots = 4096;
  std::uint32_t backends = 4096;
  bool refusing = false;  ///< lb_unassured refuses new entries when it is full, instead of evicting old ones
};

/// The parameters of a test run.
struct Run {
  Hook hook = Hook::tc_in;
  std::uint32_t device = 0;   ///< interface index of the packet's device
  std::uint32_t came_by = 0;  ///< tc: index of the device by which it arrived; 0: made here
  std::uint32_t repeat = 1;
  std::uint32_t flags = 0;                 ///< flags of bpf(BPF_PROG_TEST_RUN)
  std::uint32_t segment_size = 0;          ///< segment size of a GSO packet, tc only; 0: none
  std::uint32_t linear = 0;                ///< XDP: bytes before the fragments; 0: all
  std::array<std::uint32_t, 5> control{};  ///< tc: the packet's control buffer (skb->cb)
};

struct Verdict {
  int error = 0;  ///< errno of the system call, 0 if it ran
  std::uint32_t code = 0;
  std::uint32_t nanoseconds = 0;  ///< mean duration of one run
  Bytes packet;
  std::array<std::uint32_t, 5> control{};  ///< tc: the control buffer that the next program of the hook gets
  Counts counts{};                         ///< the increase of each outcome
};

/// A program's size according to the verifier.
struct Size {
  std::string name;
  std::uint32_t instructions = 0;  ///< instructions that the verifier processed
};

/// The loaded programs and their maps. Throws std::runtime_error if the kernel refuses them.
class Programs {
 public:
  explicit Programs(const Settings& settings);
  Programs(const Programs&) = delete;
  Programs& operator=(const Programs&) = delete;
  ~Programs();

  /// Runs a packet. A destination link address of zeros is replaced by the device's own address, and in the
  /// output that address is zeros again.
  Verdict run(const Run& run, std::span<const std::uint8_t> packet);
  /// Like run(), but does not read the counters: for two threads at once.
  Verdict shoot(const Run& run, std::span<const std::uint8_t> packet);
  [[nodiscard]] Counts counts() const;
  /// The program's file descriptor.
  [[nodiscard]] int program(Hook hook) const;
  /// The map's file descriptor; -1 if there is no such map.
  [[nodiscard]] int map(const char* name) const;
  /// The programs' own variable: until when mid-stream packets may open unassured flows.
  [[nodiscard]] std::uint32_t& midstream_until();
  /// Tells XDP the device's own address, as the agent does: XDP ignores frames for any other address.
  void set_frame_address(std::uint32_t device);
  /// The address found by set_frame_address().
  [[nodiscard]] const LinkAddress& link_address(std::uint32_t device) const { return addresses_.at(device); }

  maps::HashMap<lb_frontend_key, lb_frontend> frontends;
  maps::HashMap<lb_address_key, lb_address> addresses;
  maps::HashMap<std::uint32_t, lb_device> devices;
  maps::MappedArray<lb_service> services;
  maps::MappedArray<std::uint32_t> slots;
  maps::MappedArray<lb_backend> backends;
  maps::MappedArray<lb_node> node;
  maps::MappedArray<std::uint64_t> reserved;
  maps::HashMap<lb_flow4_key, lb_flow4> flows4;
  maps::HashMap<lb_flow6_key, lb_flow6> flows6;
  maps::HashMap<lb_flow4_key, lb_flow4> unassured4;
  maps::HashMap<lb_flow6_key, lb_flow6> unassured6;
  maps::HashMap<lb_affinity_key, lb_affinity> affinity;
  maps::HashMap<lb_range_key, lb_range> ranges;
  maps::HashMap<lb_fragment_key, lb_fragment> fragments;

 private:
  struct Skeleton;
  void open_maps();
  Verdict shoot_frame(const Run& run, std::span<const std::uint8_t> packet);

  std::unique_ptr<Skeleton> skeleton_;
  std::map<std::uint32_t, LinkAddress> addresses_;  ///< addresses found by set_frame_address()
};

/// Loads every program of the linked object that this kernel supports, socket programs too, with that
/// configuration as far as the kernel supports it.
[[nodiscard]] std::vector<Size> verify_all(const lb_config& config, const lb_choices& choices);

}  // namespace lb::test
