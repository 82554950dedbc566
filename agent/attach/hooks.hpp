// SPDX-License-Identifier: Apache-2.0
// The hooks to attach, and the result of attaching: types that the files of agent/attach share.
#pragma once

#include <linux/bpf.h>

#include <boost/system/result.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "agent/attach/device_kind.hpp"
#include "agent/attach/frame_addresses.hpp"
#include "agent/attach/hook_id.hpp"
#include "agent/options/config.hpp"
#include "agent/programs/links.hpp"
#include "agent/programs/tc_hook.hpp"

namespace lb::agent {

/// A device of this network namespace.
struct Device {
  std::string name;
  std::uint32_t index = 0;
  DeviceKind kind = {};
  bool operator==(const Device&) const = default;
};

/// A port of a bond by which the bond receives frames.
struct Port {
  std::uint32_t index = 0;
  std::uint32_t bond = 0;  ///< interface index
  DeviceKind kind = {};
};

struct SocketProgram {
  std::string name;  ///< hook name: "connect4"
  int program = -1;  ///< file descriptor, or left_out
  bpf_attach_type type = BPF_CGROUP_INET4_CONNECT;
};

/// All programs to attach; -1: not wanted, left_out: refused by the kernel.
struct AttachPlan {
  std::vector<SocketProgram> sockets;
  int cgroup = -1;              ///< file descriptor of the cgroup's directory
  std::uint64_t cgroup_id = 0;  ///< its inode number
  std::vector<Device> devices;  ///< the uplinks
  std::vector<Port> ports;      ///< of bonds: the kernel runs a bond's XDP program on these
  std::vector<Device> pods;     ///< host ends of pods' devices; none of `devices`
  TcAttachment tc_by = TcAttachment::tcx;
  int tc_in = -1;
  int tc_out = -1;
  int pod_in = -1;
  int pod_out = -1;
  XdpMode xdp_mode = XdpMode::automatic;
  int xdp = -1;
  FrameAddresses::Memory frame_addresses;  ///< of the program `xdp`
  int devmap = -1;                         ///< lb_devmap
  int devices_map = -1;                    ///< lb_devices
};

struct HookReport {
  HookId hook;
  /// "cgroup", "tcx", "clsact", "native", "generic"; empty if not attached
  std::string attach_type;
  HookState state = HookState::failed;
  std::string problem;  ///< why it failed or was declined; empty otherwise
};

struct AttachReport {
  std::vector<HookReport> hooks;
  std::vector<HookReport> pod_hooks;  ///< only those that changed or failed
  std::size_t pods = 0;               ///< number of served pods' devices
  TcAttachment tc_by = TcAttachment::tcx;

  /// A message about the first hook that failed; empty if none did. Pods' devices do not count: the node is
  /// served even if one of them fails.
  [[nodiscard]] std::string failure() const;
  [[nodiscard]] std::size_t count(HookState state) const;
  /// Features that are not used, with devices and reasons: one message for each reason.
  [[nodiscard]] std::vector<std::string> declined() const;
  /// Whether an uplink has no tc program, because the kernel refuses it.
  [[nodiscard]] bool uplinks_left_out() const;
  /// "cgroup, 8 of 8 hooks", or "off".
  [[nodiscard]] std::string sockets_text() const;
  /// Like failure(), for pods' devices.
  [[nodiscard]] std::string pod_failure() const;
  /// "eth0 tcx+native, eth1 tcx, 40 pods tcx", or "off".
  [[nodiscard]] std::string packets_text() const;
};

[[nodiscard]] HookReport report_of(HookId hook, std::string attach_type,
                                   const boost::system::result<AttachResult>& outcome);
/// Likewise for a hook whose program may be `left_out`.
[[nodiscard]] HookReport report_of_program(HookId hook, const std::string& attach_type, int program,
                                           const boost::system::result<AttachResult>& outcome);
[[nodiscard]] bool is_uplink(const AttachPlan& plan, std::uint32_t device);

}  // namespace lb::agent
