// SPDX-License-Identifier: Apache-2.0
// Loads the linked object with libbpf and drives it by BPF_PROG_TEST_RUN.
#include "tests/prog/lib/harness.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <stdexcept>
#include <utility>

#include "agent/programs/features.hpp"
#include "agent/programs/program_config.hpp"
#include "maps/abi/frame_address.h"
#include "maps/abi/xdp_tx.h"

// The skeleton's struct would collide with our namespace of the same name.
namespace lb::test::skeleton {
#include "bpf/lb.skel.h"
}

namespace lb::test {
namespace {

constexpr std::array<std::string_view, hooks.size()> hook_names = {"tc_in", "tc_out", "xdp", "pod_in",
                                                                   "pod_out"};

#define LB_OUTCOME_NAME(name, action, meaning) #name,
constexpr std::array<std::string_view, LB_OUTCOME_COUNT> outcome_names = {LB_OUTCOMES(LB_OUTCOME_NAME)};
#undef LB_OUTCOME_NAME

// Extra space, for a program that makes the packet longer.
constexpr std::size_t spare = 256;

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

void write_sysctl(const char* path, const char* value) {
  std::ofstream file(std::string("/proc/sys/net/") + path);
  file << value;
  file.flush();
  if (!file) {
    fail(fmt::format("cannot set {}", path));
  }
}

template <class T, class View>
void open_map(const Programs& programs, const char* name, T& into, View view) {
  const int fd = ::dup(programs.map(name));
  if (fd < 0) {
    fail(name);
  }
  auto opened = view(maps::Fd(fd));
  if (!opened) {
    throw std::runtime_error(fmt::format("{}: {}", name, opened.error().message()));
  }
  into = std::move(*opened);
}

template <class Key, class Value>
void open(const Programs& programs, const char* name, maps::HashMap<Key, Value>& into) {
  open_map(programs, name, into, [](maps::Fd fd) { return maps::HashMap<Key, Value>::open(std::move(fd)); });
}

template <class T>
void open(const Programs& programs, const char* name, maps::MappedArray<T>& into) {
  open_map(programs, name, into,
           [](maps::Fd fd) { return maps::MappedArray<T>::open(std::move(fd), maps::Access::write); });
}

int only_errors(libbpf_print_level level, const char* format, va_list arguments) {
  return level == LIBBPF_WARN ? std::vfprintf(stderr, format, arguments) : 0;
}

/// The contexts of the two kinds of programs, as BPF_PROG_TEST_RUN takes them.
struct Context {
  __sk_buff skb{};
  xdp_md xdp{};
};

void describe(const Run& run, std::size_t size, Context& context, bpf_test_run_opts& options) {
  if (run.hook == Hook::xdp) {
    const auto linear = run.linear != 0 ? run.linear : static_cast<std::uint32_t>(size);
    context.xdp.ingress_ifindex = run.device;
    context.xdp.data_end = linear;
    options.ctx_in = &context.xdp;
    options.ctx_size_in = sizeof(context.xdp);
    return;
  }
  context.skb.ifindex = run.device;
  context.skb.ingress_ifindex = run.came_by;
  context.skb.gso_size = run.segment_size;
  context.skb.gso_segs = run.segment_size != 0 ? static_cast<std::uint32_t>(size / run.segment_size) + 1 : 0;
  std::ranges::copy(run.control, context.skb.cb);
  options.ctx_in = options.ctx_out = &context.skb;
  options.ctx_size_in = options.ctx_size_out = sizeof(context.skb);
}

}  // namespace

std::string_view hook_name(Hook hook) noexcept { return hook_names[static_cast<std::size_t>(hook)]; }

std::string_view outcome_name(std::size_t outcome) noexcept { return outcome_names[outcome]; }

std::optional<lb_outcome> outcome_named(std::string_view name) noexcept {
  for (std::size_t at = 0; at < outcome_names.size(); ++at) {
    if (outcome_names[at] == name) {
      return static_cast<lb_outcome>(at);
    }
  }
  return std::nullopt;
}

std::string counts_text(const Counts& counts) {
  std::string text;
  for (std::size_t at = 0; at < counts.size(); ++at) {
    for (std::uint64_t i = 0; i < counts[at] && i < 3; ++i) {
      text += text.empty() ? "" : "+";
      text += outcome_names[at];
    }
  }
  return text.empty() ? "nothing" : text;
}

NetNamespace::NetNamespace() : before_(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
  if (!before_ || ::unshare(CLONE_NEWNET) != 0) {
    fail("a network namespace of the test's own (needs root)");
  }
  write_sysctl("ipv4/ip_forward", "1");
  write_sysctl("ipv6/conf/all/forwarding", "1");
  write_sysctl("ipv6/conf/default/forwarding", "1");
  write_sysctl("ipv6/conf/default/addr_gen_mode", "1");
  run_ip("link set lo up\n");
}

NetNamespace::~NetNamespace() {
  if (::setns(before_.get(), CLONE_NEWNET) != 0) {
    std::perror("cannot go back to the network namespace");
  }
}

void run_ip(const std::string& lines, int family) {
  const auto* const option = family == 4 ? "-4" : family == 6 ? "-6" : "";
  const auto command = fmt::format("ip {} -batch - <<'END'\n{}END\n", option, lines);
  if (std::system(command.c_str()) != 0) {
    throw std::runtime_error("ip refused one of these lines:\n" + lines);
  }
}

void attach_nothing(std::uint32_t device) {
  const std::array<bpf_insn, 2> pass = {
      {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .src_reg = 0, .off = 0, .imm = XDP_PASS},
       {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}}};
  const maps::Fd program(
      bpf_prog_load(BPF_PROG_TYPE_XDP, "lb_test_pass", "GPL", pass.data(), pass.size(), nullptr));
  if (!program) {
    fail("an XDP program of two instructions");
  }
  attach_xdp(device, program.get());
}

