// SPDX-License-Identifier: Apache-2.0
// Opens in an order that changes nothing before all checks have passed; attaches, and keeps attached.
#include "agent/datapath/datapath.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "agent/attach/layout_migration.hpp"
#include "agent/attach/prerequisites.hpp"
#include "agent/attach/socket_hooks.hpp"
#include "agent/attach/socket_probe.hpp"
#include "agent/attach/xdp_drop_watch.hpp"
#include "agent/base/cgroup.hpp"
#include "agent/base/error.hpp"
#include "agent/datapath/socket_storage.hpp"
#include "agent/programs/bpf_programs.hpp"
#include "agent/programs/pinned_maps.hpp"
#include "agent/programs/requirements.hpp"

namespace lb::agent {
namespace {

/// The named devices that exist.
std::vector<Device> find_devices(const std::vector<std::string>& names) {
  std::vector<Device> devices;
  for (const auto& name : names) {
    const auto index = if_nametoindex(name.c_str());
    if (auto kind = device_kind(name); kind && index != 0) {
      devices.push_back({name, index, *kind});
    }
  }
  return devices;
}

bool is_served(const Device& device) { return unsupported_reason(device.kind).empty(); }

/// Reports devices that are named or found but not served; for named devices that do not exist, the hooks
/// have failed already.
void report_unserved(const std::vector<std::string>& named, const std::vector<std::string>& uplinks,
                     const std::vector<Device>& devices, AttachReport& report) {
  for (const auto& name : uplinks) {
    const auto device = std::ranges::find(devices, name, &Device::name);
    if (device == devices.end() && std::ranges::find(named, name) == named.end()) {
      continue;  // it was removed just now; the next check finds other devices
    }
    if (device == devices.end()) {
      report.hooks.push_back(
          {{HookKind::tc_ingress, name}, {}, HookState::failed, "there is no such device now"});
    } else if (!is_served(*device)) {
      report.hooks.push_back(
          {{HookKind::any, name}, {}, HookState::declined, unsupported_reason(device->kind)});
    }
  }
}

/// The value measured at an earlier start is valid until the next boot, like the pins.
std::uint32_t hertz_of(const maps::Pins& pins) {
  auto page = maps::MappedArray<lb_node>::open(maps::Fd(bpf_obj_get(pins.map("lb_node").c_str())),
                                               maps::Access::read);
  const auto known = page ? page->load(0).hertz : 0;
  return known != 0 ? known : measure_hertz();
}

NodePage open_page(const BpfPrograms& programs) {
  auto array =
      maps::MappedArray<lb_node>::open(maps::Fd(::dup(programs.map("lb_node"))), maps::Access::write);
  if (!array) {
    throw StartError(fmt::format("cannot map the node page ({})", array.error().message()));
  }
  return NodePage(std::move(*array));
}

void add_to(Restored& restored, const AttachReport& report) {
  for (const auto* hooks : {&report.hooks, &report.pod_hooks}) {
    for (const auto& hook : *hooks) {
      if (hook.state == HookState::attached || hook.state == HookState::updated) {
        restored.hooks.push_back(hook.hook);
      }
    }
  }
  restored.failure = report.failure().empty() ? report.pod_failure() : report.failure();
}

/// Removes the directories of a failed start.
class PinsGuard {
 public:
  explicit PinsGuard(const maps::Pins& pins) : pins_(pins) {}
  PinsGuard(const PinsGuard&) = delete;
  PinsGuard& operator=(const PinsGuard&) = delete;
  ~PinsGuard() {
    if (!started_) {
      remove_empty_pins(pins_);
    }
  }
  void started() noexcept { started_ = true; }

