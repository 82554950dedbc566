// SPDX-License-Identifier: Apache-2.0
// Each resource has a watcher, which drives its reflector with a connection and a timer, and delivers objects
// that arrive together as one burst.
#include "k8s/watch/api_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <variant>

#include "k8s/objects/peer_labels.hpp"
#include "k8s/watch/lingering_labels.hpp"

namespace lb::k8s {
namespace {

constexpr std::string_view proxy_label = "service.kubernetes.io/service-proxy-name";
constexpr std::string_view headless_label = "service.kubernetes.io/headless";

/// At most `max_failures` messages are reported in `failure_period`, because all watches fail together.
constexpr unsigned max_failures = 4;
constexpr Time failure_period{30'000};

void erase_from(Sink& sink, Kind kind, const ObjectKey& key) {
  switch (kind) {
    case Kind::service:
      sink.erase_service(key);
      break;
    case Kind::slice:
      sink.erase_slice(key);
      break;
    case Kind::node:
      sink.erase_node(key.name);
      break;
    case Kind::service_cidr:
      sink.erase_service_cidr(key.name);
      break;
    case Kind::other:
      break;
  }
}

ObjectKey key_of(const Object& object) {
  struct Visit {
    ObjectKey operator()(const Service& service) const { return service.key; }
    ObjectKey operator()(const EndpointSlice& slice) const { return slice.key; }
    ObjectKey operator()(const Node& node) const { return {"", node.name}; }
    ObjectKey operator()(const ServiceCidr& cidr) const { return {"", cidr.name}; }
  };
  return std::visit(Visit{}, object);
}

/// Keeps the trigger times of replaced updates: each update's latency is measured, also if only the last
/// update is reported (SEM-88).
void keep_triggers(const Object& earlier, Object& later) {
  const auto* from = std::get_if<EndpointSlice>(&earlier);
  if (auto* to = std::get_if<EndpointSlice>(&later); from != nullptr && to != nullptr) {
    to->triggers.insert(to->triggers.begin(), from->triggers.begin(), from->triggers.end());
  }
}

/// Name of the resource in metrics; the two watches of Nodes need different names.
std::string_view resource_name(const Resource& resource) {
  if (resource.form == ObjectForm::metadata) {
    return "peer_nodes";
  }
  return std::string_view(resource.path).substr(resource.path.rfind('/') + 1);
}

std::string service_selector(const std::string& proxy_name) {
  return proxy_name.empty() ? fmt::format("!{}", proxy_label) : fmt::format("{}={}", proxy_label, proxy_name);
}

std::string slice_selector(const std::string& more) {
  return fmt::format("!{}{}{}", headless_label, more.empty() ? "" : ",", more);
}

/// Limits the rate of failure messages, and reports how many were suppressed.
class FailureGate {
 public:
  explicit FailureGate(ApiSource::Failure report) : report_(std::move(report)) {}

  FailureReport report(std::string message, Time now) {
    if (!since_ || now - *since_ >= failure_period) {
      since_ = now;
      reported_ = 0;
    }
    if (reported_ == max_failures) {
      ++kept_back_;
      return FailureReport::kept_back;
    }
    ++reported_;
    if (const auto others = std::exchange(kept_back_, 0); others > 0) {
      message += fmt::format(" (and {} more such failures since the last)", others);
    }
    report_(std::move(message));
    return FailureReport::reported;
  }

 private:
  ApiSource::Failure report_;
  std::optional<Time> since_;
  unsigned reported_ = 0;
  unsigned kept_back_ = 0;
};

}  // namespace

struct ApiSource::State {
  State(ApiScope of, ApiRuntime with, Sink& to, Failure failure, const Timeouts& waits)
      : scope(std::move(of)),
        runtime(std::move(with)),
        sink(to),
        failures(std::move(failure)),
        timeouts(waits),
        seed(runtime.seed),
        asked(scope.topology_labels),
        lingering(timeouts.labels),
        labels_alarm(runtime.alarm()) {}

