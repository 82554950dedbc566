// SPDX-License-Identifier: Apache-2.0
// The agent's start-up and event handling: the events, and the resulting steps, in order. One thread and one
// io_context; the only other threads are helpers, which wait for grace periods and for signals.
//
// Plans are written at once, as they arrive (agent/run/components.hpp shows the path). For everything else,
// events mark steps, and one reconcile(), soon after, runs the marked steps in the order of enum Step.
#include "agent/run/serve.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/base/log.hpp"
#include "agent/base/oom_score.hpp"
#include "agent/netlink/conntrack.hpp"
#include "agent/observe/configz.hpp"
#include "agent/run/components.hpp"
#include "agent/run/first_attach.hpp"
#include "agent/run/pending_steps.hpp"
#include "agent/run/start_phase.hpp"
#include "agent/run/start_progress.hpp"

namespace lb::agent {
namespace {

namespace asio = boost::asio;

void log_refusal(const ProgramRefusal& refusal) {
  spdlog::warn("{}", refusal_text(refusal));
  for (const auto& attempt : refusal.attempts) {
    if (!attempt.without.empty()) {
      spdlog::warn("{} is refused without {}, too: {}", refusal.program, attempt.without, attempt.reason);
    }
  }
}

/// "client addresses not kept: default/web and 2 more", for `status`, where there is little room.
std::string clients_text(const std::vector<std::string>& services) {
  if (services.empty()) {
    return {};
  }
  const auto text = "client addresses not kept: " + services.front();
  return services.size() == 1 ? text : fmt::format("{} and {} more", text, services.size() - 1);
}

class Agent final : public Events {
 public:
  Agent(AgentOptions& options, const Start& start, EndSignals& ends);
  ~Agent() override { ends_.on_signal(nullptr); }
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  std::optional<Next> run();

 private:
  void await_end();
  void await_sighup();

  void network_changed() override;
  void objects_changed() override;
  void api_servers_changed() override { pending_.mark({Step::plans}); }
  void plans_written(const Moment& end) override;
  void tables_changed() override;
  void hooks_checked(CheckDepth depth) override;
  void ipsec_changed() override { pending_.mark({Step::ipsec}); }
  void port_opened() override { pending_.mark({Step::reports}); }
  void options_changed(AgentOptions next) override;
  void must_begin_with(AgentOptions next) override;
  void must_begin_with(const Sizes& sizes) override;
  void begin_again(Next next);

  void follow_routes();
  void reconcile();
  void act(Step step);
  void choose_devices();
  void publish_addresses();
  void start_source();
  void report_absence();
  void report_refusals();
  void check_kube_proxy();
  void publish_node();
  void attach();
  void maintain_tables();
  void check_readiness();
  void serve_health_checks();
  void check_unreported();
  void apply_conntrack() const;

