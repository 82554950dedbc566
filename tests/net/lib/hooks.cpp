// SPDX-License-Identifier: Apache-2.0
// Reads pinned links as any other program could.
#include "tests/net/lib/hooks.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <stdexcept>

#include "agent/programs/program.hpp"

namespace lb::test {

std::map<std::string, LinkState> links(const Lab& lab) {
  std::map<std::string, LinkState> found;
  for (const auto& entry : std::filesystem::directory_iterator(maps::Pins(lab.pins()).links())) {
    if (entry.is_directory()) {
      continue;  // a note, which is a directory, not a link
    }
    const maps::Fd link(bpf_obj_get(entry.path().c_str()));
    bpf_link_info info{};
    std::uint32_t size = sizeof(info);
    if (bpf_link_get_info_by_fd(link.get(), &info, &size) != 0) {
      throw std::runtime_error("cannot read the link " + entry.path().string());
    }
    found[entry.path().filename().string()] = {info.id, info.prog_id};
  }
  return found;
}

std::map<std::string, std::uint32_t> ids(const std::map<std::string, LinkState>& all) {
  std::map<std::string, std::uint32_t> only;
  for (const auto& [name, link] : all) {
    only[name] = link.id;
  }
  return only;
}

agent::AttachReport start(const agent::AgentOptions& options) {
  auto datapath = agent::Datapath::open(options);
  return datapath.attach();
}

std::string tc_type(const agent::AgentOptions& options) {
  if (std::ranges::find(options.without, "tcx") != options.without.end()) {
    return "clsact";
  }
  struct bpf_prog_query_opts query{};
  query.sz = sizeof(query);
  constexpr int loopback = 1;
  // A kernel without TCX rejects this attach type.
  return bpf_prog_query_opts(loopback, BPF_TCX_INGRESS, &query) == 0 ? "tcx" : "clsact";
}

namespace {

/// The names of the programs at a hook of a device or, by its file descriptor, of a cgroup; in order.
std::vector<std::string> program_names(int target, bpf_attach_type hook) {
  std::array<std::uint32_t, 16> program_ids{};
  struct bpf_prog_query_opts query{};
  query.sz = sizeof(query);
  query.prog_ids = program_ids.data();
  query.count = program_ids.size();
  if (bpf_prog_query_opts(target, hook, &query) != 0) {
    throw std::runtime_error("cannot ask for a hook's programs");
  }
  std::vector<std::string> names;
  names.reserve(query.count);
  for (std::uint32_t at = 0; at < query.count; ++at) {
    names.push_back(agent::program_info_of(program_ids.at(at))->name);
  }
  return names;
}

}  // namespace

std::vector<std::string> tcx_programs(const char* device, bpf_attach_type side) {
  if (tc_type({}) != "tcx") {
    return {};
  }
  return program_names(static_cast<int>(if_nametoindex(device)), side);
}

std::vector<std::string> programs_in_use(const Lab& lab) {
  std::vector<std::string> all;
  const auto add = [&all](const std::string& hook, const std::vector<std::string>& names) {
    for (const auto& name : names) {
      all.push_back(hook + ": " + name);
    }
  };
  add("eth0 ingress", tcx_programs("eth0", BPF_TCX_INGRESS));
  add("eth0 egress", tcx_programs("eth0", BPF_TCX_EGRESS));
  if (shell_output("tc qdisc show dev eth0").find("clsact") != std::string::npos) {
    all.emplace_back("clsact");
  }
  std::uint32_t xdp = 0;
  if (bpf_xdp_query_id(static_cast<int>(if_nametoindex("eth0")), 0, &xdp) != 0) {
    throw std::runtime_error("cannot ask for the XDP program of eth0");
  }
  if (xdp != 0) {
    add("eth0 xdp", {agent::program_info_of(xdp)->name});
  }
  const maps::Fd cgroup(::open(lab.cgroup().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (const auto hook : {BPF_CGROUP_INET4_CONNECT, BPF_CGROUP_INET6_CONNECT, BPF_CGROUP_UDP4_SENDMSG,
                          BPF_CGROUP_UDP6_SENDMSG, BPF_CGROUP_UDP4_RECVMSG, BPF_CGROUP_UDP6_RECVMSG,
                          BPF_CGROUP_INET4_GETPEERNAME, BPF_CGROUP_INET6_GETPEERNAME}) {
    add("cgroup", program_names(cgroup.get(), hook));
  }
  return all;
}

maps::Fd foreign_program() {
  const std::array<bpf_insn, 2> next = {
      {{BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, -1}, {BPF_JMP | BPF_EXIT, 0, 0, 0, 0}}};
  return maps::Fd(
      bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, "foreign", "GPL", next.data(), next.size(), nullptr));
}

DeviceLab::DeviceLab() : options(lab.options()) {
  make_device();
  options.sockets = agent::SocketScope::off;
  options.devices = {"eth0"};
  options.xdp = agent::XdpMode::off;
}

void DeviceLab::make_device() {
  // eth0 receives frames from XDP only if its peer polls, and GRO makes it poll.
  shell(
      "ip link add eth0 type veth peer name peer0 && ip link set eth0 up && ip link set peer0 up && "
      "ethtool -K peer0 gro on");
}

}  // namespace lb::test