  /// Call after each step of a watcher.
  void flush_burst(const ResourceWatcher& turned);
  [[nodiscard]] std::unique_ptr<ResourceWatcher> follow(Resource resource);
  void follow_peers();
  void arm_labels();
  void drop_labels();
  void flush();
  void note(const Object& object);
  void note_erased(Kind kind, const ObjectKey& key);

  ApiScope scope;
  ApiRuntime runtime;
  Sink& sink;
  FailureGate failures;
  Timeouts timeouts;
  std::uint32_t seed;
  std::vector<std::unique_ptr<ResourceWatcher>> watchers;
  AskedLabels asked;
  LingeringLabels lingering;
  std::unique_ptr<Alarm> labels_alarm;     ///< rings when a label has lingered long enough
  std::optional<Time> labels_due;          ///< its time; nullopt: not set
  std::unique_ptr<ResourceWatcher> peers;  ///< watches the other Nodes; null: not needed
  bool synced = false;
  bool unflushed = false;
};

/// Watches one resource: has its reflector, connection and alarm.
class ApiSource::ResourceWatcher final : public Listener, public ResponseHandler {
 public:
  ResourceWatcher(State& state, Resource resource)
      : state_(state),
        connection_(state.runtime.connection()),
        alarm_(state.runtime.alarm()),
        reflector_(std::move(resource), state.scope.encoding, state.timeouts, ++state.seed, *this),
        last_heard_(state_.runtime.now()) {
    stats_.resource = resource_name(reflector_.resource());
  }

  void step();
  /// Restricts reported Node labels to these keys; if one of them is unknown so far, all Nodes are listed
  /// again.
  void keep(LabelKeys labels);
  [[nodiscard]] Kind kind() const { return reflector_.resource().kind; }
  [[nodiscard]] bool listing() const { return reflector_.listing(); }
  [[nodiscard]] bool gate_open() const {
    return reflector_.synced() || reflector_.resource().presence == Presence::optional;
  }
  [[nodiscard]] ApiStats stats() const;

  void upsert(Object object) override;
  void erase(Kind kind, const ObjectKey& key) override;
  void complain(Complaint complaint) override;
  FailureReport failure(std::string message) override;
  void listed(Kind kind) override;

  ReadControl head(const ApiHead& head) override;
  ReadControl body(std::string_view bytes) override;
  void end(End how, std::string detail) override;

 private:
  void arm();
  void ring();
  void report_changes();
  void know(LabelKeys labels);
  void report_labels(LabelKeys labels);