  EndSignals& ends_;
  AgentOptions& options_;  ///< the caller's, because some change while the agent runs
  asio::io_context context_{1};
  asio::signal_set sighup_{context_, SIGHUP};
  PendingSteps pending_{[this] { asio::post(context_, [this] { reconcile(); }); }};
  StartPhase phase_;
  std::optional<std::string> absence_;
  std::vector<ProgramRefusal>& reported_;
  std::optional<Next> next_;  ///< set to end this agent
  Components components_;
  StartProgress start_progress_;
};

Agent::Agent(AgentOptions& options, const Start& start, EndSignals& ends)
    : ends_(ends),
      options_(options),
      phase_(start.readiness),
      absence_(start.absence),
      reported_(start.refusals),
      components_(context_, options, start.lock, start.min_slots, *this),
      start_progress_(context_, [this] {
        components_.heartbeat();
        return awaited(phase_.step(components_.backlog()), components_.inputs.stats());
      }) {}

std::optional<Next> Agent::run() {
  components_.log_start();
  if (options_.manifests.empty()) {
    components_.health.eligibility(NodeEligibility::unknown);
  }
  components_.adopt();
  pending_.mark({Step::kube_proxy, Step::reports});
  if (components_.ipsec.any()) {
    pending_.mark({Step::ipsec});
  }
  await_sighup();
  await_end();
  components_.heartbeat();
  start_progress_.watch();
  components_.expiry.start();
  context_.run();
  return std::move(next_);
}

/// The callback runs in the waiting thread; this thread ends the agent.
void Agent::await_end() {
  ends_.on_signal([this](int signal) {
    asio::post(context_, [this, signal] {
      spdlog::info("exiting on signal {}; the pinned programs keep serving", signal);
      context_.stop();
    });
  });
}

void Agent::await_sighup() {
  sighup_.async_wait([this](const auto& error, int /*signal*/) {
    if (!error) {
      pending_.mark({Step::repair});
      await_sighup();
    }
  });
}

// ---- Events. ----

void Agent::network_changed() {
  components_.coexistence.devices_changed();
  components_.backend_routes.note_change();
  pending_.mark({Step::devices, Step::addresses, Step::source, Step::plans, Step::hooks, Step::lost_sources});
  objects_changed();
}

void Agent::objects_changed() {
  if (components_.node_publisher.addresses_changed() ||
      components_.served_devices.node_addresses() != components_.cluster.node().object_addresses) {
    pending_.mark({Step::devices, Step::addresses});
  }
  pending_.mark(
      {Step::triggers, Step::node, Step::tables, Step::readiness, Step::health_checks, Step::reports});
}

void Agent::plans_written(const Moment& end) {
  phase_.wrote(end, components_.backlog());
  components_.backend_routes.note_change();
  pending_.mark({Step::attach, Step::tables});
}

void Agent::tables_changed() {
  pending_.mark({Step::tables, Step::readiness});
  if (!phase_.is_ready()) {
    pending_.mark({Step::health_checks});
  }
}

void Agent::hooks_checked(CheckDepth depth) {
  pending_.mark({Step::unreported_changes});
  follow_routes();
  if (components_.served_devices.is_due(std::chrono::steady_clock::now())) {
    pending_.mark({Step::devices, Step::addresses, Step::hooks});
  }
  if (depth == CheckDepth::thorough) {
    components_.backend_routes.check();
    pending_.mark({Step::kube_proxy});
  }
  if (!phase_.is_ready()) {
    pending_.mark({Step::readiness, Step::health_checks});
  }
  if (!components_.health_check_ports.complete()) {
    pending_.mark({Step::health_checks});
  }
}

/// Plans services again whose endpoints on this node are reached by other devices than before.
void Agent::follow_routes() {
  auto& backends = components_.local_backends;
  if (components_.routes.changed()) {
    backends.note_change();
  }
  const auto changes = backends.check(std::chrono::steady_clock::now());
  if (changes.forgotten) {
    components_.cluster.routes_forgotten();
  } else if (!changes.addresses.empty()) {
    components_.cluster.routes_changed(changes.addresses);
  } else {
    return;
  }
  pending_.mark({Step::plans});
}

/// Updates options of which no component keeps a copy.
void Agent::options_changed(AgentOptions next) {
  if (next.conntrack != options_.conntrack) {
    pending_.mark({Step::conntrack});
  }
  take_live(options_, std::move(next));
  start_log(options_.log_level, options_.log_format);
  adjust_oom_score(options_.oom_score_adj);
  components_.pages.show({configz(options_), options_.flags});
}

void Agent::must_begin_with(AgentOptions next) {
  begin_again({.sizes = options_.sizes, .options = std::move(next)});
}

void Agent::must_begin_with(const Sizes& sizes) {
  const bool smaller = sizes.slots < components_.maps.set.slots.size();
  begin_again({.sizes = sizes, .change = smaller ? SizeChange::smaller : SizeChange::larger});
}

void Agent::begin_again(Next next) {
  next.readiness = phase_.is_ready() ? Readiness::before : Readiness::never;
  next_ = std::move(next);
  context_.stop();
}

// ---- Steps. enum Step has their order, and the reasons. ----

void Agent::reconcile() {
  pending_.pass([this](Step step) { act(step); });
}

void Agent::act(Step step) {
  switch (step) {
    case Step::devices:
      return choose_devices();
    case Step::addresses:
      return publish_addresses();
    case Step::source:
      return start_source();
    case Step::plans:
      components_.cluster.set_api_servers(components_.inputs.api_servers());
      return components_.cluster.flush();
    case Step::triggers:
      return components_.plan_writer.measure_triggers(components_.cluster);
    case Step::ipsec:
      components_.ipsec.apply();
      return pending_.mark({Step::node, Step::redirected_flows});
    case Step::kube_proxy:
      return check_kube_proxy();
    case Step::node:
      return publish_node();
    case Step::attach:
      return phase_.phase() == Phase::attaching ? attach() : void();
    case Step::hooks:
      return phase_.is_serving() ? components_.attachment_reconciler.follow_devices() : void();
    case Step::redirected_flows:
      return phase_.is_serving() ? components_.ipsec.end_redirected_flows() : void();
    case Step::lost_sources:
      return phase_.is_serving() ? components_.lost_sources.follow(components_.node_publisher.addresses())
                                 : void();
    case Step::conntrack:
      return phase_.is_serving() ? apply_conntrack() : void();
    case Step::repair:
      return components_.table_reconciler.repair();
    case Step::tables:
      return maintain_tables();
    case Step::readiness:
      return check_readiness();
    case Step::health_checks:
      return phase_.is_ready() ? serve_health_checks() : void();
    case Step::unreported_changes:
      return check_unreported();
    case Step::reports:
      components_.own_node.report();
      components_.coexistence.set_clients(clients_text(components_.cluster.complaining(client_address_lost)));
      return phase_.phase() != Phase::starting ? components_.health_check_ports.report() : void();
  }
}

void Agent::choose_devices() {
  auto& served = components_.served_devices;
  if (served.decide(components_.cluster.node().object_addresses, std::chrono::steady_clock::now())) {
    components_.backend_routes.note_change();
    pending_.mark({Step::hooks});
  }
  components_.local_backends.set_uplinks(served.uplink_indices());
  components_.coexistence.set_uplinks(
      options_.serves_uplinks() && served.uplinks().empty() ? "uplinks: --devices auto finds none" : "");
}

void Agent::publish_addresses() {
  components_.node_publisher.apply_addresses();
  components_.coexistence.set_addresses(
      unserved_addresses_text(components_.node_publisher.unserved_addresses()));
}

void Agent::start_source() {
  if (phase_.set_network_known()) {
    components_.inputs.start(components_.intake);
    pending_.mark({Step::reports});
    report_absence();
    report_refusals();
  }
}

void Agent::report_absence() {
  if (!absence_) {
    return;
  }
  spdlog::warn("{}", *absence_);
  components_.inputs.post(
      {{"", options_.node}, "AgentWasAbsent", *absence_, k8s::EventSubject::node, "Start"});
}

/// Once for all agents of this process: the kernel stays the same.
void Agent::report_refusals() {
  std::vector<std::string> texts;
  for (const auto& refusal : components_.datapath.refusals()) {
    components_.metrics.program_refused(refusal.program, refusal.without);
    if (std::ranges::find(reported_, refusal) == reported_.end()) {
      log_refusal(refusal);
      texts.push_back(refusal_text(refusal));
      reported_.push_back(refusal);
    }
  }
  if (!texts.empty()) {
    components_.inputs.post({{"", options_.node},
                             "ProgramsRefused",
                             fmt::format("{}", fmt::join(texts, "; ")),
                             k8s::EventSubject::node,
                             "Start"});
  }
}

void Agent::check_kube_proxy() {
  if (const auto found = components_.coexistence.check_kube_proxy()) {
    components_.node_publisher.set_kube_proxy(*found);
    pending_.mark({Step::node});
  }
}

/// Until all objects are known, an earlier agent's values are more accurate.
void Agent::publish_node() {
  if (components_.intake.listed()) {
    components_.datapath.page().set_zone(components_.cluster.node().zone);
    components_.node_publisher.apply_ranges();
    pending_.mark({Step::tables});
  }
}

/// No program sees a packet before there is a plan.
void Agent::attach() {
  const auto former_agent = components_.before.started == 0 ? FormerAgent::none : FormerAgent::served;
  require_family(components_.cluster.node().family, components_.plan_options.families, components_.pins,
                 former_agent);
  components_.ipsec.publish_policy();
  components_.kube_proxy_flows.start();
  components_.conntrack_tracking.start();
  const auto report = attach_first(components_.attachment_reconciler, components_.pins, former_agent);
  components_.health.uplinks(report.uplinks_left_out() ? UplinkService::refused : UplinkService::served);
  phase_.attached();
  apply_conntrack();
  components_.start_reconcilers(phase_.first_batch()->wall);
  const auto counts = components_.cluster.counts();
  spdlog::info("serving; services: {}, endpoints: {}; sockets: {}; packets: {}", counts.services,
               counts.endpoints, report.sockets_text(), report.packets_text());
  if (const auto missing = components_.datapath.features().missing(); !missing.empty()) {
    spdlog::info("without: {}", missing);
  }
  // Flows of an earlier agent.
  pending_.mark({Step::redirected_flows, Step::lost_sources, Step::unreported_changes});
  objects_changed();
}

void Agent::maintain_tables() {
  components_.ipsec.publish_policy();
  components_.table_reconciler.report_fullness();
  components_.map_resizer.make();
  components_.table_reconciler.retry_later();
}

/// While the kernel refuses every write, changes stay queued, and /healthz reports it after a minute.
void Agent::check_readiness() {
  const auto now = Moment::now();
  if (phase_.check_ready(components_.backlog(), now) && !components_.tables.refuses_all()) {
    components_.health.applied(now);
    components_.metrics.synced(now.wall);
    components_.inputs.remove_startup_taint();
  }
}

void Agent::serve_health_checks() {
  components_.health_check_ports.serve(components_.cluster.health_checks(),
                                       components_.node_publisher.health_addresses());
  pending_.mark({Step::reports});
}

/// Checks facts without kernel notifications.
void Agent::check_unreported() {
  components_.heartbeat();
  components_.node_publisher.apply_kernel_ports();
  components_.complaints.log_suppressed(std::chrono::steady_clock::now());
  if (components_.health_check_ports.follow_drain(components_.datapath.page().read().policy.draining)) {
    pending_.mark({Step::health_checks});
  }
  pending_.mark({Step::reports});
  components_.coexistence.check_reach(components_.node.network().devices(),
                                      components_.served_devices.uplinks());
}

void Agent::apply_conntrack() const {
  if (const auto problem = set_conntrack(options_.conntrack, online_cpus()); !problem.empty()) {
    spdlog::warn("{}", problem);
  }
}

}  // namespace

std::optional<Next> serve(AgentOptions& options, const Start& start, EndSignals& ends) {
  return Agent(options, start, ends).run();
}

}  // namespace lb::agent
