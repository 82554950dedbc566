// SPDX-License-Identifier: Apache-2.0
// Shared by the attach tests: the pinned links, one start of the datapath, a pair of devices.
#pragma once

#include <linux/bpf.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/datapath/datapath.hpp"
#include "tests/net/lib/lab.hpp"

namespace lb::test {

inline constexpr std::size_t socket_hooks = 8;

struct LinkState {
  std::uint32_t id = 0;
  std::uint32_t program = 0;
  auto operator<=>(const LinkState&) const = default;
};

/// All pinned links by name.
[[nodiscard]] std::map<std::string, LinkState> links(const Lab& lab);

/// Only the links' ids.
[[nodiscard]] std::map<std::string, std::uint32_t> ids(const std::map<std::string, LinkState>& all);

/// Opens and attaches the datapath and closes it, as an agent does that ends at once.
agent::AttachReport start(const agent::AgentOptions& options);

/// How this kernel attaches tc programs with these options, in AttachReport's terms: "tcx" or "clsact".
[[nodiscard]] std::string tc_type(const agent::AgentOptions& options);

/// The names of the programs at a device's TCX hook, in order; empty on a kernel without TCX.
[[nodiscard]] std::vector<std::string> tcx_programs(const char* device, bpf_attach_type side);

/// Where the kernel runs a program: at TCX or XDP of eth0, or at the lab's cgroup, and the program's name, as
/// "eth0 ingress: lb_tc_in". Without TCX also "clsact" if eth0 has one.
[[nodiscard]] std::vector<std::string> programs_in_use(const Lab& lab);

/// A tc program of another owner, which passes every packet on.
[[nodiscard]] maps::Fd foreign_program();

/// A lab with a veth pair; "eth0" is served by tc only, "peer0" is its peer.
struct DeviceLab {
  DeviceLab();
  static void make_device();

  Lab lab;
  agent::AgentOptions options;
};

}  // namespace lb::test
