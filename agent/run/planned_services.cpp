// SPDX-License-Identifier: Apache-2.0
#include "agent/run/planned_services.hpp"

#include <fmt/format.h>

#include <utility>

#include "agent/base/error.hpp"
#include "agent/base/log.hpp"
#include "agent/netlink/node_watch.hpp"
#include "agent/run/plan_options.hpp"
#include "agent/run/start_progress.hpp"

namespace lb::agent {
namespace {

using Clock = std::chrono::steady_clock;

void set_own_addresses(Cluster& cluster, const NodePortAddresses& node_ports) {
  const auto network = read_network(Routes::ignored);
  std::vector<k8s::Address> addresses;
  for (const auto& each : network.addresses(node_ports, {})) {
    addresses.push_back(each.address);
  }
  cluster.set_addresses(std::move(addresses));
  cluster.set_broadcasts(network.broadcasts());
}

}  // namespace

PlannedServices::PlannedServices(const AgentOptions& options)
    : inputs_(context_, options),
      cluster_(options.node, plan_options(options), *this, [this](const auto& each) { complain(each); }) {
  set_own_addresses(cluster_, options.node_port_addresses);
  cluster_.set_api_servers(inputs_.api_servers());
  inputs_.on_api_servers([this] {
    cluster_.set_api_servers(inputs_.api_servers());
    cluster_.flush();
  });
  inputs_.start(cluster_);
}

void PlannedServices::await(std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (!is_whole() && Clock::now() < deadline) {
    context_.run_one_until(deadline);
  }
  if (!is_whole()) {
    const auto step = planned_ ? StartStep::labels : StartStep::objects;
    throw StartError(fmt::format(
        "waited {} s for {}{}{}", std::chrono::duration_cast<std::chrono::seconds>(timeout).count(),
        awaited(step, inputs_.stats()), last_complaint_.empty() ? "" : "; last: ", last_complaint_));
  }
}

void PlannedServices::follow(std::chrono::milliseconds time) { context_.run_for(time); }

void PlannedServices::apply(Batch batch, std::vector<PlanChange> changes) {
  if (batch == Batch::whole) {
    planned_ = true;
    services_.clear();
  }
  for (auto& change : changes) {
    if (change.ports.empty()) {
      services_.erase(change.service);
    } else {
      services_[change.service] = std::move(change.ports);
    }
  }
}

void PlannedServices::complain(const k8s::Complaint& complaint) {
  if (complaint.type == k8s::ComplaintType::recovery) {
    return;
  }
  last_complaint_ = complaint_text(complaint);
  complaints_.insert(last_complaint_);
}

}  // namespace lb::agent
