// SPDX-License-Identifier: Apache-2.0
#include "agent/run/ipsec_policies.hpp"

#include <spdlog/spdlog.h>

#include <cstddef>
#include <utility>

namespace lb::agent {
namespace {

void log_ended_flows(std::size_t entries) {
  if (entries > 0) {
    spdlog::info("ended flows to backends, or of clients, behind IPsec policies: {} entries", entries);
  }
}

}  // namespace

IpsecPolicies::IpsecPolicies(boost::asio::io_context& context, maps::MapSet& maps, Targets targets,
                             std::function<void()> changed)
    : targets_(targets),
      redirected_flows_(context, maps, log_ended_flows),
      xfrm_(context, std::move(changed)) {}

void IpsecPolicies::apply() {
  const auto& policies = xfrm_.policies();
  spdlog::info(
      "IPsec policies for what leaves: {}; new flows to backends, or of clients, behind them are refused",
      policies.count);
  targets_.node.set_xfrm(policies.ranges);
  targets_.coexistence.set_xfrm(policies.count);
}

void IpsecPolicies::publish_policy() {
  const auto written = targets_.node.publish_policy();
  targets_.coexistence.set_xfrm_refusal(written == Written::all ? XfrmRefusal::covered : XfrmRefusal::all);
}

void IpsecPolicies::end_redirected_flows() { redirected_flows_.end(xfrm_.policies().ranges); }

}  // namespace lb::agent
