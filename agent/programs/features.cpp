// SPDX-License-Identifier: Apache-2.0
// Probes kernel features with programs of a few instructions, run on a packet of zeros.
#include "agent/programs/features.hpp"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <sys/socket.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <thread>

#include "agent/base/error.hpp"
#include "agent/netlink/socket_holders.hpp"
#include "agent/netlink/udp_diag.hpp"
#include "agent/programs/clsact.hpp"
#include "agent/programs/preemption.hpp"
#include "maps/map.hpp"

namespace lb::agent {
namespace {

struct Words {
  Feature feature;
  std::string_view name;
  std::string_view instead;
  std::string_view since;  ///< the kernel that introduced it
};

constexpr std::array<Words, feature_count> words = {{
    {Feature::tcx, "tcx", "clsact", "Linux 6.6"},
    {Feature::fib_source, "fib-source", "node address", "Linux 6.7, or a stable release since"},
    {Feature::fib_mark, "fib-mark", "not asked", "Linux 6.10"},
    {Feature::csum_ipv6, "csum-ipv6", "own sums", "Linux 6.16, or a stable release since"},
    {Feature::ct_lookup, "ct-lookup", "not asked", "Linux 6.1 with nf_conntrack loaded"},
    {Feature::socket_destroy, "socket-destroy", "sock_diag", "Linux 6.5"},
    {Feature::skb_sums, "skb-sums", "checksum helpers", "Linux 6.2"},
    {Feature::sock_diag, "sock-diag", "UDP sockets not ended", "CONFIG_INET_DIAG_DESTROY"},
    {Feature::storage_iterator, "storage-iterator", "each namespace's sockets; their storage has no limit",
     "Linux 6.1, unless it is hardened"},
    {Feature::socket_reconnect, "socket-reconnect", "UDP sockets ended",
     "Linux 5.6, with hostPID, CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"},
    {Feature::tc_fastpath, "tc-fastpath", "slow path", "every kernel that is served"},
    {Feature::xdp_fastpath, "xdp-fastpath", "slow path", "every kernel that is served"},
    {Feature::egress_verdicts, "egress-verdicts", "none", "every kernel that is served"},
}};

// ---- Instructions that the probes need. ----

constexpr bpf_insn instruction(int code, int destination, int source, int offset, int immediate) {
  bpf_insn made{};
  made.code = static_cast<__u8>(code);
  made.dst_reg = static_cast<__u8>(destination & 0xf);
  made.src_reg = static_cast<__u8>(source & 0xf);
  made.off = static_cast<__s16>(offset);
  made.imm = immediate;
  return made;
}

constexpr bpf_insn set(int destination, int value) {
  return instruction(BPF_ALU64 | BPF_MOV | BPF_K, destination, 0, 0, value);
}
constexpr bpf_insn copy(int destination, int source) {
  return instruction(BPF_ALU64 | BPF_MOV | BPF_X, destination, source, 0, 0);
}
constexpr bpf_insn add(int destination, int value) {
  return instruction(BPF_ALU64 | BPF_ADD, destination, 0, 0, value);
}
constexpr bpf_insn store(int size, int offset, int value) {
  return instruction(BPF_ST | BPF_MEM | size, BPF_REG_10, 0, offset, value);
}
constexpr bpf_insn call(int helper) { return instruction(BPF_JMP | BPF_CALL, 0, 0, 0, helper); }
constexpr bpf_insn leave() { return instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0); }

/// A loaded tc program for BPF_PROG_TEST_RUN.
class ProbeProgram {
 public:
  explicit ProbeProgram(std::span<const bpf_insn> program)
      : program_(bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, "lb_probe", "Dual BSD/GPL", program.data(),
                               program.size(), nullptr)),
        error_(program_ ? 0 : errno) {}

  [[nodiscard]] int error() const noexcept { return error_; }
  [[nodiscard]] int descriptor() const noexcept { return program_.get(); }