  State& state_;
  std::unique_ptr<ApiConnection> connection_;
  std::unique_ptr<Alarm> alarm_;
  Reflector reflector_;
  bool asking_ = false;
  std::optional<Time> armed_;
  /// The last change of each object in the current burst; nullopt: deleted.
  std::map<ObjectKey, std::optional<Object>> changes_;
  std::optional<LabelKeys> labels_;  ///< keys of the Node labels to report; nullopt: all
  LabelKeys known_labels_;           ///< as last reported to the sink
  bool listed_ = false;              ///< a list is complete, and its last objects are not reported yet
  ApiStats stats_;
  Time last_heard_;
};

/// A list is complete before it is flushed, and the changes of a relist are one burst.
void ApiSource::State::flush_burst(const ResourceWatcher& turned) {
  const auto open = [](const auto& watcher) { return watcher->gate_open(); };
  if (!synced && std::ranges::all_of(watchers, open)) {
    synced = true;
    unflushed = false;
    sink.synced();
  }
  if (turned.listing()) {
    return;
  }
  if (turned.kind() == Kind::service) {
    follow_peers();
  }
  flush();
}

void ApiSource::State::flush() {
  if (synced && std::exchange(unflushed, false)) {
    sink.flush();
  }
}

std::unique_ptr<ApiSource::ResourceWatcher> ApiSource::State::follow(Resource resource) {
  return std::make_unique<ResourceWatcher>(*this, std::move(resource));
}

void ApiSource::State::note(const Object& object) {
  if (const auto* service = std::get_if<Service>(&object)) {
    asked.set(*service);
  }
}

void ApiSource::State::note_erased(Kind kind, const ObjectKey& key) {
  if (kind == Kind::service) {
    asked.erase(key);
  }
}

/// Call only while no list of Services is under way.
void ApiSource::State::follow_peers() {
  auto labels = lingering.update(asked.all(), runtime.now());
  arm_labels();
  const bool wanted = !labels.empty();
  if (wanted && !peers) {
    peers = follow(peer_nodes(scope));
    peers->keep(std::move(labels));
  } else if (peers) {
    peers->keep(std::move(labels));
  }
  if (!wanted) {
    peers.reset();
  }
}

void ApiSource::State::arm_labels() {
  const auto due = lingering.due();
  if (due && due != labels_due) {
    labels_alarm->set(*due, [this] { drop_labels(); });
  }
  labels_due = due;
}

/// During a list of Services it is not known which labels they ask for; the list's end drops labels, too.
void ApiSource::State::drop_labels() {
  labels_due.reset();
  const auto lists_services = [](const auto& watcher) {
    return watcher->kind() == Kind::service && watcher->listing();
  };
  if (std::ranges::none_of(watchers, lists_services)) {
    follow_peers();
    flush();
  }
}

void ApiSource::ResourceWatcher::step() {
  if (const auto request = reflector_.begin(state_.runtime.now())) {
    ++stats_.requests;
    asking_ = true;
    connection_->ask(*request, *this);
  }
  arm();
}

/// A later deadline does not move the alarm: it fires at the old time and is set again.
void ApiSource::ResourceWatcher::arm() {
  const auto deadline = reflector_.deadline();
  if (!armed_ || deadline < *armed_) {
    armed_ = deadline;
    alarm_->set(deadline, [this] { ring(); });
  }
}

void ApiSource::ResourceWatcher::ring() {
  armed_.reset();
  if (state_.runtime.now() < reflector_.deadline()) {
    arm();
  } else if (asking_) {
    const auto server = connection_->server();
    connection_->cancel();
    end(End::timed_out, server);
  } else {
    step();
  }
}

ReadControl ApiSource::ResourceWatcher::head(const ApiHead& head) {
  last_heard_ = state_.runtime.now();
  stats_.failures += head.status == 200 ? 0 : 1;
  return reflector_.head(head, last_heard_);
}

ReadControl ApiSource::ResourceWatcher::body(std::string_view bytes) {
  last_heard_ = state_.runtime.now();
  state_.sink.arrived();
  stats_.bytes += bytes.size();
  const auto control = reflector_.body(bytes, last_heard_);
  report_changes();
  state_.flush_burst(*this);
  return control;
}

void ApiSource::ResourceWatcher::end(End how, std::string detail) {
  asking_ = false;
  const bool good = how == End::complete || how == End::stopped || reflector_.quiet(how);
  stats_.failures += good ? 0 : 1;
  reflector_.end(how, state_.runtime.now(), std::move(detail));
  report_changes();
  state_.flush_burst(*this);
  step();
}

/// Labels that are no longer requested become unknown, because they are not kept up to date. So do labels
/// reported by an incomplete list, unless they are known; that list is cancelled, also if fewer labels are
/// requested than when it began.
void ApiSource::ResourceWatcher::keep(LabelKeys labels) {
  if (labels_ == labels) {
    return;
  }
  const auto before = std::exchange(labels_, std::move(labels));
  if (!before) {
    if (state_.synced) {
      reflector_.spread(state_.runtime.now());
    }
    return step();
  }
  LabelKeys still;
  std::ranges::set_intersection(known_labels_, *labels_, std::inserter(still, still.end()));
  if (before != still) {
    report_labels(std::move(still));
  }
  if (known_labels_ != labels_) {
    connection_->cancel();
    asking_ = false;
    reflector_.relist(state_.runtime.now());
    step();
  }
}

void ApiSource::ResourceWatcher::know(LabelKeys labels) {
  if (known_labels_ != labels) {
    report_labels(std::move(labels));
  }
}

void ApiSource::ResourceWatcher::report_labels(LabelKeys labels) {
  known_labels_ = std::move(labels);
  state_.sink.labels_known(known_labels_);
  state_.unflushed = true;
}

void ApiSource::ResourceWatcher::upsert(Object object) {
  if (auto* node = std::get_if<Node>(&object); node != nullptr && labels_) {
    keep_labels(*node, *labels_);
  }
  auto& last = changes_[key_of(object)];
  if (last) {
    keep_triggers(*last, object);
  }
  last = std::move(object);
}

void ApiSource::ResourceWatcher::erase(Kind /*kind*/, const ObjectKey& key) { changes_[key] = std::nullopt; }

void ApiSource::ResourceWatcher::complain(Complaint complaint) {
  ++stats_.problems;
  state_.sink.complain(std::move(complaint));
}

FailureReport ApiSource::ResourceWatcher::failure(std::string message) {
  return state_.failures.report(std::move(message), state_.runtime.now());
}

void ApiSource::ResourceWatcher::listed(Kind /*kind*/) {
  ++stats_.lists;
  listed_ = true;
}

void ApiSource::ResourceWatcher::report_changes() {
  auto changes = std::exchange(changes_, {});
  for (const auto& [key, object] : changes) {
    if (!object) {
      state_.note_erased(kind(), key);
      erase_from(state_.sink, kind(), key);
    }
  }
  for (auto& [key, object] : changes) {
    if (object) {
      state_.note(*object);
      std::visit([this](auto& value) { state_.sink.upsert(std::move(value)); }, *object);
    }
  }
  state_.unflushed = state_.unflushed || !changes.empty();
  if (std::exchange(listed_, false) && labels_) {
    know(*labels_);
  }
}

ApiStats ApiSource::ResourceWatcher::stats() const {
  auto stats = stats_;
  stats.objects = reflector_.objects();
  stats.stream = reflector_.counts();
  stats.silence = state_.runtime.now() - last_heard_;
  return stats;
}

// ---- The source. ----

std::vector<Resource> api_resources(const ApiScope& scope) {
  return {
      {Kind::service, "/api/v1/services", service_selector(scope.service_proxy_name), "spec.clusterIP!=None"},
      {Kind::slice, "/apis/discovery.k8s.io/v1/endpointslices", slice_selector(scope.slice_selector), ""},
      {Kind::node, "/api/v1/nodes", "", fmt::format("metadata.name={}", scope.node)},
      {Kind::service_cidr, "/apis/networking.k8s.io/v1/servicecidrs", "", "", Presence::optional},
  };
}

/// Metadata only: the rest of a Node is large and changes all the time.
Resource peer_nodes(const ApiScope& scope) {
  return {Kind::node,         "/api/v1/nodes",     "", fmt::format("metadata.name!={}", scope.node),
          Presence::required, ObjectForm::metadata};
}

ApiSource::ApiSource(const ApiScope& scope, ApiRuntime runtime, Sink& sink, Failure failure,
                     Timeouts timeouts)
    : state_(std::make_unique<State>(scope, std::move(runtime), sink, std::move(failure), timeouts)) {
  for (auto& resource : api_resources(scope)) {
    state_->watchers.push_back(state_->follow(std::move(resource)));
  }
}

ApiSource::~ApiSource() = default;

void ApiSource::start() {
  state_->sink.labels_known({});
  for (const auto& watcher : state_->watchers) {
    watcher->step();
  }
}

std::vector<ApiStats> ApiSource::stats() const {
  std::vector<ApiStats> stats;
  for (const auto& watcher : state_->watchers) {
    stats.push_back(watcher->stats());
  }
  if (state_->peers) {
    stats.push_back(state_->peers->stats());
  }
  return stats;
}

}  // namespace lb::k8s
