// SPDX-License-Identifier: Apache-2.0
// The choice of programs, and lb_config.
#include "agent/programs/program_config.hpp"

#include <bpf/libbpf.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "agent/base/yes_no.hpp"
#include "agent/netlink/kernel_ports.hpp"
#include "maps/map.hpp"

namespace lb::agent {
namespace {

/// Whether this is the iterator that counts sockets, or one by which UDP sockets leave a backend that is
/// gone.
bool is_iterator(std::string_view name, const Features& features) {
  const bool reads_storage = features.usable(Feature::storage_iterator);
  const bool destroys = features.usable(Feature::socket_destroy);
  if (name == "lb_count_sockets") {
    return reads_storage;
  }
  if (name == "lb_udp_destroy") {
    return destroys;
  }
  const bool frees_sockets =
      destroys || features.usable(Feature::sock_diag) || features.usable(Feature::socket_reconnect);
  return frees_sockets && (name == "lb_udp_find") == reads_storage;
}

/// The cookie of this process's network namespace, which programs take as the host's.
std::uint64_t network_cookie() {
  const maps::Fd any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  std::uint64_t cookie = 0;
  socklen_t size = sizeof(cookie);
  ::getsockopt(any.get(), SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size);
  return cookie;
}

/// Gives the program the flags of section "xdp" instead of "xdp.frags": a program has its section's flags
/// until its type changes. For a program that accepts multi-buffer frames, generic XDP copies each packet
/// with data outside of the linear part, and tc gets that copy.
void take_no_fragments(bpf_program* program) {
  bpf_program__set_type(program, BPF_PROG_TYPE_UNSPEC);
  bpf_program__set_type(program, BPF_PROG_TYPE_XDP);
}

}  // namespace

bool wants_xdp(const AgentOptions& options) {
  return options.xdp != XdpMode::off && options.serves_uplinks() &&
         std::ranges::find(options.without, "xdp") == options.without.end();
}

bool serves_devices(const AgentOptions& options) { return options.serves_uplinks() || options.serves_pods(); }

void choose_programs(bpf_object* object, const AgentOptions& options, const Features& features) {
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, object) {
    bool wanted = false;
    switch (bpf_program__type(program)) {
      case BPF_PROG_TYPE_CGROUP_SOCK_ADDR:
        wanted = options.sockets != SocketScope::off;
        break;
      case BPF_PROG_TYPE_SCHED_CLS:
        wanted = std::string_view(bpf_program__name(program)).starts_with("lb_pod_")
                     ? options.serves_pods()
                     : options.serves_uplinks();
        break;
      case BPF_PROG_TYPE_TRACING:
        wanted =
            bpf_program__expected_attach_type(program) == BPF_TRACE_ITER
                ? options.sockets != SocketScope::off && is_iterator(bpf_program__name(program), features)
                : wants_xdp(options) && features.reports_sent_frames();
        break;
      default:
        wanted = wants_xdp(options);
    }
    bpf_program__set_autoload(program, wanted);
    if (options.xdp == XdpMode::generic && bpf_program__type(program) == BPF_PROG_TYPE_XDP) {
      take_no_fragments(program);
    }
  }
}

void configure(lb_config& config, const AgentOptions& options, const Features& features,
               std::uint32_t hertz) {
  const auto cookie = network_cookie();
  config.clock_factor = (std::uint64_t{1} << 32) / hertz;
  const auto ports = source_ports(options.source_ports, read_kernel_ports());
  const auto range = [&ports](std::size_t at) { return at < ports.size() ? ports[at] : PortRange{}; };
  config.first_port = range(0).first;
  config.last_port = range(0).last;
  config.high_first_port = range(1).first;
  config.high_last_port = range(1).last;
  config.fib_source = yes_if(features.usable(Feature::fib_source));
  config.fib_mark = yes_if(features.usable(Feature::fib_mark));
  config.csum_ipv6 = yes_if(features.usable(Feature::csum_ipv6));
  config.ct_lookup = yes_if(features.usable(Feature::ct_lookup));
  config.skb_sums = yes_if(features.usable(Feature::skb_sums));
  config.preemptible = yes_if(is_realtime());
  config.stack_forwards = yes_if(options.forwarding == Forwarding::stack);
  config.host_sockets = yes_if(options.sockets == SocketScope::host);
  config.host_cookie_low = static_cast<std::uint32_t>(cookie);
  config.host_cookie_high = static_cast<std::uint32_t>(cookie >> 32);
  config.orphaned_after = options.orphaned_after;
}

void size_scratch(bpf_object* object, const lb_config& config) {
  auto* map = bpf_object__find_map_by_name(object, "lb_scratch");
  if (config.preemptible == LB_YES && map != nullptr) {
    bpf_map__set_max_entries(map, LB_SCRATCH_SLOTS);
  }
}

void choose_parts(lb_choices& choices, const Features& features) {
  choices.tc_fastpath = yes_if(features.usable(Feature::tc_fastpath));
  choices.xdp_fastpath = yes_if(features.usable(Feature::xdp_fastpath));
  choices.egress_verdicts = yes_if(features.usable(Feature::egress_verdicts));
}

}  // namespace lb::agent
