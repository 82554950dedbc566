// What is to be attached, and the result of attaching: types that the files of agent/attach share.
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

/// A device by which a bond takes frames.
struct Port {
  std::uint32_t index = 0;
  std::uint32_t bond = 0;  ///< interface index
  DeviceKind kind = {};
};

struct SocketProgram {
  std::string name;  ///< of its hook: "connect4"
  int program = -1;
  bpf_attach_type type = BPF_CGROUP_INET4_CONNECT;
};

/// Everything that shall be attached. A program that is not to run is -1.
struct AttachPlan {
  std::vector<SocketProgram> sockets;
  int cgroup = -1;              ///< file descriptor of the cgroup's directory
  std::uint64_t cgroup_id = 0;  ///< its inode number
  std::vector<Device> devices;  ///< uplink
  std::vector<Port> ports;      ///< of bonds: the kernel runs a bond's XDP program on these
  std::vector<Device> pods;     ///< the host's ends of pods' devices; none of `devices`
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
  /// "cgroup", "tcx", "clsact", "native", "generic"; empty where nothing is attached
  std::string attach_type;
  HookState state = HookState::failed;
  std::string problem;  ///< why it failed or was declined; empty otherwise
};

struct AttachReport {
  std::vector<HookReport> hooks;
  std::vector<HookReport> pod_hooks;  ///< only those that changed or failed
  std::size_t pods = 0;               ///< devices of pods that are served
  TcAttachment tc_by = TcAttachment::tcx;

  /// One sentence on the first hook that failed; empty if none did. Pods' devices do not count: one that
  /// fails is no reason not to serve.
  [[nodiscard]] std::string failure() const;
  [[nodiscard]] std::size_t count(HookState state) const;
  /// What is not used where, and why: a sentence a reason.
  [[nodiscard]] std::vector<std::string> declined() const;
  /// "cgroup, 8 of 8 hooks", or "off".
  [[nodiscard]] std::string sockets_text() const;
  /// The same of pods' devices.
  [[nodiscard]] std::string pod_failure() const;
  /// "eth0 tcx+native, eth1 tcx, 40 pods tcx", or "off".
  [[nodiscard]] std::string packets_text() const;
};

[[nodiscard]] HookReport report_of(HookId hook, std::string attach_type,
                                   const boost::system::result<AttachResult>& outcome);
[[nodiscard]] bool is_uplink(const AttachPlan& plan, std::uint32_t device);

}  // namespace lb::agent
