// SPDX-License-Identifier: Apache-2.0
// One function for each subject; a subject that another one needs comes before it.
#include "agent/attach/prerequisites.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/utsname.h>

#include <algorithm>

#include "agent/attach/device_facts.hpp"
#include "agent/attach/device_kind.hpp"
#include "agent/attach/hook_neighbours.hpp"
#include "agent/attach/socket_hooks.hpp"
#include "agent/base/memory.hpp"
#include "agent/base/privileges.hpp"
#include "agent/netlink/node_watch.hpp"
#include "agent/netlink/uplinks.hpp"
#include "agent/programs/pinned_maps.hpp"
#include "agent/programs/program_config.hpp"
#include "agent/programs/requirements.hpp"

namespace lb::agent {
namespace {

constexpr std::uint64_t mebi = 1 << 20;

std::string kernel_text() {
  utsname name{};
  ::uname(&name);
  return fmt::format("Linux {} ({})", name.release, name.machine);
}

void check_kernel(Findings& findings) {
  if (findings.need("kernel", require_kernel)) {
    findings.ok("kernel", kernel_text());
  }
}

/// Whether bpf() can be called at all.
bool check_bpf(const Privileges& privileges, Findings& findings) {
  if (!findings.need("bpf()", [&] { require_bpf(privileges); })) {
    return false;
  }
  findings.ok("bpf()", privileges.filtered ? "works, through a seccomp filter" : "works");
  return true;
}

bool check_jit(Findings& findings) {
  const bool compiles = findings.need("JIT", require_jit);
  if (compiles) {
    findings.ok("JIT", "programs are compiled");
  }
  return compiles;
}

void check_types(const AgentOptions& options, Prerequisites& found, Findings& findings) {
  if (findings.need("BTF", [&] { found.features = Features::probe(options.without); })) {
    findings.ok("BTF", "the kernel shows its types");
  }
}

void check_cgroup(const AgentOptions& options, Prerequisites& found, Findings& findings) {
  if (options.sockets == SocketScope::off) {
    findings.ok("cgroup", "not needed with --sockets off");
    return;
  }
  if (findings.need("cgroup", [&] { found.cgroup = open_cgroup(options.cgroup); })) {
    const auto whole = found.cgroup.id == host_root_cgroup;
    findings.ok("cgroup",
                fmt::format("v2, {}{}", found.cgroup.path, whole ? " (the root of all)" : " and below"));
  }
}

void check_socket_hook(int cgroup, const SocketHook& hook, Findings& findings) {
  const auto attached = cgroup_programs(cgroup, hook.type);
  const auto subject = fmt::format("hook cgroup {}", hook.name);
  const auto who = fmt::format("{}", fmt::join(attached.programs, ", "));
  if (attached.sharing == Sharing::refused) {
    findings.missing(
        subject,
        StartError(fmt::format("{} is attached to {} of the cgroup exclusively (without BPF_F_ALLOW_MULTI)",
                               who, hook.name),
                   "detach it, choose another --cgroup, or use --sockets off"));
  } else if (!who.empty()) {
    findings.warning(subject, fmt::format("{} runs there too", who),
                     "see that it translates no services: two that do undo each other's work");
  }
}

void check_socket_hooks(const Prerequisites& found, Findings& findings) {
  if (!found.features || !found.cgroup.directory) {
    return;
  }
  for (const auto& hook : socket_hooks) {
    check_socket_hook(found.cgroup.directory.get(), hook, findings);
  }
}

void check_memory(const AgentOptions& options, Prerequisites& found, Findings& findings) {
  const auto open = [&] {
    found.programs = BpfPrograms::open(options.sizes);
    require_memory(found.programs->object());
  };
  if (findings.need("memory", open)) {
    const auto limit = memory_limit();
    findings.ok("memory", fmt::format("full maps and the agent need {} MiB; {}",
                                      needed_memory(found.programs->object()) / mebi,
                                      limit ? fmt::format("the limit is {} MiB", *limit / mebi)
                                            : std::string("no limit is set")));
  }
}

void check_pins(const AgentOptions& options, const Privileges& privileges, const Prerequisites& found,
                Findings& findings) {
  const maps::Pins pins(options.pins);
  auto mount = BpfMount::found;
  const auto look = [&] {
    mount = require_bpf_mount(pins, privileges);
    if (found.programs && mount == BpfMount::found) {
      require_adoptable(found.programs->object(), pins);
    }
  };
  if (findings.need("bpffs", look)) {
    findings.ok("bpffs", mount == BpfMount::found
                             ? fmt::format("mounted, for {}", options.pins)
                             : "not mounted; the agent mounts it at /sys/fs/bpf when it starts");
  }
}

/// How tc programs are attached to devices.
void check_tc(const AgentOptions& options, const Prerequisites& found, Findings& findings) {
  if (!serves_devices(options) || !found.features) {
    return;
  }
  if (found.features->usable(Feature::tcx)) {
    findings.ok("tc", "by TCX; sch_ingress and cls_bpf are not needed");
  } else if (findings.need("tc", require_clsact)) {
    findings.ok("tc", "by filters of a clsact qdisc (sch_ingress and cls_bpf)");
  }
}

/// Whether a start ends with an error for this device here. With several devices, attaching reports the
/// failed hook, after it has attached the others.
bool ends_here(const AgentOptions& options, const Findings& findings) {
  return findings.lists() || options.xdp != XdpMode::native ||
         std::ranges::none_of(options.devices, [](const auto& name) { return has_native_xdp(name); });
}

/// Checks which XDP mode the options require of a device.
void check_device(const AgentOptions& options, const std::string& name, Findings& findings) {
  const auto subject = "device " + name;
  const auto look = [&] {
    require_devices({name});
    if (ends_here(options, findings)) {
      require_xdp(options, name, device_facts(name));
    }
  };
  if (!findings.need(subject, look)) {
    return;
  }
  const auto facts = device_facts(name);
  const auto text = facts_text(facts);
  if (const auto lack = xdp_lack(options, facts); lack.found.empty()) {
    findings.ok(subject, text);
  } else {
    findings.warning(subject, fmt::format("{}; {}", text, lack.found), lack.advice);
  }
}

/// Reports the present result of --devices auto; the Node object's addresses, which may add devices, are
/// unknown here.
void check_found(const AgentOptions& options, Findings& findings) {
  const auto uplinks = find_uplinks(read_network(Routes::followed).links(), options, {});
  if (uplinks.empty()) {
    findings.warning("devices", "auto finds none: no default route and no tunnel is here",
                     "name the uplinks with --devices, unless the Node's addresses show them");
    return;
  }
  findings.ok("devices", uplinks_text(uplinks));
  for (const auto& uplink : uplinks) {
    const auto kind = device_kind(uplink.name);
    const bool named = std::ranges::find(options.devices, uplink.name) != options.devices.end();
    if (!named && kind && unsupported_reason(*kind).empty()) {
      check_device(options, uplink.name, findings);
    }
  }
}

void check_devices(const AgentOptions& options, Findings& findings) {
  if (!options.serves_uplinks()) {
    findings.ok("devices", "none: sockets are served only");
    return;
  }
  // Too many devices are one error; otherwise each device is checked.
  if (options.devices.size() > LB_MAX_DEVICES) {
    findings.need("devices", [&] { require_devices(options.devices); });
    return;
  }
  for (const auto& name : options.devices) {
    check_device(options, name, findings);
  }
  if (options.uplink_discovery == Discovery::automatic) {
    check_found(options, findings);
  }
}

}  // namespace

Prerequisites check_prerequisites(const AgentOptions& options, Findings& findings) {
  Prerequisites found;
  const auto privileges = own_privileges("");
  const bool may_ask = check_bpf(privileges, findings);
  if (may_ask) {
    check_kernel(findings);
    const bool compiles = check_jit(findings);
    check_types(options, found, findings);
    // Everything else that the kernel refused was refused for that reason.
    if (!compiles) {
      found.features.reset();
    }
  }
  findings.need("cluster secret", [&] { found.secret = read_secret(options.cluster_secret); });
  check_cgroup(options, found, findings);
  check_socket_hooks(found, findings);
  check_memory(options, found, findings);
  check_pins(options, privileges, found, findings);
  check_tc(options, found, findings);
  check_devices(options, findings);
  return found;
}

Prerequisites require_prerequisites(const AgentOptions& options) {
  Findings findings(Findings::Missing::ends_start);
  return check_prerequisites(options, findings);
}

}  // namespace lb::agent