  /// The low half of the program's return value; nullopt if it was not loaded or not run.
  [[nodiscard]] std::optional<std::uint32_t> run() const {
    const std::array<std::byte, 64> packet{};
    bpf_test_run_opts options{};
    options.sz = sizeof(options);
    options.data_in = packet.data();
    options.data_size_in = packet.size();
    if (!program_ || bpf_prog_test_run_opts(program_.get(), &options) != 0) {
      return std::nullopt;
    }
    return options.retval;
  }

 private:
  maps::Fd program_;
  int error_;
};

constexpr std::array ticks_program = {call(BPF_FUNC_jiffies64), leave()};

/// An interpreted program has no machine code.
bool is_compiled(int program) {
  bpf_prog_info info{};
  __u32 size = sizeof(info);
  return bpf_prog_get_info_by_fd(program, &info, &size) == 0 && info.jited_prog_len > 0;
}

bool has_tcx() {
  struct bpf_prog_query_opts query{};
  query.sz = sizeof(query);
  constexpr int loopback = 1;
  return bpf_prog_query_opts(loopback, BPF_TCX_INGRESS, &query) == 0;
}

// An unknown flag gives EINVAL; any other result, including other errors, means that the flag is known.
bool understood(std::span<const bpf_insn> program) {
  const auto answer = ProbeProgram(program).run();
  return answer && *answer != static_cast<std::uint32_t>(-EINVAL);
}

bool has_fib_flag(int flag) {
  constexpr int size = sizeof(bpf_fib_lookup);
  static_assert(size == 64);
  std::vector<bpf_insn> program;
  for (int offset = -size; offset < 0; offset += 8) {
    program.push_back(store(BPF_DW, offset, 0));
  }
  const std::array rest = {store(BPF_B, -size, AF_INET),
                           store(BPF_W, -size + static_cast<int>(offsetof(bpf_fib_lookup, ifindex)), 1),
                           copy(BPF_REG_2, BPF_REG_10),
                           add(BPF_REG_2, -size),
                           set(BPF_REG_3, size),
                           set(BPF_REG_4, flag),
                           call(BPF_FUNC_fib_lookup),
                           leave()};
  program.insert(program.end(), rest.begin(), rest.end());
  return understood(program);
}

// The odd offset is an error too (EFAULT), but is checked after the flags.
bool has_csum_ipv6() {
  constexpr int flag = 1 << 7;  // BPF_F_IPV6, younger than some kernel headers we build with
  constexpr std::array program = {set(BPF_REG_2, 1),
                                  set(BPF_REG_3, 0),
                                  set(BPF_REG_4, 0),
                                  set(BPF_REG_5, flag),
                                  call(BPF_FUNC_l4_csum_replace),
                                  leave()};
  return understood(program);
}

// ---- Kernel types (BTF). They are some megabytes, so they are read once and not kept. ----

using Types = std::unique_ptr<btf, decltype(&btf__free)>;

bool has_type(const Types& types, const std::string& name, std::uint32_t kind) {
  return types && btf__find_by_name_kind(types.get(), name.c_str(), kind) > 0;
}

bool has_function(const Types& types, const char* name) { return has_type(types, name, BTF_KIND_FUNC); }

bool has_tracepoint(const Types& kernel, const std::string& name) {
  return has_type(kernel, "btf_trace_" + name, BTF_KIND_TYPEDEF);
}

bool has_ct_lookup(const Types& kernel) {
  constexpr auto* name = "bpf_skb_ct_lookup";
  if (has_function(kernel, name)) {
    return true;
  }
  return kernel && has_function(Types(btf__load_module_btf("nf_conntrack", kernel.get()), &btf__free), name);
}