 private:
  const maps::Pins& pins_;
  bool started_ = false;
};

}  // namespace

struct Datapath::State {
  AgentOptions options;
  maps::Pins pins;
  Acceptance accepted;
  Cgroup cgroup;
  BpfPrograms programs;
  NodePage page;
  Attacher attacher;
  SocketProbe probe;
  SocketStorage storage;
  XdpDropWatch watch;
  std::vector<std::string> notes;
  std::vector<Port> ports{};
  std::vector<Device> pods{};
  std::vector<std::string> uplinks;
  std::optional<std::int64_t> maps_seen = std::nullopt;  ///< mtime when all maps were last seen pinned
  std::vector<std::string> not_running{};                ///< socket hooks that did not run at the last test
  std::set<std::string> unused{};       ///< socket hooks whose program was left out by the last attach()
  std::vector<std::string> declined{};  ///< features that the last attach() did not use, with reasons
  std::string lacks{};                  ///< the argument of set_limitations()
  std::string sockets{};                ///< status text about sockets at the last attach()
  std::string packets{};                ///< status text about packets at the last attach()
  bool late = false;                    ///< the last attach() was skipped, for lack of descriptors
  PinLock* lock = nullptr;              ///< the caller's; nullptr: none

  [[nodiscard]] int program(const char* name) const;
  [[nodiscard]] std::vector<std::string> idle_hooks() const;
  [[nodiscard]] AttachPlan plan(const std::vector<Device>& devices) const;
  [[nodiscard]] std::string missing() const;
  void report();
  void restore_directories();
  [[nodiscard]] std::size_t restore_maps();
  [[nodiscard]] std::string take_cgroup();
  void note_unused(const AttachReport& report);
  void try_sockets(AttachReport& report);
};

int Datapath::State::program(const char* name) const {
  return accepted.left_out.contains(name) ? left_out : programs.program(name);
}

/// Attached socket hooks that do not run.
std::vector<std::string> Datapath::State::idle_hooks() const {
  auto idle = probe.not_running();
  std::erase_if(idle, [this](const auto& hook) { return unused.contains(hook); });
  return idle;
}

AttachPlan Datapath::State::plan(const std::vector<Device>& devices) const {
  AttachPlan plan;
  for (const auto& hook : socket_hooks) {
    if (const int loaded = program(hook.program); loaded != -1) {
      plan.sockets.push_back({hook.name, loaded, hook.type});
    }
  }
  plan.cgroup = cgroup.directory.get();
  plan.cgroup_id = cgroup.id;
  std::ranges::copy_if(devices, std::back_inserter(plan.devices), is_served);
  plan.tc_by = accepted.features.usable(Feature::tcx) ? TcAttachment::tcx : TcAttachment::clsact;
  plan.tc_in = program("lb_tc_in");
  plan.tc_out = program("lb_tc_out");
  plan.ports = ports;
  plan.pods = pods;
  plan.pod_in = program("lb_pod_in");
  plan.pod_out = program("lb_pod_out");
  plan.xdp_mode = options.xdp;
  plan.xdp = programs.program("lb_xdp");
  plan.frame_addresses = programs.frame_addresses();
  plan.devmap = programs.map("lb_devmap");
  plan.devices_map = programs.map("lb_devices");
  return plan;
}

std::string Datapath::State::missing() const {
  auto parts = declined;
  for (const auto& part : {lacks, accepted.features.missing()}) {
    if (!part.empty()) {
      parts.push_back(part);
    }
  }
  for (const auto& refusal : accepted.refusals) {
    if (refusal.without.empty()) {
      parts.insert(parts.begin(), refusal_effect(refusal));
    }
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

/// Writes served hooks and lost frames to the node page, for `status`.
void Datapath::State::report() {
  std::string lost;
  for (const auto& [device, frames] : watch.lost()) {
    if (frames > 0) {
      lost += fmt::format("; {} frames lost by {}", frames, device);
    }
  }
  page.set_status(sockets, packets + lost);
}

Datapath Datapath::open(const AgentOptions& options, PinLock* lock) {
  auto needed = require_prerequisites(options);
  auto& programs = *needed.programs;
  const maps::Pins pins(options.pins);
  prepare_pins(pins);
  PinsGuard guard(pins);
  auto adopted = adopt_maps(programs.object(), pins);
  Acceptance accepted{.features = *needed.features};
  const auto hertz = hertz_of(pins);
  programs.configure(options, accepted, hertz);
  if (!programs.try_load()) {
    accepted = try_programs(options, *needed.features);
    programs = BpfPrograms::open(options.sizes);
    adopted = adopt_maps(programs.object(), pins);
    programs.configure(options, accepted, hertz);
    programs.load();
  }
  if (!needed.cgroup.note.empty()) {
    adopted.notes.push_back(needed.cgroup.note);
  }
  replace_outgrown(programs.object(), pins, adopted.outgrown);
  pin_maps(programs.object(), pins);
  auto page = open_page(programs);
  SocketProbe probe(programs.map("lb_sockets"));
  SocketStorage storage(programs);
  const std::vector<int> watching = {programs.program("lb_xdp_sent"), programs.program("lb_xdp_refused")};
  const auto counters = programs.xdp_tx_counters();
  if (const auto inherited = inherited_secret(pins)) {
    page.inherit(*inherited);
  }
  page.begin(options.node, hertz, needed.secret,
             pins.other_layout() == 0 ? NodePage::Before::nothing : NodePage::Before::other_layout);
  guard.started();
  return Datapath(std::make_unique<State>(State{.options = options,
                                                .pins = pins,
                                                .accepted = std::move(accepted),
                                                .cgroup = std::move(needed.cgroup),
                                                .programs = std::move(programs),
                                                .page = std::move(page),
                                                .attacher = Attacher(pins.links()),
                                                .probe = std::move(probe),
                                                .storage = std::move(storage),
                                                .watch = XdpDropWatch(watching, counters),
                                                .notes = std::move(adopted.notes),
                                                .uplinks = options.devices,
                                                .lock = lock}));
}

Datapath::Datapath(std::unique_ptr<State> state) : state_(std::move(state)) {}
Datapath::Datapath(Datapath&&) noexcept = default;
Datapath& Datapath::operator=(Datapath&&) noexcept = default;
Datapath::~Datapath() = default;

AttachReport Datapath::attach() {
  const auto lack = descriptor_shortage();
  state_->late = !lack.empty();
  if (state_->late) {
    AttachReport nothing;
    nothing.hooks.push_back({{HookKind::any}, {}, HookState::failed, lack});
    return nothing;
  }
  const auto devices = find_devices(state_->uplinks);
  auto report = state_->attacher.attach(state_->plan(devices));
  state_->note_unused(report);
  state_->try_sockets(report);
  state_->watch.follow(state_->attacher.sending());
  report_unserved(state_->options.devices, state_->uplinks, devices, report);
  state_->sockets = report.sockets_text();
  if (state_->options.sockets == SocketScope::host) {
    state_->sockets += " (host)";
  }
  state_->packets = report.packets_text();
  state_->declined = report.declined();
  state_->report();
  state_->page.set_missing(state_->missing());
  return report;
}

void Datapath::set_uplinks(std::vector<std::string> names) { state_->uplinks = std::move(names); }

void Datapath::set_ports(std::vector<Port> ports) { state_->ports = std::move(ports); }

void Datapath::set_pods(std::vector<Device> pods) { state_->pods = std::move(pods); }

// Without the directories nothing can be pinned, and a link that is not pinned ends at once. A lock on a
// directory that was removed protects nothing: another agent may have made one and serve by now (REL-40).
void Datapath::State::restore_directories() {
  if (lock != nullptr && !lock->holds()) {
    if (find_agent(pins).state == AgentState::running) {
      throw StartError(
          fmt::format("another agent has made the pins at {} anew and serves", pins.base().string()),
          "end one of the two");
    }
    lock->renew();
  }
  std::error_code error;
  if (!std::filesystem::exists(pins.maps(), error) || !std::filesystem::exists(pins.links(), error)) {
    prepare_pins(pins);
  }
}

std::size_t Datapath::State::restore_maps() {
  const auto directory = pins.maps().string();
  const auto changed = directory_changed(directory);
  if (changed && changed == maps_seen) {
    return 0;
  }
  maps_seen = changed;
  return repin_maps(programs.object(), pins);
}

// Programs on a removed cgroup serve no process, and nothing shows it (REL-70). Returns why the present one
// cannot be opened; empty if it can.
std::string Datapath::State::take_cgroup() {
  if (options.sockets == SocketScope::off || is_cgroup(cgroup)) {
    return {};
  }
  try {
    cgroup = open_cgroup(options.cgroup);
  } catch (const StartError& error) {
    return error.what();
  }
  return {};
}

void Datapath::State::note_unused(const AttachReport& report) {
  unused.clear();
  for (const auto& each : report.hooks) {
    if (each.state == HookState::left_out) {
      unused.insert(each.hook.socket);
    }
  }
}

/// A hook that does not run counts as failed.
void Datapath::State::try_sockets(AttachReport& report) {
  if (options.sockets == SocketScope::off) {
    return;
  }
  probe.enter(cgroup);
  not_running = idle_hooks();
  for (auto& each : report.hooks) {
    if (each.hook.kind == HookKind::socket && each.state != HookState::failed &&
        std::ranges::find(not_running, each.hook.socket) != not_running.end()) {
      each.state = HookState::failed;
      each.problem = fmt::format("it does not run for sockets of {}", cgroup.path);
    }
  }
}

Restored Datapath::restore(FilterChanges filters) {
  Restored restored;
  if (const auto lack = descriptor_shortage(); !lack.empty()) {
    restored.failure = "hooks are not reconciled: " + lack;
    return restored;
  }
  try {
    state_->restore_directories();
  } catch (const StartError& error) {
    restored.failure = error.what();
    return restored;
  }
  restored.maps = state_->restore_maps();
  const auto served = state_->cgroup.id;
  const auto no_cgroup = state_->take_cgroup();
  const bool moved = state_->cgroup.id != served;
  const auto lost = state_->watch.lost();
  const auto dropping = state_->watch.dropping();
  if (state_->watch.lost() != lost) {
    state_->report();
  }
  for (const auto device : dropping) {
    state_->attacher.stop_sending(device);
  }
  if (!moved && !state_->late && dropping.empty() && state_->attacher.intact(filters)) {
    return restored;
  }
  add_to(restored, attach());
  if (!no_cgroup.empty()) {
    restored.failure = no_cgroup;  // why the socket hooks failed
  }
  return restored;
}

// Reattaches only once: if that does not help, the running hooks must not flap.
Restored Datapath::reattach_idle_hooks() {
  Restored restored;
  if (!descriptor_shortage().empty()) {
    return restored;
  }
  const auto not_running = state_->idle_hooks();
  if (not_running.empty() && state_->not_running.empty()) {
    return restored;
  }
  if (not_running != state_->not_running) {
    state_->attacher.drop(not_running);
  }
  add_to(restored, attach());
  return restored;
}

void Datapath::limit_socket_storage() { state_->storage.look(); }

UdpCleanup Datapath::udp_cleanup() const noexcept {
  const auto& programs = state_->programs;
  return {.finds = programs.program("lb_udp_find"),
          .sockets = programs.map("lb_sockets"),
          .lists = programs.program("lb_udp_list"),
          .destroys = programs.program("lb_udp_destroy"),
          .ends_by_diag = features().usable(Feature::sock_diag),
          .reconnects = features().usable(Feature::socket_reconnect)};
}

void Datapath::set_limitations(std::string lacks) {
  state_->lacks = std::move(lacks);
  state_->page.set_missing(state_->missing());
}

std::optional<std::string> Datapath::memory_shortage(const Sizes& sizes) const {
  return agent::memory_shortage(state_->programs.object(), sizes);
}

const std::map<std::string, std::uint64_t>& Datapath::frames_lost() const noexcept {
  return state_->watch.lost();
}
NodePage& Datapath::page() noexcept { return state_->page; }
const std::vector<std::string>& Datapath::declined() const noexcept { return state_->declined; }
const Features& Datapath::features() const noexcept { return state_->accepted.features; }
const std::vector<ProgramRefusal>& Datapath::refusals() const noexcept { return state_->accepted.refusals; }
const std::vector<std::string>& Datapath::notes() const noexcept { return state_->notes; }

}  // namespace lb::agent
