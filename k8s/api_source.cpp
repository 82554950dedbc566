// One follower a resource drives its reflector by its line and its alarm, and hands on what comes together at
// once.
#include "k8s/api_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <variant>

namespace lb::k8s {
namespace {

constexpr std::string_view proxy_label = "service.kubernetes.io/service-proxy-name";
constexpr std::string_view headless_label = "service.kubernetes.io/headless";

/// So many sentences about servers are told in so long a time; four watches fail together.
constexpr unsigned most_troubles = 4;
constexpr Time trouble_period{30'000};

void tell_erased(Sink& sink, Kind kind, const ObjectKey& key) {
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

/// Each update is measured, also where only the last one is told (SEM-88).
void keep_triggers(const Object& earlier, Object& later) {
  const auto* from = std::get_if<EndpointSlice>(&earlier);
  if (auto* to = std::get_if<EndpointSlice>(&later); from != nullptr && to != nullptr) {
    to->triggers.insert(to->triggers.begin(), from->triggers.begin(), from->triggers.end());
  }
}

std::string_view resource_name(const Resource& resource) {
  return std::string_view(resource.path).substr(resource.path.rfind('/') + 1);
}

std::string service_selector(const std::string& proxy_name) {
  return proxy_name.empty() ? fmt::format("!{}", proxy_label) : fmt::format("{}={}", proxy_label, proxy_name);
}

std::string slice_selector(const std::string& more) {
  return fmt::format("!{}{}{}", headless_label, more.empty() ? "" : ",", more);
}

/// Lets through what a log can bear, and says how much it did not.
class TroubleGate {
 public:
  explicit TroubleGate(ApiSource::Trouble tell) : tell_(std::move(tell)) {}

  void tell(std::string sentence, Time now) {
    if (!since_ || now - *since_ >= trouble_period) {
      since_ = now;
      told_ = 0;
    }
    if (told_ == most_troubles) {
      ++kept_back_;
      return;
    }
    ++told_;
    if (const auto others = std::exchange(kept_back_, 0); others > 0) {
      sentence += fmt::format(" (and {} more such troubles since the last)", others);
    }
    tell_(std::move(sentence));
  }

 private:
  ApiSource::Trouble tell_;
  std::optional<Time> since_;
  unsigned told_ = 0;
  unsigned kept_back_ = 0;
};

}  // namespace

struct ApiSource::State {
  State(ApiWorld with, Sink& to, Trouble trouble)
      : world(std::move(with)), sink(to), troubles(std::move(trouble)) {}

  /// To be called after each turn of a follower.
  void settle(const Follower& turned);

  ApiWorld world;
  Sink& sink;
  TroubleGate troubles;
  std::vector<std::unique_ptr<Follower>> followers;
  bool synced = false;
  bool unflushed = false;
};

/// A resource: its reflector, its line, its alarm.
class ApiSource::Follower final : public Listener, public AnswerReader {
 public:
  Follower(State& state, Resource resource, ApiEncoding encoding, const Patience& patience,
           std::uint32_t seed)
      : state_(state),
        line_(state.world.line()),
        alarm_(state.world.alarm()),
        reflector_(std::move(resource), encoding, patience, seed, *this),
        last_heard_(state_.world.now()) {
    figures_.resource = resource_name(reflector_.resource());
  }

  void step();
  [[nodiscard]] bool listing() const { return reflector_.listing(); }
  [[nodiscard]] bool gate_open() const {
    return reflector_.synced() || reflector_.resource().presence == Presence::optional;
  }
  [[nodiscard]] ApiFigures figures() const;

  void upsert(Object object) override;
  void erase(Kind kind, const ObjectKey& key) override;
  void complain(Complaint complaint) override;
  void trouble(std::string sentence) override;
  void listed(Kind kind) override;

  Flow head(const ApiHead& head) override;
  Flow body(std::string_view bytes) override;
  void end(End how, std::string detail) override;

 private:
  void arm();
  void ring();
  void tell_changes();

  State& state_;
  std::unique_ptr<ApiLine> line_;
  std::unique_ptr<Alarm> alarm_;
  Reflector reflector_;
  bool asking_ = false;
  std::optional<Time> armed_;
  /// Of the piece under way, the last of each object; nothing: it is gone.
  std::map<ObjectKey, std::optional<Object>> changes_;
  ApiFigures figures_;
  Time last_heard_;
};

/// Lists come whole before they are flushed, and what a relist brings is one burst.
void ApiSource::State::settle(const Follower& turned) {
  const auto open = [](const auto& follower) { return follower->gate_open(); };
  if (!synced && std::ranges::all_of(followers, open)) {
    synced = true;
    unflushed = false;
    sink.synced();
  }
  if (synced && !turned.listing() && std::exchange(unflushed, false)) {
    sink.flush();
  }
}

void ApiSource::Follower::step() {
  if (const auto request = reflector_.begin(state_.world.now())) {
    ++figures_.requests;
    asking_ = true;
    line_->ask(*request, *this);
  }
  arm();
}

/// A deadline that moves on leaves the alarm where it is: it rings, and is set again.
void ApiSource::Follower::arm() {
  const auto deadline = reflector_.deadline();
  if (!armed_ || deadline < *armed_) {
    armed_ = deadline;
    alarm_->set(deadline, [this] { ring(); });
  }
}

void ApiSource::Follower::ring() {
  armed_.reset();
  if (state_.world.now() < reflector_.deadline()) {
    arm();
  } else if (asking_) {
    const auto server = line_->server();
    line_->hang_up();
    end(End::silent, server);
  } else {
    step();
  }
}

Flow ApiSource::Follower::head(const ApiHead& head) {
  last_heard_ = state_.world.now();
  figures_.failures += head.status == 200 ? 0 : 1;
  return reflector_.head(head, last_heard_);
}

Flow ApiSource::Follower::body(std::string_view bytes) {
  last_heard_ = state_.world.now();
  state_.sink.arrived();
  figures_.bytes += bytes.size();
  const auto flow = reflector_.body(bytes, last_heard_);
  tell_changes();
  state_.settle(*this);
  return flow;
}

void ApiSource::Follower::end(End how, std::string detail) {
  asking_ = false;
  const bool good = how == End::whole || how == End::stopped || reflector_.quiet(how);
  figures_.failures += good ? 0 : 1;
  reflector_.end(how, state_.world.now(), std::move(detail));
  tell_changes();
  state_.settle(*this);
  step();
}

void ApiSource::Follower::upsert(Object object) {
  auto& last = changes_[key_of(object)];
  if (last) {
    keep_triggers(*last, object);
  }
  last = std::move(object);
}

void ApiSource::Follower::erase(Kind /*kind*/, const ObjectKey& key) { changes_[key] = std::nullopt; }

void ApiSource::Follower::complain(Complaint complaint) {
  ++figures_.problems;
  state_.sink.complain(std::move(complaint));
}

void ApiSource::Follower::trouble(std::string sentence) {
  state_.troubles.tell(std::move(sentence), state_.world.now());
}

void ApiSource::Follower::listed(Kind /*kind*/) { ++figures_.lists; }

void ApiSource::Follower::tell_changes() {
  auto changes = std::exchange(changes_, {});
  for (const auto& [key, object] : changes) {
    if (!object) {
      tell_erased(state_.sink, reflector_.resource().kind, key);
    }
  }
  for (auto& [key, object] : changes) {
    if (object) {
      std::visit([this](auto& value) { state_.sink.upsert(std::move(value)); }, *object);
    }
  }
  state_.unflushed = state_.unflushed || !changes.empty();
}

ApiFigures ApiSource::Follower::figures() const {
  auto figures = figures_;
  figures.objects = reflector_.objects();
  figures.stream = reflector_.counts();
  figures.silence = state_.world.now() - last_heard_;
  return figures;
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

ApiSource::ApiSource(const ApiScope& scope, ApiWorld world, Sink& sink, Trouble trouble, Patience patience)
    : state_(std::make_unique<State>(std::move(world), sink, std::move(trouble))) {
  auto seed = state_->world.seed;
  for (auto& resource : api_resources(scope)) {
    state_->followers.push_back(
        std::make_unique<Follower>(*state_, std::move(resource), scope.encoding, patience, ++seed));
  }
}

ApiSource::~ApiSource() = default;

void ApiSource::start() {
  for (const auto& follower : state_->followers) {
    follower->step();
  }
}

std::vector<ApiFigures> ApiSource::figures() const {
  std::vector<ApiFigures> figures;
  for (const auto& follower : state_->followers) {
    figures.push_back(follower->figures());
  }
  return figures;
}

}  // namespace lb::k8s