/// Some kernels refuse programs that iterate over the elements of a map, whatever they do.
bool has_storage_iterator(const Types& kernel) {
  const auto target = btf__find_by_name_kind(kernel.get(), "bpf_iter_bpf_sk_storage_map", BTF_KIND_FUNC);
  if (target < 0) {
    return false;
  }
  constexpr std::array program = {set(BPF_REG_0, 0), leave()};
  bpf_prog_load_opts options{};
  options.sz = sizeof(options);
  options.expected_attach_type = BPF_TRACE_ITER;
  options.attach_btf_id = static_cast<__u32>(target);
  return static_cast<bool>(maps::Fd(bpf_prog_load(BPF_PROG_TYPE_TRACING, "lb_probe", "Dual BSD/GPL",
                                                  program.data(), program.size(), &options)));
}

bool found(Feature feature, const Types& kernel) {
  switch (feature) {
    case Feature::tcx:
      return has_tcx();
    case Feature::fib_source:
      return has_fib_flag(BPF_FIB_LOOKUP_SRC);
    case Feature::fib_mark:
      return has_fib_flag(BPF_FIB_LOOKUP_MARK);
    case Feature::csum_ipv6:
      return has_csum_ipv6();
    case Feature::ct_lookup:
      return has_ct_lookup(kernel);
    case Feature::socket_destroy:
      return has_function(kernel, "bpf_sock_destroy");
    case Feature::skb_sums:
      return has_function(kernel, "bpf_cast_to_kern_ctx");
    case Feature::sock_diag:
      return ends_udp_sockets();
    case Feature::storage_iterator:
      return has_storage_iterator(kernel);
    case Feature::socket_reconnect:
      return reconnects_sockets();
    case Feature::tc_fastpath:
    case Feature::xdp_fastpath:
    case Feature::egress_verdicts:
      return true;
  }
  return false;
}

bool is_named(Feature feature, const std::vector<std::string>& names) {
  return std::ranges::find(names, feature_name(feature)) != names.end();
}

}  // namespace

void require_bpf(const Privileges& privileges) {
  const ProbeProgram probe(ticks_program);
  const auto lacking = lacking_capabilities(privileges);
  if (probe.error() == 0 && lacking.empty()) {
    return;
  }
  const auto [found, advice] = bpf_refusal(privileges, probe.error() == 0 ? EPERM : probe.error());
  throw StartError(found, advice);
}

bool is_realtime() {
  utsname kernel{};
  return ::uname(&kernel) == 0 && has_realtime(kernel.version);
}

void require_kernel() {
  if (libbpf_probe_bpf_helper(BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_FUNC_set_retval, nullptr) == 0) {
    throw StartError("the kernel has no bpf_set_retval, so refused calls could not say why",
                     "Linux 6.1 or later is needed");
  }
}

// Without JIT the kernel supports neither callbacks (bpf_loop) nor kfuncs.
void require_jit() {
  const ProbeProgram probe(ticks_program);
  if (probe.error() == 0 && !is_compiled(probe.descriptor())) {
    throw StartError("the kernel interprets programs instead of compiling them, which ours are not made for",
                     "switch its compiler on by 'sysctl -w net.core.bpf_jit_enable=1' (the kernel needs "
                     "CONFIG_BPF_JIT)");
  }
}

void require_clsact() {
  const ProbeProgram probe(std::array{set(BPF_REG_0, 0), leave()});
  const auto [error, lacks] = probe_clsact(probe.descriptor());
  // A process that may not create network namespaces gets the error when attaching.
  if (!error || error == boost::system::errc::operation_not_permitted) {
    return;
  }
  const bool qdisc = lacks == ClsactPart::qdisc;
  throw StartError(
      fmt::format(
          "the kernel has no {} ({}), which tc programs need where there is no TCX (before Linux 6.6)",
          qdisc ? "qdisc clsact" : "filter cls_bpf", error.message()),
      fmt::format("let it load the module {} ('modprobe {}')", qdisc ? "sch_ingress" : "cls_bpf",
                  qdisc ? "sch_ingress" : "cls_bpf"));
}

