// SPDX-License-Identifier: Apache-2.0
// Queries XDP features by the generic netlink family "netdev".
#include "agent/attach/device_facts.hpp"

#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/genetlink.h>
#include <linux/netdev.h>
#include <net/if.h>
#include <sys/socket.h>

#include <array>

#include "agent/attach/device_kind.hpp"
#include "agent/attach/skipped_xdp.hpp"
#include "agent/base/error.hpp"
#include "agent/netlink/netlink.hpp"
#include "agent/programs/program.hpp"
#include "agent/programs/program_config.hpp"
#include "maps/map.hpp"

namespace lb::agent {
namespace {

/// Whether the kernel has the family that reports devices' XDP features.
bool has_netdev_family() {
  const maps::Fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC));
  genlmsghdr head{};
  head.cmd = CTRL_CMD_GETFAMILY;
  head.version = 1;
  netlink::Request request(GENL_ID_CTRL, netlink::Wanted::one, head);
  request.add(CTRL_ATTR_FAMILY_NAME, NETDEV_FAMILY_NAME);
  return !netlink::ask(socket.get(), request, [](const auto&, netlink::Bytes) {});
}

bool has(const DeviceFacts& facts, std::uint64_t feature) {
  return !facts.xdp || (*facts.xdp & feature) != 0;
}

constexpr const char* no_xdp = "its driver says that it has no XDP";

}  // namespace

DeviceFacts device_facts(const std::string& name) {
  DeviceFacts facts;
  if (const auto kind = device_kind(name)) {
    facts.driver = kind->driver;
  }
  facts.skipped = skipped_xdp(name);
  bpf_xdp_query_opts query{};
  query.sz = sizeof(query);
  if (bpf_xdp_query(static_cast<int>(if_nametoindex(name.c_str())), 0, &query) != 0) {
    return facts;
  }
  if (has_netdev_family()) {
    facts.xdp = query.feature_flags;
  }
  if (query.prog_id != 0) {
    const auto program = program_info_of(query.prog_id);
    const auto owner = program ? program->name : "?";
    facts.xdp_program = owner.starts_with("lb_") ? "" : owner;
  }
  return facts;
}

std::string facts_text(const DeviceFacts& facts) {
  auto text = facts.driver.empty() ? std::string("driver not known") : "driver " + facts.driver;
  if (!facts.xdp) {
    return text +
           "; the kernel does not say what its XDP can do (before Linux 6.3): only attaching it shows that";
  }
  if ((*facts.xdp & NETDEV_XDP_ACT_BASIC) == 0) {
    return text + "; no XDP";
  }
  text += "; XDP: native";
  text += (*facts.xdp & NETDEV_XDP_ACT_REDIRECT) != 0 ? ", redirect" : "";
  text += (*facts.xdp & NETDEV_XDP_ACT_NDO_XMIT) != 0 ? ", transmit" : "";
  return text;
}

bool has_native_xdp(const std::string& name) { return has(device_facts(name), NETDEV_XDP_ACT_BASIC); }

// An out-of-tree driver may support XDP without reporting it: --xdp auto tries it anyway.
void require_xdp(const AgentOptions& options, const std::string& name, const DeviceFacts& facts) {
  if (!wants_xdp(options) || options.xdp == XdpMode::automatic) {
    return;
  }
  if (options.xdp == XdpMode::native && !has(facts, NETDEV_XDP_ACT_BASIC)) {
    throw StartError(fmt::format("{} cannot run XDP as --xdp native demands: {}", name, no_xdp),
                     "choose --xdp auto or generic");
  }
  if (options.xdp == XdpMode::native && !facts.skipped.empty()) {
    throw StartError(fmt::format("{} cannot run XDP as --xdp native demands: {}", name, facts.skipped),
                     fmt::format("{}, or choose --xdp auto or generic", skipped_xdp_remedy));
  }
  if (!facts.xdp_program.empty()) {
    throw StartError(fmt::format("the XDP program {} runs on {} already", facts.xdp_program, name),
                     "detach it, or choose --xdp auto, with which tc serves alone there");
  }
}

Refusal xdp_lack(const AgentOptions& options, const DeviceFacts& facts) {
  if (!wants_xdp(options)) {
    return {};
  }
  if (!facts.xdp_program.empty()) {
    return {fmt::format("the XDP program {} runs there already, so tc serves alone", facts.xdp_program),
            "detach it to have XDP serve, or use --xdp off"};
  }
  if (options.xdp != XdpMode::generic && !facts.skipped.empty()) {
    return {facts.skipped + ", so tc serves alone", skipped_xdp_remedy};
  }
  if (options.xdp != XdpMode::generic && has(facts, NETDEV_XDP_ACT_BASIC) &&
      !has(facts, NETDEV_XDP_ACT_NDO_XMIT)) {
    return {"it does not transmit frames redirected by XDP, so tc transmits there",
            facts.driver == "veth" ? "switch GRO of its other end on by 'ethtool -K DEVICE gro on'"
                                   : "see its driver's documentation on XDP_REDIRECT"};
  }
  return {};
}

}  // namespace lb::agent
