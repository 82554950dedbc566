// SPDX-License-Identifier: Apache-2.0
#include "agent/datapath/coexistence.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "agent/netlink/netns.hpp"

namespace lb::agent {
namespace {

/// Why connected UDP sockets of pods cannot be closed, in the form of --without; empty: they can.
std::string lacks_text(const Reach& reach) {
  if (!reach.may_enter) {
    return "CAP_SYS_ADMIN: connected UDP sockets of pods are not ended";
  }
  return reach.unseen == 0
             ? ""
             : fmt::format(
                   "sight of {} network namespaces in /run/netns: their connected UDP sockets are not ended",
                   reach.unseen);
}

constexpr const char* all_refused = "all new flows that would bypass the stack are refused";

std::string xfrm_text(std::size_t policies, XfrmRefusal refusal) {
  if (refusal == XfrmRefusal::all) {
    return fmt::format("ipsec: {} policies, whose ranges are not all in lb_ranges; {}", policies,
                       all_refused);
  }
  return policies == 0
             ? std::string()
             : fmt::format(
                   "ipsec: {} policies; new flows to backends, or of clients, behind them are refused",
                   policies);
}

}  // namespace

Coexistence::Coexistence(const AgentOptions& options, Datapath& datapath, Metrics& metrics)
    : options_(options), datapath_(datapath), metrics_(metrics) {}

void Coexistence::check_reach(const std::map<std::uint32_t, NetDevice>& devices,
                              const std::vector<std::string>& uplinks) {
  if (options_.sockets != SocketScope::all || !std::exchange(devices_changed_, false)) {
    return;
  }
  auto lacks = lacks_text(reach_of(devices, uplinks));
  if (lacks == lacks_) {
    return;
  }
  if (!lacks.empty()) {
    spdlog::warn("without {}: connected UDP sockets there are not reset when their backend goes", lacks);
  }
  lacks_ = std::move(lacks);
  report();
}

std::optional<KubeProxy> Coexistence::check_kube_proxy() {
  if (options_.unallocated != Unallocated::drop) {
    return std::nullopt;
  }
  auto rules = rules_.detect();
  if (rules == kube_proxy_) {
    return std::nullopt;
  }
  if (rules.empty()) {
    spdlog::info("kube-proxy's rules are gone: --drop-unallocated holds");
  } else {
    spdlog::warn("kube-proxy's rules are here ({}): --drop-unallocated does nothing until they are gone",
                 rules);
  }
  const auto found = rules.empty() ? KubeProxy::absent : KubeProxy::present;
  metrics_.kube_proxy(found);
  kube_proxy_ = std::move(rules);
  report();
  return found;
}

void Coexistence::set_xfrm(std::size_t policies) {
  if (policies != std::exchange(xfrm_, policies)) {
    report();
  }
}

void Coexistence::set_xfrm_refusal(XfrmRefusal refusal) {
  if (refusal == std::exchange(xfrm_refusal_, refusal)) {
    return;
  }
  if (refusal == XfrmRefusal::all) {
    spdlog::error("the ranges of IPsec policies cannot be written: {}", all_refused);
  } else {
    spdlog::info("the ranges of IPsec policies are written: only new flows behind policies are refused");
  }
  report();
}

void Coexistence::set_ports(std::string ports) { replace(ports_, std::move(ports)); }

void Coexistence::set_config(std::string config) { replace(config_, std::move(config)); }

void Coexistence::set_uplinks(std::string uplinks) { replace(uplinks_, std::move(uplinks)); }

void Coexistence::set_unserved(std::string devices) { replace(unserved_, std::move(devices)); }

void Coexistence::set_addresses(std::string addresses) {
  if (replace(addresses_, std::move(addresses)) && !addresses_.empty()) {
    spdlog::info("{}, or --node-port-addresses can leave it out", addresses_);
  }
}

void Coexistence::set_clients(std::string clients) { replace(clients_, std::move(clients)); }

void Coexistence::set_tracking(std::string tracking) { replace(tracking_, std::move(tracking)); }

bool Coexistence::set_node(std::string node) { return replace(node_, std::move(node)); }

/// Replaces a text and updates the report; returns whether the text has changed.
bool Coexistence::replace(std::string& text, std::string now) {
  if (text == now) {
    return false;
  }
  text = std::move(now);
  report();
  return true;
}

void Coexistence::report() {
  const std::string dropping = kube_proxy_.empty() ? "" : "drop-unallocated: kube-proxy's rules are here";
  const auto xfrm = xfrm_text(xfrm_, xfrm_refusal_);
  std::vector<std::string> lacks;
  std::ranges::copy_if(std::array{config_, node_, uplinks_, unserved_, addresses_, clients_, tracking_,
                                  ports_, xfrm, dropping, lacks_},
                       std::back_inserter(lacks), [](const auto& text) { return !text.empty(); });
  datapath_.set_limitations(fmt::format("{}", fmt::join(lacks, "; ")));
}

}  // namespace lb::agent
