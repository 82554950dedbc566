// SPDX-License-Identifier: Apache-2.0
#include "agent/run/components.hpp"

#include <fmt/format.h>
#include <malloc.h>
#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "agent/base/clock.hpp"
#include "agent/base/error.hpp"
#include "agent/kube_proxy/presence.hpp"
#include "agent/netlink/conntrack_keepalive.hpp"
#include "agent/observe/configz.hpp"
#include "agent/run/plan_options.hpp"
#include "agent/run/snapshot_reader.hpp"

namespace lb::agent {
namespace {

namespace asio = boost::asio;

/// Schedules turns of the cluster or the pacer, whose work is bounded by turns. Each turn is a separate
/// handler, so that other events are handled between two.
template <class Worker>
std::function<void()> takes_turns(asio::io_context& context, Worker& worker, Events& events) {
  return [&] {
    asio::post(context, [&] {
      worker.take_turn();
      events.objects_changed();
    });
  };
}

/// Posts actions to the agent's thread, from any thread.
maps::Post post_to(asio::io_context& context, Events& events) {
  return [&](std::function<void()> action) {
    asio::post(context, [&events, action = std::move(action)] {
      action();
      events.tables_changed();
    });
  };
}

ConfigReconciler::Actions config_actions(Events& events, Coexistence& coexistence) {
  return {.apply_live = [&events](auto next) { events.options_changed(std::move(next)); },
          .begin_again = [&events](auto next) { events.must_begin_with(std::move(next)); },
          .report = [&coexistence](auto problem) { coexistence.set_config(std::move(problem)); }};
}

void log_lost_sources(std::size_t entries) {
  if (entries > 0) {
    spdlog::info("ended source-NATed flows from addresses that this node no longer has: {} entries", entries);
  }
}

}  // namespace

Components::Components(asio::io_context& context, const AgentOptions& given, PinLock& lock,
                       std::uint32_t min_slots, Events& events)
    : options(given),
      pins(options.pins),
      inputs(context, options),
      pages(health, metrics, Moment::now,
            [this] {
              return read_snapshot({options, inputs, cluster, datapath, tables, maps, backend_routes});
            },
            {configz(options), options.flags}),
      servers(context, options, pages, metrics, [&events] { events.port_opened(); }),
      datapath(Datapath::open(options, &lock)),
      before(datapath.page().read()),
      maps(pins, before.hertz, post_to(context, events)),
      expiry(context, maps.set, options.timeouts, before.hertz, metrics),
      tables(
          maps.store, *maps.grace, maps.sweeper, [this](const auto& each) { complain(each); },
          options.sizes.consistent_slots),
      table_reconciler(context, tables, metrics, options.growth, [&events] { events.objects_changed(); }),
      map_resizer(context, {options, min_slots}, tables, datapath, health,
                  [&events](const auto& sizes) { events.must_begin_with(sizes); }),
      plan_options(lb::agent::plan_options(options)),
      plan_writer(context, datapath.udp_cleanup(), options.sockets, {tables, metrics, intake},
                  [&events](const auto& end) { events.plans_written(end); }),
      pacer(plan_writer, takes_turns(context, pacer, events), Pacer::max_writes,
            options.sizes.consistent_slots, plan_options.max_frontends),
      local_backends([this](const auto& address) { return routes.next_hop(address); }),
      cluster(options.node, plan_options, pacer, [this](const auto& each) { complain(each); }),
      api_server_cache(options.manifests.empty() ? options.state : std::string()),
      intake(cluster, options.node, metrics, health, Moment::now, [&events] { events.objects_changed(); }),
      node(
          context, [&events] { events.network_changed(); }, wanted_routes(options)),
      served_devices(options, node),
      node_publisher(options, node, served_devices, intake, {cluster, tables, datapath.page()}),
      attachment_reconciler(context, datapath, node, served_devices, metrics,
                            [&events](CheckDepth depth) { events.hooks_checked(depth); }),
      coexistence(options, datapath, metrics),
      backend_routes(context, {cluster, node, served_devices}, coexistence),
      ipsec(context, maps.set, {node_publisher, coexistence}, [&events] { events.ipsec_changed(); }),
      lost_sources(context, maps.set, log_lost_sources),
      kube_proxy_flows(context, maps.set, kept_nat_table(pins.base())),
      conntrack_tracking(context, datapath.features(), coexistence, kept_tracking_table(pins.base())),
      config_reconciler(context, options, metrics, config_actions(events, coexistence)),
      health_check_ports(
          context,
          {options, health, servers, inputs, metrics, coexistence,
           descriptor_shares(raise_descriptor_limit())},
          [this](const auto& each) { complain(each); },
          [] { return KubeProxyRules().detect().empty() ? KubeProxy::absent : KubeProxy::present; }),
      own_node(options, intake, coexistence, [this](const auto& each) { complain(each); }) {
  intake.cache_api_servers_in(api_server_cache);
  cluster.ask_routes(local_backends);
  cluster.set_api_servers(inputs.api_servers());
  inputs.on_api_servers([&events] { events.api_servers_changed(); });
  inputs.on_requests([this](const auto& outcome) { metrics.requested(outcome); });
  cluster.take_turns(takes_turns(context, cluster, events));
  cluster.measure_triggers(unix_nanoseconds(std::chrono::system_clock::now()));
}

void Components::log_start() const {
  spdlog::info("sluice {} for node {}: {}, pins {}", SLUICE_VERSION, options.node, inputs.text(),
               options.pins);
  for (const auto& note : datapath.notes()) {
    spdlog::warn("{}", note);
  }
  if (plan_options.families.size() == 1) {
    spdlog::info("IPv6 is switched off on this node: nothing is served over it");
  }
}

/// An earlier agent's entries are in use, so each must be matched in one step.
void Components::adopt() {
  const auto adopted = tables.adopt();
  if (!adopted) {
    throw StartError(fmt::format("cannot read the pinned maps: {}; run as root", adopted.error().message()));
  }
  if (adopted->services + adopted->frontends + adopted->backends == 0) {
    pacer.pass_first(FirstBatch::in_parts);
  } else {
    spdlog::info("took over {} service ports, {} backends and {} frontends", adopted->services,
                 adopted->backends, adopted->frontends);
  }
}

/// Returns memory of the first lists to the kernel: the allocator would keep it otherwise.
void Components::start_reconcilers(std::chrono::system_clock::time_point planned) {
  maps.set.unmap();
  ::malloc_trim(0);
  attachment_reconciler.start();
  table_reconciler.repair_later();
  map_resizer.watch_slots();
  maps.flow_counter.refresh();  // counts for the first scrape
  datapath.page().set_started(static_cast<std::uint64_t>(std::chrono::system_clock::to_time_t(planned)));
}

void Components::heartbeat() {
  lb::agent::record_heartbeat(pins);
  datapath.page().set_heartbeat();
}

Backlog Components::backlog() const {
  return {.objects = !intake.listed(),
          .labels = cluster.waits(),
          .turns = pacer.waits(),
          .tables = !tables.complete()};
}

void Components::complain(const k8s::Complaint& complaint) {
  if (complaint.type == k8s::ComplaintType::problem) {
    metrics.complained();
  }
  complaints.say(complaint, std::chrono::steady_clock::now());
  if (auto event = k8s::event_of(complaint)) {
    inputs.post(std::move(*event));
  }
}

}  // namespace lb::agent