Features Features::probe(const std::vector<std::string>& without) {
  const Types kernel(btf__load_vmlinux_btf(), &btf__free);
  if (!kernel) {
    throw StartError("the kernel does not show its types (BTF) at /sys/kernel/btf/vmlinux",
                     "use a kernel that is built with CONFIG_DEBUG_INFO_BTF, and mount sysfs at /sys");
  }
  Features features;
  features.reports_sent_frames_ =
      has_tracepoint(kernel, "xdp_devmap_xmit") && has_tracepoint(kernel, "xdp_redirect_err");
  for (const auto& entry : words) {
    auto& state = features.states_.at(static_cast<std::size_t>(entry.feature));
    if (is_named(entry.feature, without)) {
      state = FeatureState::switched_off;
    } else {
      state = found(entry.feature, kernel) ? FeatureState::present : FeatureState::absent;
    }
  }
  return features;
}

Features Features::refused(Feature feature) const {
  auto features = *this;
  features.states_.at(static_cast<std::size_t>(feature)) = FeatureState::refused;
  return features;
}

FeatureState Features::state(Feature feature) const noexcept {
  return states_[static_cast<std::size_t>(feature)];
}

bool Features::usable(Feature feature) const noexcept { return state(feature) == FeatureState::present; }

namespace {

std::string_view state_name(FeatureState state) {
  return state == FeatureState::absent ? "absent" : state == FeatureState::refused ? "refused" : "off";
}

}  // namespace

std::string Features::missing() const {
  std::string text;
  for (const auto& entry : words) {
    if (usable(entry.feature)) {
      continue;
    }
    text += fmt::format("{}{} {}: {}", text.empty() ? "" : "; ", entry.name, state_name(state(entry.feature)),
                        fallback(entry.feature));
  }
  return text;
}

// Sockets are ended by sock_diag, else by a program.
std::string_view Features::fallback(Feature feature) const {
  return feature == Feature::sock_diag && usable(Feature::socket_destroy)
             ? feature_name(Feature::socket_destroy)
             : words[static_cast<std::size_t>(feature)].instead;
}

std::string_view feature_source(Feature feature) { return words[static_cast<std::size_t>(feature)].since; }

std::string_view feature_name(Feature feature) { return words[static_cast<std::size_t>(feature)].name; }

std::uint32_t usual_hertz(double measured) {
  constexpr std::array<std::uint32_t, 4> usual = {100, 250, 300, 1000};
  for (const auto hertz : usual) {
    if (std::abs(measured - hertz) <= hertz / 20.0) {
      return hertz;
    }
  }
  return 0;
}

namespace {

using Clock = std::chrono::steady_clock;

struct Edge {
  std::uint32_t ticks;
  Clock::time_point at;
};

/// The moment at which the tick counter next increases. If this thread was delayed at an edge, its moment is
/// unknown, and the next edge is taken.
std::optional<Edge> next_edge(const ProbeProgram& ticks) {
  constexpr std::chrono::microseconds sharp{200};
  const auto deadline = Clock::now() + std::chrono::seconds(1);
  auto before = Clock::now();
  auto last = ticks.run();
  while (last && Clock::now() < deadline) {
    const auto now = ticks.run();
    const auto at = Clock::now();
    if (now && *now != *last && at - before < sharp) {
      return Edge{*now, at};
    }
    before = at;
    last = now;
  }
  return std::nullopt;
}

double measure_once(const ProbeProgram& ticks, std::chrono::milliseconds wait) {
  const auto from = next_edge(ticks);
  std::this_thread::sleep_for(wait);
  const auto to = next_edge(ticks);
  if (!from || !to) {
    return 0;
  }
  const std::chrono::duration<double> passed = to->at - from->at;
  return (to->ticks - from->ticks) / passed.count();
}

}  // namespace

std::uint32_t measure_hertz() {
  const ProbeProgram ticks(ticks_program);
  for (auto wait = std::chrono::milliseconds(40); wait < std::chrono::seconds(2); wait *= 2) {
    if (const auto hertz = usual_hertz(measure_once(ticks, wait)); hertz != 0) {
      return hertz;
    }
  }
  throw StartError("the kernel's timer runs at no usual frequency (100, 250, 300 or 1000 ticks a second)");
}

}  // namespace lb::agent
