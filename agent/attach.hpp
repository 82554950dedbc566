// Puts the loaded programs to their hooks and keeps them there: what is wanted against what is attached. Can
// be called again at any time; where nothing has changed it makes no attach call.
#pragma once

#include <linux/bpf.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "agent/config.hpp"
#include "agent/links.hpp"
#include "maps/map.hpp"

namespace lb::agent {

/// An outward device of this network namespace.
struct Device {
  std::string name;
  std::uint32_t index = 0;
};

struct SocketProgram {
  std::string name;  ///< of its hook: "connect4"
  int program = -1;
  bpf_attach_type type = BPF_CGROUP_INET4_CONNECT;
};

enum class TcBy : std::uint8_t { tcx, clsact };

/// Everything that shall be attached. A program that is not to run is -1.
struct AttachPlan {
  std::vector<SocketProgram> sockets;
  int cgroup = -1;              ///< file descriptor of the cgroup's directory
  std::uint64_t cgroup_id = 0;  ///< its inode number
  std::vector<Device> devices;
  TcBy tc_by = TcBy::tcx;
  int tc_in = -1;
  int tc_out = -1;
  XdpMode xdp_mode = XdpMode::automatic;
  int xdp = -1;
  int ports_map = -1;    ///< lb_ports
  int devices_map = -1;  ///< lb_devices
};

struct HookReport {
  std::string place;  ///< "eth0 ingress", "cgroup connect4"
  std::string means;  ///< "cgroup", "tcx", "clsact", "native", "generic"; empty where nothing is attached
  HookState state = HookState::failed;
  std::string problem;  ///< why it failed or was declined; empty otherwise
};

struct AttachReport {
  std::vector<HookReport> hooks;

  /// One sentence on the first hook that failed; empty if none did.
  [[nodiscard]] std::string failure() const;
  [[nodiscard]] std::size_t count(HookState state) const;
  /// "cgroup, 8 of 8 hooks", or "off".
  [[nodiscard]] std::string sockets_text() const;
  /// "eth0 tcx+native, eth1 tcx", or "off".
  [[nodiscard]] std::string packets_text() const;
};

class Attacher {
 public:
  /// `directory` holds the pinned links.
  explicit Attacher(std::string directory) : links_(std::move(directory)) {}

  /// Attaches what is missing, replaces in place what is old, detaches what is no longer wanted.
  [[nodiscard]] AttachReport attach(const AttachPlan& plan);

 private:
  void attach_sockets(const AttachPlan& plan, AttachReport& report);
  void attach_device(const AttachPlan& plan, const Device& device, AttachReport& report);
  void attach_tc(const AttachPlan& plan, const Device& device, AttachReport& report);
  void attach_xdp(const AttachPlan& plan, const Device& device, AttachReport& report);
  [[nodiscard]] boost::system::result<HookState> ensure(const LinkRequest& request);

  Links links_;
  std::set<std::string> wanted_;         ///< pins of this round
  std::set<std::uint32_t> with_xdp_;     ///< devices of this round that run XDP
  std::set<std::uint32_t> refused_xdp_;  ///< devices whose driver refused native XDP: not asked again
};

/// Takes our clsact filters from every device of this network namespace but those named.
void remove_clsact_filters(const std::set<std::uint32_t>& except);

}  // namespace lb::agent
