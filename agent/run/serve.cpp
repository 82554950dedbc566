// The recipe of the agent. One thread and one io_context; beside them only the helper that waits for grace
// periods.
#include "agent/run/serve.hpp"

#include <fmt/format.h>
#include <malloc.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "agent/attach/detach.hpp"
#include "agent/attach/layout_migration.hpp"
#include "agent/attach/udp_sockets.hpp"
#include "agent/base/clock.hpp"
#include "agent/base/error.hpp"
#include "agent/base/log.hpp"
#include "agent/base/oom_score.hpp"
#include "agent/datapath/attachment_reconciler.hpp"
#include "agent/datapath/coexistence.hpp"
#include "agent/datapath/config_reconciler.hpp"
#include "agent/datapath/datapath.hpp"
#include "agent/datapath/expiry_timer.hpp"
#include "agent/datapath/lock.hpp"
#include "agent/datapath/map_resizer.hpp"
#include "agent/datapath/served_devices.hpp"
#include "agent/datapath/table_reconciler.hpp"
#include "agent/netlink/conntrack.hpp"
#include "agent/netlink/node_watch.hpp"
#include "agent/netlink/xfrm.hpp"
#include "agent/observe/configz.hpp"
#include "agent/observe/pages.hpp"
#include "agent/observe/servers.hpp"
#include "agent/observe/service_health.hpp"
#include "agent/options/families.hpp"
#include "agent/plan/cluster.hpp"
#include "agent/plan/pacer.hpp"
#include "agent/run/api_memory.hpp"
#include "agent/run/inputs.hpp"
#include "agent/run/intake.hpp"
#include "agent/run/node_publisher.hpp"
#include "agent/run/start_progress.hpp"
#include "agent/tables/redirected_flows.hpp"
#include "agent/tables/tables.hpp"
#include "maps/grace.hpp"
#include "maps/sweep.hpp"