void attach_xdp(std::uint32_t device, int program) {
  if (bpf_xdp_attach(static_cast<int>(device), program, 0, nullptr) != 0) {
    fail("cannot attach XDP to a veth");
  }
}

namespace {

/// One measurement may be wrong on a busy machine; the most frequent of several is not.
std::uint32_t likely_hertz() {
  std::map<std::uint32_t, int> votes;
  for (int i = 0; i < 5; ++i) {
    ++votes[agent::measure_hertz()];
  }
  return std::ranges::max_element(votes, {}, [](const auto& vote) { return vote.second; })->first;
}

}  // namespace

namespace {

const agent::Features& kernel_features() {
  static const auto features = agent::Features::probe({});
  return features;
}

/// Selects the programs that an agent with every option loads, as far as this kernel supports them.
void choose_all(bpf_object* object) {
  agent::AgentOptions options;
  options.devices = {"any"};
  options.pod_devices = {"any"};
  options.xdp = agent::XdpMode::native;
  agent::choose_programs(object, options, kernel_features());
}

/// Switches off features that this kernel lacks.
void leave_out_absent(lb_config& config) {
  using agent::Feature;
  const std::array<std::pair<lb_bool*, Feature>, 5> switches = {{{&config.fib_source, Feature::fib_source},
                                                                 {&config.fib_mark, Feature::fib_mark},
                                                                 {&config.csum_ipv6, Feature::csum_ipv6},
                                                                 {&config.ct_lookup, Feature::ct_lookup},
                                                                 {&config.skb_sums, Feature::skb_sums}}};
  for (const auto& [on, feature] : switches) {
    if (!kernel_features().usable(feature)) {
      *on = LB_NO;
    }
  }
}

}  // namespace

Settings::Settings() {
  static const std::uint32_t hertz = likely_hertz();
  config.clock_factor = (std::uint64_t{1} << 32) / hertz;
  config.unassured_seconds = LB_UNASSURED_SECONDS;
  config.first_port = 1024;
  config.last_port = 29999;
  config.high_first_port = 61000;
  config.high_last_port = 65535;
  config.fib_source = config.fib_mark = config.csum_ipv6 = config.ct_lookup = config.skb_sums = LB_YES;
  leave_out_absent(config);
}

struct Programs::Skeleton {
  skeleton::lb* raw = skeleton::lb__open();
  Skeleton() {
    if (raw == nullptr) {
      fail("cannot open the linked object");
    }
  }
  Skeleton(const Skeleton&) = delete;
  Skeleton& operator=(const Skeleton&) = delete;
  ~Skeleton() { skeleton::lb__destroy(raw); }

