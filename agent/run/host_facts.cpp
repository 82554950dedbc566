// SPDX-License-Identifier: Apache-2.0
// Reads files of /proc and /sys, and queries the kernel.
#include "agent/run/host_facts.hpp"

#include <fmt/format.h>
#include <linux/capability.h>

#include <string>

#include "agent/attach/hook_neighbours.hpp"
#include "agent/base/privileges.hpp"
#include "agent/base/read_file.hpp"
#include "agent/datapath/served_devices.hpp"
#include "agent/kube_proxy/presence.hpp"
#include "agent/netlink/conntrack.hpp"
#include "agent/netlink/nf_tables.hpp"
#include "agent/programs/preemption.hpp"

namespace lb::agent {
namespace {

/// The word in brackets: "none [integrity] confidentiality" gives "integrity".
std::string chosen_word(const std::string& line) {
  const auto from = line.find('[');
  const auto to = line.find(']');
  return from == std::string::npos || to == std::string::npos ? "" : line.substr(from + 1, to - from - 1);
}

// Only the initial network namespace has this file.
void check_hardening(Findings& findings) {
  const auto value = first_line("/proc/sys/net/core/bpf_jit_harden");
  if (value == "2") {
    findings.warning("JIT hardening", "enabled for all users, which makes every program slower",
                     "'sysctl -w net.core.bpf_jit_harden=1' leaves it on for those without rights");
  } else {
    findings.ok("JIT hardening", value.empty()  ? "not known"
                                 : value == "0" ? "off"
                                                : "on for those without rights");
  }
}

void check_lockdown(Findings& findings) {
  const auto mode = chosen_word(first_line("/sys/kernel/security/lockdown"));
  findings.ok("lockdown", mode.empty() ? "not known" : mode);
}

void check_unprivileged(Findings& findings) {
  const auto off = own_privileges("").unprivileged_off;
  findings.ok("unprivileged bpf()", !off        ? "not known"
                                    : *off == 0 ? "allowed (kernel.unprivileged_bpf_disabled is 0)"
                                                : "refused, which is irrelevant with CAP_BPF");
}

std::string cgroup1_text() {
  return cgroup_mounts(read_mounts()).version1 ? "v1 is mounted beside v2 (hybrid), which does no harm"
                                               : "v2 alone";
}

void check_kube_proxy(const AgentOptions& options, Findings& findings) {
  const auto means = KubeProxyRules().detect();
  if (means.empty()) {
    findings.ok("kube-proxy", "no rules of it here");
    return;
  }
  const auto* more =
      options.unallocated == Unallocated::drop ? "; --drop-unallocated does nothing beside them" : "";
  findings.warning("kube-proxy", fmt::format("its rules are here ({}){}", means, more),
                   "once Sluice serves, end kube-proxy and remove them by 'sluice cleanup --kube-proxy'");
}

}  // namespace

void check_settings(Findings& findings) {
  check_hardening(findings);
  check_lockdown(findings);
  check_unprivileged(findings);
  findings.ok("preemption", std::string(preemption_text(preemption_of(running_kernel()))));
  findings.ok("cgroup versions", cgroup1_text());
}

void check_rights(const AgentOptions& options, Findings& findings) {
  const auto own = own_privileges("");
  if (!lacking_capabilities(own).empty()) {
    return;  // reported by the check of bpf()
  }
  if (!has_capability(own, CAP_SYS_ADMIN) && options.sockets == SocketScope::all) {
    findings.warning("capabilities",
                     "CAP_SYS_ADMIN is lacking: connected UDP sockets of pods are not closed when their "
                     "backend has ended",
                     "add it if pods use connected UDP sockets");
  } else {
    findings.ok("capabilities", "all that are needed");
  }
}

void check_features(const Prerequisites& found, Findings& findings) {
  if (!found.features) {
    return;
  }
  for (std::size_t at = 0; at < feature_count; ++at) {
    const auto feature = static_cast<Feature>(at);
    const auto subject = fmt::format("feature {}", feature_name(feature));
    switch (found.features->state(feature)) {
      case FeatureState::present:
        findings.ok(subject, "present");
        break;
      case FeatureState::switched_off:
        findings.ok(subject, fmt::format("switched off; instead: {}", found.features->fallback(feature)));
        break;
      case FeatureState::refused:  // not at this point: the programs are tried later
        break;
      case FeatureState::absent:
        findings.warning(subject, fmt::format("absent; instead: {}", found.features->fallback(feature)),
                         fmt::format("{} has it", feature_source(feature)));
    }
  }
}

void check_conntrack(const AgentOptions& options, const Prerequisites& found, Findings& findings) {
  if (!has_conntrack(options.conntrack)) {
    findings.warning("conntrack", conntrack_lack(options.conntrack), load_conntrack);
  } else if (found.features && found.features->state(Feature::ct_lookup) == FeatureState::absent) {
    findings.warning("conntrack", "nf_conntrack is loaded, but programs cannot ask it",
                     "nothing: source ports are then kept from sockets and reserved ports alone");
  } else if (const auto error = nf_tables_error()) {
    findings.warning("conntrack",
                     fmt::format("nf_conntrack is loaded, but nf_tables cannot be used ({}): connections are "
                                 "tracked only if other rules ask for it",
                                 error.message()),
                     "load it by 'modprobe nf_tables' before the agent starts");
  } else {
    findings.ok("conntrack", "nf_conntrack is loaded");
  }
}

void check_hook_neighbours(const AgentOptions& options, Findings& findings) {
  const auto uplinks = find_uplinks(read_network(wanted_routes(options)).links(), options, {});
  std::size_t others = 0;
  for (const auto& device : names_of(uplinks)) {
    for (const auto& other : others_at_tc(device)) {
      ++others;
      findings.warning(
          "hook " + other.substr(0, other.find(": ")), other.substr(other.find(": ") + 2) + " runs there too",
          "see that it passes on what it does not serve (TC_ACT_UNSPEC, TCX_NEXT), and serves no services");
    }
  }
  if (others == 0) {
    findings.ok("tc hooks", "no other programs");
  }
  check_kube_proxy(options, findings);
}

}  // namespace lb::agent