namespace lb::agent {
namespace {

namespace asio = boost::asio;

/// How long a first plan that does not fit may keep the node from being ready.
constexpr std::chrono::seconds longest_start{30};

/// Load balancers ask with any method, and on every address of a family at once (SEM-58).
constexpr HttpLimits health_check_rules{
    .body_bytes = 4096, .methods = HttpMethods::any, .families = HttpFamilies::own};

maps::MapSet open_maps(const maps::Pins& pins) {
  auto opened = maps::MapSet::open(pins, maps::Access::write);
  if (!opened) {
    throw StartError(opened.error().sentence());
  }
  return std::move(*opened);
}

std::unique_ptr<maps::KernelGrace> open_grace(maps::Post post) {
  auto opened = maps::KernelGrace::open(std::move(post));
  if (!opened) {
    throw StartError(fmt::format("cannot wait for grace periods: {}; run as root", opened.error().message()));
  }
  return std::move(*opened);
}

PlanOptions plan_options(const AgentOptions& options) {
  PlanOptions plan;
  plan.families = host_families("");
  plan.service_proxy_name = options.service_proxy_name;
  plan.external_ip_ranges = options.external_ips;
  plan.excluded = options.exclude;
  plan.topology_labels = options.topology_labels;
  plan.most_frontends = options.service_frontends;
  plan.selection = options.selection;
  plan.consistent_tables = options.consistent_budget / options.sizes.consistent_slots;
  return plan;
}

/// May a UDP backend have ended? What was planned before is not known here.
bool concerns_udp(const PlanChange& change) {
  return change.ports.empty() ||
         std::ranges::any_of(change.ports, [](const auto& port) { return port->key.protocol == LB_UDP; });
}

/// The namespaces whose sockets our hooks translate.
Namespaces namespaces_of(SocketScope scope) {
  return scope == SocketScope::all ? Namespaces::all : Namespaces::own;
}

/// A problem that lasts is logged once.
UdpSockets::Report log_closed_sockets() {
  return [last = std::string()](std::uint64_t count, const std::string& problem) mutable {
    if (count > 0) {
      spdlog::info("reset {} connected UDP sockets whose backend is gone", count);
    }
    if (problem != std::exchange(last, problem) && !problem.empty()) {
      spdlog::warn("cannot reset UDP sockets of every network namespace: {}", problem);
    }
  };
}

void log_ended_flows(std::size_t entries) {
  if (entries > 0) {
    spdlog::info("ended redirected flows to backends behind IPsec policies: {} entries", entries);
  }
}

std::int64_t unix_nanoseconds(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

std::uint64_t unix_seconds(std::chrono::system_clock::time_point time) {
  return static_cast<std::uint64_t>(std::chrono::system_clock::to_time_t(time));
}

/// Everything that lives while the agent runs, in the order in which it comes up. Nothing before `datapath_`
/// changes anything of the kernel's.
class Agent final : public PlanSink {
 public:
  Agent(AgentOptions& options, const Start& start, EndSignals& ends);
  ~Agent() override { ends_.tell(nullptr); }
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  std::optional<Next> run();

 private:
  void apply(Batch batch, std::vector<PlanChange> changes) override;
  void measure(Batch batch, const Moment& start, const Moment& end);
  void measure_triggers();
  void update_readiness();
  void begin_service();
  void network_changed();
  bool choose_devices();
  void apply_addresses();
  void follow_node();
  void apply_xfrm();
  void hooks_looked_after(Look look);
  void look_for_kube_proxy();
  void await_signals();
  void await_hang_up();
  void answer_health_checks();
  void announce_taken_ports();
  void report_ports();
  void report_own_node();
  void complain(const k8s::Complaint& complaint);
  void no_health_check(const k8s::ObjectKey& service, const std::string& why);
  void require_family() const;
  [[nodiscard]] StartStep start_step() const;
  [[nodiscard]] Snapshot snapshot();
  [[nodiscard]] maps::Post post();
  void begin_again(const Sizes& sizes);
  void begin_with(AgentOptions options);
  void apply_live(AgentOptions next);
  void apply_conntrack();

  EndSignals& ends_;
  maps::Pins pins_;
  AgentOptions& given_;  ///< the caller's, for what of them changes while the agent runs
  const AgentOptions& options_;
  std::chrono::seconds ready_after_;
  asio::io_context context_{1};
  asio::signal_set hang_ups_{context_, SIGHUP};

  Inputs inputs_;
  Metrics metrics_;
  Health health_;
  Complaints complaints_;
  Pages pages_;
  Servers servers_;

  Datapath datapath_;
  lb_node before_;  ///< the node page as the last agent left it
  maps::MapSet maps_;
  maps::Store store_;
  std::unique_ptr<maps::KernelGrace> grace_;
  maps::FlowSweeper sweeper_;
  FlowCounter flow_counter_;
  ExpiryTimer expiry_;
  UdpSockets udp_sockets_;
  Tables tables_;
  TableReconciler table_reconciler_;
  MapResizer map_resizer_;

  PlanOptions plan_options_;
  Pacer pacer_;
  Cluster cluster_;
  ApiMemory api_memory_;
  Intake intake_;
  NodeWatch node_;
  ServedDevices served_devices_;
  NodePublisher node_publisher_;
  AttachmentReconciler attachment_reconciler_;
  Coexistence coexistence_;
  ConfigReconciler config_reconciler_;
  ServiceHealth service_health_;
  RedirectedFlows redirected_flows_;
  XfrmWatch xfrm_;

  enum class Phase : std::uint8_t { starting, planning, attaching, serving };
  Phase phase_ = Phase::starting;
  StartProgress start_progress_{context_, [this] {
                                  beat(pins_);
                                  return awaited(start_step(), inputs_.figures());
                                }};
  std::optional<Moment> first_batch_;
  std::optional<Next> next_;  ///< ends this agent
};

Agent::Agent(AgentOptions& options, const Start& start, EndSignals& ends)
    : ends_(ends),
      pins_(options.pins),
      given_(options),
      options_(options),
      ready_after_(start.readiness == Readiness::before ? std::chrono::seconds(0) : longest_start),
      inputs_(context_, options),
      pages_(
          health_, metrics_, Moment::now, [this] { return snapshot(); },
          FixedPages{configz(options), options.flags}),
      servers_(context_, options, pages_, metrics_, [this] { report_ports(); }),
      datapath_(Datapath::open(options)),
      before_(datapath_.page().read()),
      maps_(open_maps(pins_)),
      store_(maps_.store()),
      grace_(open_grace(post())),
      sweeper_({maps_.unassured4, maps_.unassured6, maps_.flows4, maps_.flows6, &maps_.affinity}, post(),
               {[hertz = before_.hertz] { return flow_clock_now(hertz); }, LB_UNASSURED_SECONDS}),
      flow_counter_(maps_, post()),
      expiry_(context_, maps_, options.timeouts, before_.hertz, metrics_),
      udp_sockets_(context_, datapath_.udp_cleanup(), namespaces_of(options.sockets), log_closed_sockets()),
      tables_(
          store_, *grace_, sweeper_, [this](const auto& complaint) { complain(complaint); },
          options.sizes.consistent_slots),
      table_reconciler_(context_, tables_, metrics_, options.growth, [this] { update_readiness(); }),
      map_resizer_(context_, {options, start.least_slots}, tables_, datapath_, health_,
                   [this](const auto& sizes) { begin_again(sizes); }),
      plan_options_(plan_options(options)),
      pacer_(*this,
             [this] {
               asio::post(context_, [this] {
                 pacer_.take_turn();
                 update_readiness();
               });
             }),
      cluster_(options.node, plan_options_, pacer_, [this](const auto& complaint) { complain(complaint); }),
      api_memory_(options.manifests.empty() ? options.state : std::string()),
      intake_(cluster_, options.node, metrics_, health_, Moment::now, [this] { update_readiness(); }),
      node_(
          context_, [this] { network_changed(); }, wanted_routes(options)),
      served_devices_(options, node_),
      node_publisher_(options, node_, served_devices_, intake_, {cluster_, tables_, datapath_.page()}),
      attachment_reconciler_(context_, datapath_, node_, served_devices_, metrics_,
                             [this](Look look) { hooks_looked_after(look); }),
      coexistence_(options, datapath_, metrics_),
      config_reconciler_(context_, options, metrics_,
                         {.apply_live = [this](auto next) { apply_live(std::move(next)); },
                          .begin_again = [this](auto next) { begin_with(std::move(next)); },
                          .report = [this](auto problem) { coexistence_.set_config(std::move(problem)); }}),
      service_health_(
          health_, Moment::now,
          [this](const Listen& listen, HttpHandler handler) {
            return HttpServer::open(context_, listen, std::move(handler), health_check_rules);
          },
          [this](const auto& service, const auto& why) { no_health_check(service, why); }),
      redirected_flows_(context_, maps_, log_ended_flows),
      xfrm_(context_, [this] { apply_xfrm(); }) {
  const auto see_servers = [this] {
    cluster_.set_api_servers(inputs_.api_servers());
    cluster_.flush();
  };
  intake_.remember_api_by(api_memory_);
  see_servers();
  inputs_.on_api_servers(see_servers);
  cluster_.take_turns([this] {
    asio::post(context_, [this] {
      cluster_.take_turn();
      update_readiness();
    });
  });
  cluster_.measure_triggers(unix_nanoseconds(std::chrono::system_clock::now()));
}

std::optional<Next> Agent::run() {
  spdlog::info("sluice {} for node {}: {}, pins {}", SLUICE_VERSION, options_.node, inputs_.text(),
               options_.pins);
  for (const auto& note : datapath_.notes()) {
    spdlog::warn("{}", note);
  }
  if (plan_options_.families.size() == 1) {
    spdlog::info("IPv6 is switched off on this node: nothing is served over it");
  }
  if (options_.manifests.empty()) {
    health_.eligibility(NodeEligibility::unknown);
  }
  if (auto adopted = tables_.adopt(); !adopted) {
    throw StartError(fmt::format("cannot read the pinned maps: {}; run as root", adopted.error().message()));
  } else if (adopted->services + adopted->frontends + adopted->backends == 0) {
    pacer_.pass_first(FirstBatch::in_parts);
  } else {
    spdlog::info("took over {} service ports, {} backends and {} frontends", adopted->services,
                 adopted->backends, adopted->frontends);
  }
  look_for_kube_proxy();
  if (xfrm_.policies().count > 0) {
    apply_xfrm();
  }
  report_ports();
  await_signals();
  beat(pins_);
  start_progress_.watch();
  expiry_.start();
  context_.run();
  return next_;
}

/// The waiting thread tells, and this one ends.
void Agent::await_signals() {
  await_hang_up();
  ends_.tell([this](int signal) {
    asio::post(context_, [this, signal] {
      spdlog::info("ending on signal {}; what is pinned goes on serving", signal);
      context_.stop();
    });
  });
}

void Agent::await_hang_up() {
  hang_ups_.async_wait([this](const auto& error, int /*signal*/) {
    if (!error) {
      table_reconciler_.repair();
      await_hang_up();
    }
  });
}

/// True: others serve than before.
bool Agent::choose_devices() {
  const bool changed = served_devices_.decide(intake_.node_addresses());
  coexistence_.set_uplinks(options_.serves_uplinks() && served_devices_.uplinks().empty()
                               ? "uplinks: --devices auto finds none"
                               : "");
  return changed;
}

/// The node comes first, so that the first plan knows its addresses.
void Agent::network_changed() {
  choose_devices();
  apply_addresses();
  coexistence_.devices_changed();
  if (phase_ == Phase::starting) {
    phase_ = Phase::planning;
    inputs_.start(intake_);
    announce_taken_ports();
    return;
  }
  cluster_.flush();
  update_readiness();
  if (phase_ == Phase::serving) {
    attachment_reconciler_.follow_devices();
  }
}

/// What is redirected passes no policy: new flows are refused first, then those that are there end.
void Agent::apply_xfrm() {
  const auto& policies = xfrm_.policies();
  spdlog::info("IPsec policies for what leaves: {}; new flows to backends behind them are refused",
               policies.count);
  node_publisher_.set_xfrm(policies.ranges);
  coexistence_.set_xfrm(policies.count);
  if (phase_ == Phase::serving) {
    node_publisher_.apply_ranges();
    redirected_flows_.end(policies.ranges);
  }
}

void Agent::apply_addresses() {
  node_publisher_.apply_addresses();
  table_reconciler_.retry_later();
}

/// The Node object has other addresses than before.
void Agent::follow_node() {
  const bool others = choose_devices();
  apply_addresses();
  if (others && phase_ == Phase::serving) {
    attachment_reconciler_.follow_devices();
  }
}

/// What else nobody tells.
void Agent::hooks_looked_after(Look look) {
  if (!service_health_.complete()) {
    answer_health_checks();
  }
  beat(pins_);
  node_publisher_.apply_kernel_ports();
  complaints_.say_held_back(std::chrono::steady_clock::now());
  coexistence_.look_at_reach(node_.network().devices(), served_devices_.uplinks());
  if (look == Look::thorough) {
    look_for_kube_proxy();
  }
  if (!health_.ready()) {
    update_readiness();
  }
}

void Agent::look_for_kube_proxy() {
  const auto found = coexistence_.look_for_kube_proxy();
  if (!found) {
    return;
  }
  node_publisher_.set_kube_proxy(*found);
  if (phase_ == Phase::serving) {
    node_publisher_.apply_ranges();
  }
}

/// A plan to the maps. The first one also brings the hooks up: no program sees a packet before there is a
/// plan.
void Agent::apply(Batch batch, std::vector<PlanChange> changes) {
  const auto count = changes.size();
  const auto start = Moment::now();
  const bool udp = std::ranges::any_of(changes, concerns_udp);
  tables_.apply(batch, std::move(changes));
  if (udp) {
    udp_sockets_.backend_ended();
  }
  const auto end = Moment::now();
  measure(batch, start, end);
  spdlog::debug("wrote {} services in {} µs", count,
                std::chrono::duration_cast<std::chrono::microseconds>(end.steady - start.steady).count());
  if (!first_batch_) first_batch_ = end;
  if (phase_ == Phase::planning && !pacer_.waits()) {
    phase_ = Phase::attaching;
    asio::post(context_, [this] { begin_service(); });
  }
  table_reconciler_.retry_later();
}

/// The first batch answers to no event.
void Agent::measure(Batch batch, const Moment& start, const Moment& end) {
  metrics_.published(batch == Batch::whole ? Sync::full : Sync::partial, end.steady - start.steady, end.wall);
  if (const auto burst = intake_.burst(); burst && batch == Batch::changes) {
    metrics_.flipped(end.steady - burst->steady);
  }
}

/// As in kube-proxy, what fails is not measured, and what changed no plan is.
void Agent::measure_triggers() {
  const auto now = unix_nanoseconds(std::chrono::system_clock::now());
  for (const auto& [key, times] : cluster_.take_triggers()) {
    if (tables_.failed(key.service)) {
      continue;
    }
    for (const auto time : times) {
      metrics_.programmed(key.family, std::chrono::nanoseconds(now - time));
    }
  }
}

/// Nothing that is addressed to this node could be served (SEM-85). No hook is attached yet.
void Agent::require_family() const {
  const auto& family = cluster_.node().family;
  if (family && std::ranges::find(plan_options_.families, *family) == plan_options_.families.end()) {
    if (before_.started == 0) {
      detach_pins(pins_);
    }
    throw StartError(
        "the Node's first address is IPv6, which is switched off on this node "
        "(net.ipv6.conf.all.disable_ipv6, or a "
        "kernel without it): switch it on");
  }
}

void Agent::begin_service() {
  require_family();
  const auto other_layouts = take_over_hooks(pins_);
  const auto report = attachment_reconciler_.attach();
  if (const auto failure = report.failure(); !failure.empty()) {
    if (before_.started == 0 && other_layouts.empty()) {
      detach_all(pins_);
    }
    throw StartError(failure + "; see --devices, --xdp and --sockets for what to leave out");
  }
  apply_conntrack();
  for (const auto& each : other_layouts) {
    spdlog::info("took over {} hooks of map layout {}; flows in its tables are found again by their hash",
                 each.hooks, each.layout);
    remove_other_layout(pins_, each);
  }
  phase_ = Phase::serving;
  maps_.shed();
  ::malloc_trim(0);  // what the first lists took in passing goes back: the allocator would keep it for good
  attachment_reconciler_.start();
  redirected_flows_.end(xfrm_.policies().ranges);  // an earlier agent's
  flow_counter_.refresh();                         // for the first scrape
  coexistence_.look_at_reach(node_.network().devices(), served_devices_.uplinks());
  table_reconciler_.repair_later();
  map_resizer_.watch_slots();
  datapath_.page().set_started(unix_seconds(first_batch_->wall));
  const auto counts = cluster_.counts();
  spdlog::info("serving; services: {}, endpoints: {}; sockets: {}; packets: {}", counts.services,
               counts.endpoints, report.sockets_text(), report.packets_text());
  if (const auto missing = datapath_.features().missing(); !missing.empty()) {
    spdlog::info("without: {}", missing);
  }
  update_readiness();
}

/// Nothing of what came is left to plan or to write, save what waits for a retry: one service that does not
/// fit must not take the node out of its load balancers for good.
void Agent::update_readiness() {
  table_reconciler_.report_fullness();
  map_resizer_.make();
  measure_triggers();
  datapath_.page().set_zone(cluster_.node().zone);
  if (node_publisher_.addresses_changed() || served_devices_.node_addresses() != intake_.node_addresses()) {
    follow_node();
  }
  node_publisher_.apply_ranges();
  report_own_node();
  const auto now = Moment::now();
  const bool whole = tables_.complete() && !cluster_.waits() && !pacer_.waits();
  const bool begun = phase_ == Phase::serving &&
                     (health_.ready() || whole || now.steady - first_batch_->steady >= ready_after_);
  if (begun) {
    health_.applied(now);
    answer_health_checks();
  }
}

StartStep Agent::start_step() const {
  if (health_.ready()) return StartStep::serving;
  if (phase_ == Phase::starting) return StartStep::network;
  if (!first_batch_) return intake_.listed() ? StartStep::plan : StartStep::objects;
  if (phase_ != Phase::serving) return StartStep::plan;
  if (cluster_.waits()) return StartStep::labels;
  return pacer_.waits() ? StartStep::turns : StartStep::tables;
}

void Agent::begin_again(const Sizes& sizes) {
  next_ = {sizes, health_.ready() ? Readiness::before : Readiness::never,
           sizes.slots < maps_.slots.size() ? SizeChange::smaller : SizeChange::larger};
  context_.stop();
}

void Agent::begin_with(AgentOptions options) {
  next_ = {options_.sizes, health_.ready() ? Readiness::before : Readiness::never, SizeChange::larger,
           std::move(options)};
  context_.stop();
}

/// What nothing else of the agent keeps a copy of.
void Agent::apply_live(AgentOptions next) {
  const bool conntrack = next.conntrack != options_.conntrack;
  take_live(given_, std::move(next));
  start_log(options_.log_level, options_.log_format);
  adjust_oom_score(options_.oom_score_adj);
  pages_.show({configz(options_), options_.flags});
  if (conntrack && phase_ == Phase::serving) {
    apply_conntrack();
  }
}

void Agent::apply_conntrack() {
  if (const auto problem = set_conntrack(options_.conntrack, online_cpus()); !problem.empty()) {
    spdlog::warn("{}", problem);
  }
}

void Agent::answer_health_checks() {
  service_health_.serve(cluster_.health_checks(), node_publisher_.health_addresses());
  report_ports();
}

/// People see it where they look at their Node, as kube-proxy has it.
void Agent::announce_taken_ports() {
  for (const auto& server : servers_.waiting()) {
    inputs_.post({{"", options_.node}, server.event, server.problem, k8s::EventSubject::node});
  }
}

/// Ports that another process holds, to `status` and to the metrics.
void Agent::report_ports() {
  std::string text;
  for (const auto& server : servers_.waiting()) {
    text += (text.empty() ? "" : "; ") + server.problem;
  }
  const auto checks = service_health_.waiting();
  if (checks > 0) {
    text += fmt::format("{}{} health-check node ports are taken", text.empty() ? "" : "; ", checks);
  }
  metrics_.ports_waiting("health-check", checks);
  coexistence_.set_ports(std::move(text));
}

/// Without its Node the agent knows no zone, no address and no pods' range of its own.
void Agent::report_own_node() {
  const bool expected = options_.manifests.empty() || intake_.any_node();
  const bool missing = expected && intake_.own_node_is_missing();
  const bool is_news =
      coexistence_.set_node(missing ? fmt::format("Node {}: there is none of that name", options_.node) : "");
  if (is_news && missing) {
    complain({fmt::format("Node {}", options_.node), "",
              "there is none of that name, so this node has no zone, no addresses and no pods' range of its "
              "own: give the name that it has in the cluster with --node"});
  }
}

void Agent::complain(const k8s::Complaint& complaint) {
  metrics_.complained();
  complaints_.say(complaint, std::chrono::steady_clock::now());
}

/// Its people see it where they look at their Service (SEM-58).
void Agent::no_health_check(const k8s::ObjectKey& service, const std::string& why) {
  complain({"Service " + service.text(), "", why});
  inputs_.post({service, "FailedToStartServiceHealthcheck", fmt::format("node {} {}", options_.node, why)});
}

Snapshot Agent::snapshot() {
  Snapshot snapshot;
  snapshot.fills = tables_.fills();
  snapshot.fills.insert(snapshot.fills.end(), flow_counter_.last().begin(), flow_counter_.last().end());
  if (const auto counted = flow_counter_.counted()) {
    snapshot.flows_age = std::chrono::steady_clock::now() - *counted;
  }
  flow_counter_.refresh();
  snapshot.extents = tables_.extents();
  snapshot.objects = cluster_.counts();
  std::tie(snapshot.services, snapshot.services_left_out) = tables_.services(options_.service_metrics);
  snapshot.api = inputs_.figures();
  snapshot.frames_lost = datapath_.frames_lost();
  if (const auto outcomes = maps_.stats()) {
    snapshot.outcomes = *outcomes;
  }
  return snapshot;
}

/// To this thread, from any; what runs may leave something to retry.
maps::Post Agent::post() {
  return [this](std::function<void()> action) {
    asio::post(context_, [this, action = std::move(action)] {
      action();
      map_resizer_.make();
      table_reconciler_.retry_later();
      if (!health_.ready()) {
        update_readiness();
      }
    });
  };
}

}  // namespace

std::optional<Next> serve(AgentOptions& options, const Start& start, EndSignals& ends) {
  return Agent(options, start, ends).run();
}

}  // namespace lb::agent