  void size(const Settings& settings) const {
    const auto& maps = raw->maps;
    const std::array<std::pair<bpf_map*, std::uint32_t>, 6> sizes = {
        {{maps.lb_flows4, settings.flows},
         {maps.lb_flows6, settings.flows},
         {maps.lb_unassured4, settings.unassured},
         {maps.lb_unassured6, settings.unassured},
         {maps.lb_slots, (settings.slots + 1) / LB_SLOTS_A_PAIR},
         {maps.lb_backends, settings.backends}}};
    for (const auto& [map, entries] : sizes) {
      if (bpf_map__set_max_entries(map, entries) != 0) {
        fail("cannot size a map");
      }
    }
    agent::size_scratch(raw->obj, settings.config);
    for (auto* map : {maps.lb_unassured4, maps.lb_unassured6}) {
      if (settings.refusing && bpf_map__set_type(map, BPF_MAP_TYPE_HASH) != 0) {
        fail("cannot change a map");
      }
    }
  }

  /// Skips socket programs, which cannot be test-run and which another test loads.
  void load_packet_programs() const {
    const auto wanted = packet_programs();
    bpf_program* program = nullptr;
    bpf_object__for_each_program(program, raw->obj) {
      bpf_program__set_autoload(program, std::ranges::find(wanted, program) != wanted.end());
    }
    if (skeleton::lb__load(raw) != 0) {
      fail("the kernel refused the programs");
    }
  }

  [[nodiscard]] std::array<bpf_program*, hooks.size()> packet_programs() const {
    const auto& programs = raw->progs;
    return {programs.lb_tc_in, programs.lb_tc_out, programs.lb_xdp, programs.lb_pod_in, programs.lb_pod_out};
  }

  [[nodiscard]] int program(Hook hook) const {
    return bpf_program__fd(packet_programs().at(static_cast<std::size_t>(hook)));
  }
};

namespace {

constexpr LinkAddress nobody{};

/// Replaces the device's own address by zeros, both where the input frame had it and in a reply made from the
/// frame.
void hide_address(Bytes& out, const Bytes& in, const LinkAddress& own) {
  if (out.size() < 2 * own.size()) {
    return;
  }
  const auto destination = std::span(out).first(own.size());
  const auto source = std::span(out).subspan(own.size(), own.size());
  if (std::ranges::equal(destination, own)) {
    std::ranges::copy(nobody, destination.begin());
  } else if (std::ranges::equal(source, own) &&
             std::ranges::equal(destination, std::span(in).subspan(own.size(), own.size()))) {
    std::ranges::copy(nobody, source.begin());
  }
}

}  // namespace

Programs::Programs(const Settings& settings) {
  libbpf_set_print(only_errors);
  skeleton_ = std::make_unique<Skeleton>();
  skeleton_->raw->rodata->lb_config = settings.config;
  skeleton_->raw->rodata->lb_choices = settings.choices;
  leave_out_absent(skeleton_->raw->rodata->lb_config);
  skeleton_->size(settings);
  skeleton_->load_packet_programs();
  open_maps();
}

Programs::~Programs() = default;

void Programs::open_maps() {
  open(*this, "lb_frontends", frontends);
  open(*this, "lb_addresses", addresses);
  open(*this, "lb_devices", devices);
  open(*this, "lb_services", services);
  open(*this, "lb_slots", slots);
  open(*this, "lb_backends", backends);
  open(*this, "lb_node", node);
  open(*this, "lb_reserved", reserved);
  open(*this, "lb_flows4", flows4);
  open(*this, "lb_flows6", flows6);
  open(*this, "lb_unassured4", unassured4);
  open(*this, "lb_unassured6", unassured6);
  open(*this, "lb_affinity", affinity);
  open(*this, "lb_ranges", ranges);
  open(*this, "lb_fragments", fragments);
}

int Programs::program(Hook hook) const { return skeleton_->program(hook); }

int Programs::map(const char* name) const {
  return bpf_object__find_map_fd_by_name(skeleton_->raw->obj, name);
}

