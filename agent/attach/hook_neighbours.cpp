// SPDX-License-Identifier: Apache-2.0
// Lists TCX programs first and clsact filters after them, in the order in which the kernel runs them.
#include "agent/attach/hook_neighbours.hpp"

#include <bpf/bpf.h>
#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

#include "agent/netlink/filters.hpp"
#include "agent/programs/program.hpp"

namespace lb::agent {
namespace {

constexpr std::size_t max_programs = 64;

void add_tcx(std::uint32_t device, TcSide side, std::vector<std::string>& names) {
  std::array<std::uint32_t, max_programs> ids{};
  struct bpf_prog_query_opts query{};
  query.sz = sizeof(query);
  query.prog_ids = ids.data();
  query.count = ids.size();
  const auto type = side == TcSide::ingress ? BPF_TCX_INGRESS : BPF_TCX_EGRESS;
  if (bpf_prog_query_opts(static_cast<int>(device), type, &query) != 0) {
    return;  // the kernel has no TCX
  }
  for (const auto id : std::span(ids).first(std::min<std::size_t>(query.count, ids.size()))) {
    const auto program = program_info_of(id);
    names.push_back(program ? program->name : "?");
  }
}

/// The programs at a hook, in the order in which they run.
std::vector<std::string> programs_at(std::uint32_t device, TcSide side) {
  std::vector<std::string> names;
  add_tcx(device, side, names);
  for (const auto& filter : filters_of(static_cast<int>(device), side)) {
    const auto program = program_info_of(filter.program);
    names.push_back(program ? program->name : filter.name);
  }
  return names;
}

bool is_ours(const std::string& name) { return name.starts_with("lb_tc_") || name.starts_with("lb_pod_"); }

TcSide side_of(const HookId& hook) {
  return hook.kind == HookKind::tc_ingress ? TcSide::ingress : TcSide::egress;
}

void add_neighbours(std::uint32_t device, const HookId& hook, std::vector<Neighbour>& all) {
  const auto names = programs_at(device, side_of(hook));
  const auto ours = std::ranges::find_if(names, is_ours);
  if (ours == names.end()) {
    return;
  }
  for (auto at = names.begin(); at != names.end(); ++at) {
    if (!is_ours(*at)) {
      all.push_back({hook, *at, at < ours ? Order::before_us : Order::after_us});
    }
  }
}

void add_others(std::uint32_t device, const HookId& hook, std::vector<std::string>& all) {
  for (const auto& name : programs_at(device, side_of(hook))) {
    if (!is_ours(name)) {
      all.push_back(fmt::format("{}: {}", hook.text(), name));
    }
  }
}

}  // namespace

std::vector<std::string> others_at_tc(const std::string& device) {
  std::vector<std::string> all;
  if (const auto index = if_nametoindex(device.c_str()); index != 0) {
    add_others(index, {HookKind::tc_ingress, device}, all);
    add_others(index, {HookKind::tc_egress, device}, all);
  }
  return all;
}

CgroupPrograms cgroup_programs(int cgroup, bpf_attach_type type) {
  std::array<std::uint32_t, max_programs> ids{};
  struct bpf_prog_query_opts query{};
  query.sz = sizeof(query);
  query.prog_ids = ids.data();
  query.count = ids.size();
  CgroupPrograms attached;
  if (bpf_prog_query_opts(cgroup, type, &query) != 0) {
    return attached;
  }
  for (const auto id : std::span(ids).first(std::min<std::size_t>(query.count, ids.size()))) {
    const auto program = program_info_of(id);
    if (!program || !program->name.starts_with("lb_")) {
      attached.programs.push_back(program ? program->name : "?");
    }
  }
  const bool several = (query.attach_flags & BPF_F_ALLOW_MULTI) != 0;
  attached.sharing = attached.programs.empty() || several ? Sharing::possible : Sharing::refused;
  return attached;
}

std::vector<Neighbour> neighbours_of(std::uint32_t device, const std::string& name) {
  std::vector<Neighbour> all;
  add_neighbours(device, {HookKind::tc_ingress, name}, all);
  add_neighbours(device, {HookKind::tc_egress, name}, all);
  return all;
}

std::vector<Neighbour> neighbours_of(const std::vector<std::string>& devices) {
  std::vector<Neighbour> all;
  for (const auto& name : devices) {
    if (const auto device = if_nametoindex(name.c_str()); device != 0) {
      std::ranges::move(neighbours_of(device, name), std::back_inserter(all));
    }
  }
  return all;
}

std::string neighbours_text(const std::vector<Neighbour>& neighbours) {
  std::string text;
  for (const auto& each : neighbours) {
    text += fmt::format("{}{}: {} {} us", text.empty() ? "" : "; ", each.hook.text(), each.name,
                        each.order == Order::before_us ? "before" : "after");
  }
  return text;
}

}  // namespace lb::agent
