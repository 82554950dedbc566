// SPDX-License-Identifier: Apache-2.0
// All objects that live while the agent runs, and their connections. agent/run/serve.cpp decides what is done
// with them, and when.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>

#include "agent/base/log.hpp"
#include "agent/datapath/attachment_reconciler.hpp"
#include "agent/datapath/backend_routes.hpp"
#include "agent/datapath/coexistence.hpp"
#include "agent/datapath/config_reconciler.hpp"
#include "agent/datapath/conntrack_tracking.hpp"
#include "agent/datapath/datapath.hpp"
#include "agent/datapath/expiry_timer.hpp"
#include "agent/datapath/kube_proxy_flows.hpp"
#include "agent/datapath/local_backends.hpp"
#include "agent/datapath/lock.hpp"
#include "agent/datapath/map_resizer.hpp"
#include "agent/datapath/open_maps.hpp"
#include "agent/datapath/served_devices.hpp"
#include "agent/datapath/table_reconciler.hpp"
#include "agent/netlink/node_watch.hpp"
#include "agent/netlink/route_lookup.hpp"
#include "agent/observe/pages.hpp"
#include "agent/observe/servers.hpp"
#include "agent/plan/cluster.hpp"
#include "agent/plan/pacer.hpp"
#include "agent/run/api_server_cache.hpp"
#include "agent/run/health_check_ports.hpp"
#include "agent/run/inputs.hpp"
#include "agent/run/intake.hpp"
#include "agent/run/ipsec_policies.hpp"
#include "agent/run/node_publisher.hpp"
#include "agent/run/own_node_reporter.hpp"
#include "agent/run/plan_writer.hpp"
#include "agent/run/start_phase.hpp"
#include "agent/tables/lost_sources.hpp"
#include "agent/tables/tables.hpp"

namespace lb::agent {

/// Events while the agent runs, always on its thread. A call only says that there is something to check; it
/// may come from within the component that raises it.
class Events {
 public:
  virtual ~Events() = default;

  /// The kernel has reported devices, addresses or routes.
  virtual void network_changed() = 0;
  /// The source's first objects, or a burst of changes, have arrived, or more of them are planned or written.
  virtual void objects_changed() = 0;
  /// The addresses of the API servers have changed.
  virtual void api_servers_changed() = 0;
  /// A batch of plans was written to the maps at `end`.
  virtual void plans_written(const Moment& end) = 0;
  /// Background work (grace periods, sweeps) may have made room in the tables, or needs a retry.
  virtual void tables_changed() = 0;
  /// The hooks have been checked, which happens periodically.
  virtual void hooks_checked(CheckDepth depth) = 0;
  virtual void ipsec_changed() = 0;
  /// A server that waited for its port listens now.
  virtual void port_opened() = 0;
  /// The configuration file has changed, only in options that take effect while the agent runs.
  virtual void options_changed(AgentOptions next) = 0;
  /// The configuration file has changed, in options that need a new agent in this process.
  virtual void must_begin_with(AgentOptions next) = 0;
  /// Tables of these sizes are needed, or suffice, and fit in memory.
  virtual void must_begin_with(const Sizes& sizes) = 0;
};

/// Members are in the order of their creation. Nothing before `datapath` changes anything in the kernel.
struct Components {
  /// Does not call `events` before the context runs. `lock`: of the pins. `min_slots`: minimum size of
  /// lb_slots. All referenced objects must outlive this. Throws StartError.
  Components(boost::asio::io_context& context, const AgentOptions& given, PinLock& lock,
             std::uint32_t min_slots, Events& events);
  Components(const Components&) = delete;
  Components& operator=(const Components&) = delete;

  /// Logs what starts, its source, and warnings for the operator.
  void log_start() const;
  /// Reads the pinned maps. Throws StartError.
  void adopt();
  /// Call once all hooks are attached: starts the timers that reconcile hooks, tables and sizes. `planned`:
  /// the time at which the first plan was in the maps, for the node page.
  void start_reconcilers(std::chrono::system_clock::time_point planned);

  /// Signals that an agent runs: to operators by the directory of the pins, and to programs by the node page.
  void heartbeat();

  /// The parts of objects that are not in the maps yet.
  [[nodiscard]] Backlog backlog() const;
  /// Logs and counts a complaint.
  void complain(const k8s::Complaint& complaint);

  const AgentOptions& options;
  maps::Pins pins;
  Inputs inputs;
  Metrics metrics;
  Health health;
  Complaints complaints;
  Pages pages;
  Servers servers;

  Datapath datapath;
  lb_node before;  ///< the node page as the previous agent left it
  OpenMaps maps;
  ExpiryTimer expiry;
  Tables tables;
  TableReconciler table_reconciler;
  MapResizer map_resizer;

  // Objects flow from the source through the intake to the cluster; plans flow from there through the pacer
  // to the writer.
  PlanOptions plan_options;
  PlanWriter plan_writer;
  Pacer pacer;
  RouteLookup routes;
  LocalBackends local_backends;
  Cluster cluster;
  ApiServerCache api_server_cache;
  Intake intake;

  NodeWatch node;
  ServedDevices served_devices;
  NodePublisher node_publisher;
  AttachmentReconciler attachment_reconciler;
  Coexistence coexistence;
  BackendRoutes backend_routes;
  IpsecPolicies ipsec;
  LostSources lost_sources;
  KubeProxyFlows kube_proxy_flows;
  ConntrackTracking conntrack_tracking;
  ConfigReconciler config_reconciler;
  HealthCheckPorts health_check_ports;
  OwnNodeReporter own_node;
};

}  // namespace lb::agent