void Programs::set_frame_address(std::uint32_t device) {
  const maps::Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  if (::if_indextoname(device, request.ifr_name) == nullptr ||
      ::ioctl(socket.get(), SIOCGIFHWADDR, &request) != 0) {
    fail("the device's address");
  }
  auto& entry = skeleton_->raw->bss->lb_frame_addresses[device % LB_FRAME_ADDRESSES];
  entry.device = entry.uplink = device;
  std::memcpy(entry.address, request.ifr_hwaddr.sa_data, sizeof(entry.address));
  std::memcpy(addresses_[device].data(), request.ifr_hwaddr.sa_data, sizeof(entry.address));
}

std::uint32_t& Programs::midstream_until() { return skeleton_->raw->bss->lb_midstream_until; }

Counts Programs::counts() const {
  std::vector<Counts> parts(static_cast<std::size_t>(libbpf_num_possible_cpus()));
  static_assert(sizeof(Counts) == sizeof(lb_stats));
  const std::uint32_t zero = 0;
  if (maps::raw::get(map("lb_stats"), &zero, parts.data())) {
    fail("lb_stats");
  }
  Counts sums{};
  for (const auto& part : parts) {
    for (std::size_t at = 0; at < sums.size(); ++at) {
      sums[at] += part[at];
    }
  }
  return sums;
}

Verdict Programs::shoot(const Run& run, std::span<const std::uint8_t> packet) {
  const auto own = addresses_.find(run.device);
  if (own == addresses_.end() || packet.size() < 2 * nobody.size() ||
      !std::ranges::equal(packet.first(nobody.size()), nobody)) {
    return shoot_frame(run, packet);
  }
  Bytes frame(packet.begin(), packet.end());
  std::ranges::copy(own->second, frame.begin());
  auto verdict = shoot_frame(run, frame);
  hide_address(verdict.packet, frame, own->second);
  return verdict;
}

Verdict Programs::shoot_frame(const Run& run, std::span<const std::uint8_t> packet) {
  Verdict verdict;
  Context context;
  bpf_test_run_opts options{};
  verdict.packet.resize(packet.size() + spare);
  options.sz = sizeof(options);
  options.data_in = packet.data();
  options.data_size_in = static_cast<std::uint32_t>(packet.size());
  options.data_out = verdict.packet.data();
  options.data_size_out = static_cast<std::uint32_t>(verdict.packet.size());
  options.repeat = static_cast<int>(run.repeat);
  options.flags = run.flags;
  describe(run, packet.size(), context, options);
  if (bpf_prog_test_run_opts(skeleton_->program(run.hook), &options) != 0) {
    verdict.error = errno;
  }
  verdict.code = options.retval;
  verdict.nanoseconds = options.duration;
  verdict.packet.resize(options.data_size_out);
  if (run.hook != Hook::xdp) {
    std::ranges::copy(context.skb.cb, verdict.control.begin());
  }
  return verdict;
}

Verdict Programs::run(const Run& run, std::span<const std::uint8_t> packet) {
  const auto before = counts();
  auto verdict = shoot(run, packet);
  verdict.counts = counts();
  for (std::size_t at = 0; at < before.size(); ++at) {
    verdict.counts[at] -= before[at];
  }
  return verdict;
}

std::vector<Size> verify_all(const lb_config& config, const lb_choices& choices) {
  skeleton::lb* raw = skeleton::lb__open();
  if (raw == nullptr) {
    fail("cannot open the linked object");
  }
  const std::unique_ptr<skeleton::lb, decltype(&skeleton::lb__destroy)> owner(raw, skeleton::lb__destroy);
  raw->rodata->lb_config = config;
  raw->rodata->lb_choices = choices;
  leave_out_absent(raw->rodata->lb_config);
  choose_all(raw->obj);
  if (skeleton::lb__load(raw) != 0) {
    fail("the kernel refused the programs");
  }
  std::vector<Size> sizes;
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, raw->obj) {
    if (!bpf_program__autoload(program)) {
      continue;
    }
    bpf_prog_info info{};
    std::uint32_t length = sizeof(info);
    if (bpf_prog_get_info_by_fd(bpf_program__fd(program), &info, &length) != 0) {
      fail("program info");
    }
    sizes.push_back({bpf_program__name(program), info.verified_insns});
  }
  return sizes;
}

}  // namespace lb::test
