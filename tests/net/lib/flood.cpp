// SPDX-License-Identifier: Apache-2.0
// Sends live frames by BPF_PROG_TEST_RUN. The only file that includes the flood's skeleton.
#include "tests/net/lib/flood.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <netinet/ip6.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Woverlength-strings"
namespace lb::test::skeleton {
#include "bpf/flood.skel.h"
}
#pragma GCC diagnostic pop

namespace lb::test {
namespace {

using Frame = std::vector<std::uint8_t>;

std::uint16_t sum_of(std::span<const std::uint8_t> bytes, std::uint32_t more = 0) {
  auto sum = more;
  for (std::size_t at = 0; at + 1 < bytes.size(); at += 2) {
    std::uint16_t word = 0;
    std::memcpy(&word, &bytes[at], sizeof(word));
    sum += word;
  }
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>((sum & 0xffff) + (sum >> 16));
}

template <class Header>
void append(Frame& frame, const Header& header) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&header);
  frame.insert(frame.end(), bytes, bytes + sizeof(header));
}

ethhdr ethernet_of(const MacAddress& from, const MacAddress& to, std::uint16_t protocol) {
  ethhdr ethernet{};
  std::ranges::copy(to, ethernet.h_dest);
  std::ranges::copy(from, ethernet.h_source);
  ethernet.h_proto = htons(protocol);
  return ethernet;
}

iphdr ipv4_to(const End& target) {
  iphdr ip{};
  ip.version = 4;
  ip.ihl = 5;
  ip.tot_len = htons(sizeof(iphdr) + sizeof(tcphdr));
  ip.ttl = 64;
  ip.protocol = IPPROTO_TCP;
  ip.saddr = htonl(0x0a800000);
  std::memcpy(&ip.daddr, target.address.bytes.data() + 12, sizeof(ip.daddr));
  return ip;
}

ip6_hdr ipv6_to(const End& target) {
  ip6_hdr ip{};
  ip.ip6_flow = htonl(6U << 28);
  ip.ip6_plen = htons(sizeof(tcphdr));
  ip.ip6_hlim = 64;
  ip.ip6_nxt = IPPROTO_TCP;
  ip.ip6_src.s6_addr32[0] = htonl(0x20010db8);
  ip.ip6_src.s6_addr32[1] = htonl(0x000f0000);
  std::memcpy(&ip.ip6_dst, target.address.bytes.data(), sizeof(ip.ip6_dst));
  return ip;
}

bool is_ipv4(const End& target) { return target.address.family() == k8s::Family::ipv4; }

Frame frame_to(const MacAddress& from, const MacAddress& to, const End& target) {
  Frame frame;
  append(frame, ethernet_of(from, to, is_ipv4(target) ? ETH_P_IP : ETH_P_IPV6));
  if (is_ipv4(target)) {
    append(frame, ipv4_to(target));
  } else {
    append(frame, ipv6_to(target));
  }
  tcphdr tcp{};
  tcp.dest = htons(target.port);
  tcp.doff = 5;
  tcp.syn = 1;
  tcp.window = htons(65535);
  append(frame, tcp);
  return frame;
}

/// Stores the sums of the constant parts in the checksum fields.
void complete(Frame& frame, const End& target) {
  const std::span<const std::uint8_t> bytes(frame);
  const auto tcp_at = frame.size() - sizeof(tcphdr);
  const auto addresses = is_ipv4(target) ? bytes.subspan(sizeof(ethhdr) + offsetof(iphdr, saddr), 8)
                                         : bytes.subspan(sizeof(ethhdr) + offsetof(ip6_hdr, ip6_src), 32);
  const auto tcp =
      sum_of(bytes.subspan(tcp_at), sum_of(addresses) + htons(IPPROTO_TCP) + htons(sizeof(tcphdr)));
  if (is_ipv4(target)) {
    const auto ip = sum_of(bytes.subspan(sizeof(ethhdr), sizeof(iphdr)));
    std::memcpy(&frame[sizeof(ethhdr) + offsetof(iphdr, check)], &ip, sizeof(ip));
  }
  std::memcpy(&frame[tcp_at + offsetof(tcphdr, check)], &tcp, sizeof(tcp));
}

using Link = std::unique_ptr<bpf_link, decltype(&bpf_link__destroy)>;

Link count_at(const Host& host, const bpf_program* program) {
  const auto device = host.device_index("eth0");
  const auto before = Namespace::current();
  host.space().enter();
  bpf_tcx_opts first{};
  first.sz = sizeof(first);
  first.flags = BPF_F_BEFORE;
  Link link(bpf_program__attach_tcx(program, device, &first), &bpf_link__destroy);
  before.enter();
  if (!link) {
    throw std::runtime_error(std::string("cannot count frames: ") + std::strerror(errno));
  }
  return link;
}

}  // namespace

struct Flood::State {
  std::unique_ptr<skeleton::flood, decltype(&skeleton::flood__destroy)> program{nullptr, nullptr};
  Frame frame{};
  int device = 0;
  bool ipv4 = false;
  const Namespace& space;
  Link counting{nullptr, &bpf_link__destroy};
};

Flood::Flood(const Host& from, const Host& next, const End& target)
    : state_(std::make_unique<State>(State{.space = from.space()})) {
  state_->device = from.device_index("eth0");
  state_->ipv4 = is_ipv4(target);
  state_->frame = frame_to(from.mac_address("eth0"), next.mac_address("eth0"), target);
  state_->program = {skeleton::flood__open(), &skeleton::flood__destroy};
  if (!state_->program) {
    throw std::runtime_error("cannot open the flood's program");
  }
  complete(state_->frame, target);
  std::memcpy(state_->program->rodata->lb_frame, state_->frame.data(), state_->frame.size());
  if (skeleton::flood__load(state_->program.get()) != 0) {
    throw std::runtime_error("cannot load the flood's program");
  }
  state_->counting = count_at(
      next, state_->ipv4 ? state_->program->progs.lb_flood_count4 : state_->program->progs.lb_flood_count6);
}

Flood::~Flood() = default;

std::uint64_t Flood::arrived() const {
  return std::atomic_ref(state_->program->bss->lb_flood_seen).load(std::memory_order_relaxed);
}

void Flood::send(std::uint32_t count) const {
  const auto before = Namespace::current();
  state_->space.enter();
  xdp_md context{};
  context.data_end = static_cast<std::uint32_t>(state_->frame.size());
  context.ingress_ifindex = static_cast<std::uint32_t>(state_->device);
  bpf_test_run_opts options{};
  options.sz = sizeof(options);
  options.data_in = state_->frame.data();
  options.data_size_in = static_cast<std::uint32_t>(state_->frame.size());
  options.ctx_in = &context;
  options.ctx_size_in = sizeof(context);
  options.repeat = static_cast<int>(count);
  options.flags = BPF_F_TEST_XDP_LIVE_FRAMES;
  const auto& programs = state_->program->progs;
  const auto* program = state_->ipv4 ? programs.lb_flood_send4 : programs.lb_flood_send6;
  const int failed = bpf_prog_test_run_opts(bpf_program__fd(program), &options);
  before.enter();
  if (failed != 0) {
    throw std::runtime_error(std::string("cannot send frames: ") + std::strerror(errno));
  }
}

}  // namespace lb::test
