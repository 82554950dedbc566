// SPDX-License-Identifier: Apache-2.0
// Packets of established flows at full rate, and how many of them arrive. The sender is the kernel's test run
// with live frames, or a UDP socket; the receiver is a program at the last device, so that no receiving
// socket is the bottleneck. Flow n has the source address 10.64.0.0 + n, port 5000, with both senders.
//
// usage: bench_frames receive DEVICE DIRECTORY FIRST COUNT PORT
//          Answers and counts at DEVICE packets to the COUNT endpoints from address FIRST on; pins into
//          DIRECTORY, which the caller removes at the end.
//        bench_frames swallow DEVICE DIRECTORY
//          Drops replies to live frames at DEVICE.
//        bench_frames open DIRECTORY DEVICE MAC PROTOCOL ADDRESS PORT FLOWS
//          Sends each flow's first packets, both ways, by live frames out of DEVICE to its neighbour MAC;
//          PROTOCOL is tcp or udp. Forgets all earlier flows.
//        bench_frames live DIRECTORY DEVICE MAC PROTOCOL ADDRESS PORT FLOWS SECONDS
//        bench_frames socket DIRECTORY ADDRESS PORT FLOWS SECONDS
//          Prints one JSON object: packets per second, sent and received, and how many were misrouted since
//          the flows were opened or since the last such figure: to no endpoint, or to another one than
//          before.
#include "bench/frames.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "bench/ends.hpp"
#include "bench/rounds.hpp"
#include "bench/tool.hpp"
#include "tests/prog/packets/build.hpp"

namespace lb::bench::skeleton {
#include "bpf/frames.skel.h"
}

namespace lb::bench {
namespace {

using Program = std::unique_ptr<skeleton::frames, decltype(&skeleton::frames__destroy)>;

constexpr std::uint32_t burst = 64;       // packets per system call of the socket
constexpr std::uint32_t opening = 1000;   // flows whose first packets are sent together
constexpr std::uint32_t chunk = 100'000;  // frames per test run

/// The endpoints whose packets the receiver counts; empty for a sender.
struct Endpoints {
  std::uint32_t first = 0, count = 0;
  std::uint16_t port = 0;
};

Program load(const Endpoints& endpoints = {}) {
  Program program(skeleton::frames__open(), skeleton::frames__destroy);
  if (!program) {
    throw std::runtime_error("the programs cannot be opened");
  }
  program->rodata->lb_first_endpoint = endpoints.first;
  program->rodata->lb_endpoints = endpoints.count;
  program->rodata->lb_endpoint_port = endpoints.port;
  if (skeleton::frames__load(program.get()) != 0) {
    throw std::runtime_error("the kernel refuses the programs");
  }
  return program;
}

std::uint32_t device_of(const std::string& name) {
  const auto index = ::if_nametoindex(name.c_str());
  if (index == 0) {
    throw std::runtime_error("there is no device " + name);
  }
  return index;
}

// ---- What stays at a device. ----

void keep(bpf_link* link, const std::string& path) {
  must(link == nullptr ? -1 : bpf_link__pin(link, path.c_str()), path.c_str());
  bpf_link__disconnect(link);
  bpf_link__destroy(link);
}

void receive(char** words) {
  const auto first = end_of(words[2], number(words[4]));
  const auto program = load({host_order(first), number(words[3]), ntohs(first.sin_port)});
  const auto device = static_cast<int>(device_of(words[0]));
  const std::string directory = words[1];
  std::filesystem::create_directory(directory);
  keep(bpf_program__attach_xdp(program->progs.lb_receive, device), directory + "/receive");
  keep(bpf_program__attach_tcx(program->progs.lb_answer, device, nullptr), directory + "/answer");
  for (auto* map : {program->maps.received, program->maps.misrouted, program->maps.backends}) {
    must(bpf_map__pin(map, (directory + '/' + bpf_map__name(map)).c_str()), "pinning");
  }
}

void swallow(char** words) {
  const auto program = load();
  keep(bpf_program__attach_xdp(program->progs.lb_swallow, static_cast<int>(device_of(words[0]))),
       words[1] + std::string("/swallow"));
}

maps::Fd pinned(const std::string& directory, const char* name) {
  return maps::Fd(must(bpf_obj_get((directory + '/' + name).c_str()), name));
}

/// The receiver's counters.
class Received {
 public:
  explicit Received(const std::string& directory)
      : received_(pinned(directory, "received")), misrouted_(pinned(directory, "misrouted")) {}
  /// Data packets that reached their endpoint.
  [[nodiscard]] std::uint64_t count() const {
    std::vector<std::uint64_t> each(static_cast<std::size_t>(must(libbpf_num_possible_cpus(), "processors")));
    must(bpf_map_lookup_elem(received_.get(), &only, each.data()), "received");
    return std::accumulate(each.begin(), each.end(), std::uint64_t{0});
  }
  [[nodiscard]] std::uint64_t misrouted() const {
    std::uint64_t count = 0;
    must(bpf_map_lookup_elem(misrouted_.get(), &only, &count), "misrouted");
    return count;
  }
  void forget_misrouted() const {
    const std::uint64_t none = 0;
    must(bpf_map_update_elem(misrouted_.get(), &only, &none, BPF_ANY), "misrouted");
  }

 private:
  static constexpr std::uint32_t only = 0;
  maps::Fd received_, misrouted_;
};

/// Resets the backends of all flow numbers, because new flows use them and may go elsewhere.
void forget_backends(const std::string& directory) {
  const auto map = pinned(directory, "backends");
  std::vector<std::uint32_t> flows(LB_FRAME_FLOWS);
  std::iota(flows.begin(), flows.end(), 0U);
  const std::vector<in_addr_t> none(flows.size());
  std::uint32_t count = LB_FRAME_FLOWS;
  must(bpf_map_update_batch(map.get(), flows.data(), none.data(), &count, nullptr), "backends");
}

// ---- Live frames. ----

enum class Kind : std::uint8_t { open = LB_FRAME_OPEN, data = LB_FRAME_DATA };

test::Address mapped(in_addr_t address) {
  test::Address bytes{};
  bytes[10] = bytes[11] = 0xff;
  std::memcpy(bytes.data() + 12, &address, sizeof(address));
  return bytes;
}

test::Mac mac_of(const char* text) {
  test::Mac mac{};
  std::array<unsigned, 6> parts{};
  if (std::sscanf(text, "%x:%x:%x:%x:%x:%x", &parts[0], &parts[1], &parts[2], &parts[3], &parts[4],
                  &parts[5]) != 6) {
    throw std::runtime_error("is no MAC address: " + std::string(text));
  }
  std::ranges::transform(parts, mac.begin(), [](unsigned part) { return static_cast<std::uint8_t>(part); });
  return mac;
}

test::Mac own_mac(const char* device) {
  const auto socket = socket_of(SOCK_DGRAM);
  ifreq request{};
  std::string(device).copy(request.ifr_name, IFNAMSIZ - 1);
  must(::ioctl(socket.get(), SIOCGIFHWADDR, &request), device);
  test::Mac mac{};
  std::memcpy(mac.data(), request.ifr_hwaddr.sa_data, mac.size());
  return mac;
}

/// Sends a number of frames out of a device, cycling through the flows.
class Sender {
 public:
  /// DEVICE MAC PROTOCOL ADDRESS PORT
  explicit Sender(char** words)
      : program_(load()), device_(device_of(words[0])), own_(own_mac(words[0])), next_(mac_of(words[1])) {
    const auto target = end_of(words[3], number(words[4]));
    tuple_.protocol = words[2] == std::string("tcp") ? IPPROTO_TCP : IPPROTO_UDP;
    tuple_.source = {mapped(htonl(LB_FRAME_CLIENTS)), LB_FRAME_CLIENT_PORT};
    tuple_.destination = {mapped(target.sin_addr.s_addr), ntohs(target.sin_port)};
  }

  void choose(Kind kind, std::uint32_t first, std::uint32_t flows) {
    auto frame = build(tuple_, body_of(kind));
    if (frame.size() != LB_FRAME_BYTES) {
      throw std::runtime_error("a frame of another size");
    }
    test::set_macs(frame, own_, next_);
    std::memcpy(program_->bss->lb_frame, frame.data(), frame.size());
    program_->bss->lb_first = first;
    program_->data->lb_flows = flows;
  }

  void send(std::uint32_t count) {
    std::array<std::uint8_t, LB_FRAME_BYTES> frame{};
    xdp_md context{};
    context.data_end = LB_FRAME_BYTES;
    context.ingress_ifindex = device_;
    bpf_test_run_opts options{};
    options.sz = sizeof(options);
    options.data_in = frame.data();
    options.data_size_in = LB_FRAME_BYTES;
    options.ctx_in = &context;
    options.ctx_size_in = sizeof(context);
    options.repeat = static_cast<int>(count);
    options.flags = BPF_F_TEST_XDP_LIVE_FRAMES;
    must(bpf_prog_test_run_opts(bpf_program__fd(program_->progs.lb_send), &options), "sending frames");
  }

 private:
  [[nodiscard]] test::Body body_of(Kind kind) const {
    const bool tcp = tuple_.protocol == IPPROTO_TCP;
    const std::size_t headers = 14 + 20 + (tcp ? 20 : 8);
    test::Body body{};
    const lb_frame_load load{.kind = static_cast<std::uint8_t>(kind), .unused = 0, .flow = 0};
    body.payload.resize(LB_FRAME_BYTES - headers);
    std::memcpy(body.payload.data(), &load, sizeof(load));
    body.flags = kind == Kind::open ? test::syn : test::ack;
    body.sequence = kind == Kind::open ? 0 : 1;
    body.acknowledged = kind == Kind::open ? 0 : LB_FRAME_SEQUENCE + 1;
    return body;
  }

  Program program_;
  std::uint32_t device_;
  test::Mac own_, next_;
  test::Tuple tuple_{};
};

/// Opens a few flows at a time, because not every table has room for all of them while they are unassured.
void open(char** words) {
  const Received received(words[0]);
  Sender sender(words + 1);
  const auto flows = number(words[6]);
  if (flows > LB_FRAME_FLOWS) {
    throw std::runtime_error(fmt::format("at most {} flows", LB_FRAME_FLOWS));
  }
  forget_backends(words[0]);
  received.forget_misrouted();
  const auto before = received.count();
  for (std::uint32_t first = 0; first < flows; first += opening) {
    const auto now = std::min(opening, flows - first);
    for (const auto kind : {Kind::open, Kind::data}) {
      sender.choose(kind, first, now);
      sender.send(now);
    }
  }
  // A misrouted flow is open, too; it is counted with the next figures.
  const auto arrived = received.count() - before + received.misrouted();
  if (arrived * 100 < std::uint64_t{flows} * 99) {
    throw std::runtime_error(fmt::format("of {} flows only {} were opened", flows, arrived));
  }
}

/// `step` sends some packets and returns their number.
void measure(const std::string& directory, double seconds, const std::function<std::uint64_t()>& step) {
  const Received received(directory);
  stay();
  step();
  const auto before = received.count();
  const auto begin = Clock::now();
  std::uint64_t sent = 0;
  while (seconds_since(begin) < seconds) {
    sent += step();
  }
  const double took = seconds_since(begin);
  const auto arrived = received.count() - before;
  fmt::print(R"({{"sent": {:.6g}, "received": {:.6g}, "misrouted": {}}})"
             "\n",
             static_cast<double>(sent) / took, static_cast<double>(arrived) / took, received.misrouted());
  received.forget_misrouted();
}

void live(char** words) {
  Sender sender(words + 1);
  sender.choose(Kind::data, 0, number(words[6]));
  measure(words[0], number(words[7]), [&] {
    sender.send(chunk);
    return chunk;
  });
}

// ---- A UDP socket. ----

/// Messages that differ by their source address, and contain their flow's number.
class Burst {
 public:
  explicit Burst(std::uint32_t flows) : flows_(flows) {
    for (std::uint32_t at = 0; at < burst; ++at) {
      auto& header = messages_[at].msg_hdr;
      loads_[at].begin.kind = LB_FRAME_DATA;
      pieces_[at] = {&loads_[at], sizeof(Load)};
      header.msg_iov = &pieces_[at];
      header.msg_iovlen = 1;
      if (flows == 1) {
        continue;
      }
      header.msg_control = &controls_[at];
      header.msg_controllen = sizeof(controls_[at]);
      auto* control = CMSG_FIRSTHDR(&header);
      control->cmsg_level = IPPROTO_IP;
      control->cmsg_type = IP_PKTINFO;
      control->cmsg_len = CMSG_LEN(sizeof(in_pktinfo));
    }
  }

  std::uint64_t send(int socket) {
    for (std::uint32_t at = 0; flows_ > 1 && at < burst; ++at) {
      in_pktinfo from{};
      from.ipi_spec_dst.s_addr = htonl(LB_FRAME_CLIENTS + next_);
      std::memcpy(CMSG_DATA(CMSG_FIRSTHDR(&messages_[at].msg_hdr)), &from, sizeof(from));
      loads_[at].begin.flow = htonl(next_);
      next_ = next_ + 1 < flows_ ? next_ + 1 : 0;
    }
    return static_cast<std::uint64_t>(must(::sendmmsg(socket, messages_.data(), burst, 0), "sendmmsg"));
  }

 private:
  struct alignas(cmsghdr) Control {
    std::array<char, CMSG_SPACE(sizeof(in_pktinfo))> bytes;
  };
  /// As long as a live frame's payload.
  struct Load {
    lb_frame_load begin;
    std::array<char, 22 - sizeof(lb_frame_load)> rest;
  };
  std::uint32_t flows_, next_ = 0;
  std::array<Load, burst> loads_{};
  std::array<iovec, burst> pieces_{};
  std::array<Control, burst> controls_{};
  std::array<mmsghdr, burst> messages_{};
};

void by_socket(char** words) {
  const auto flows = number(words[3]);
  const auto socket = socket_of(SOCK_DGRAM);
  const auto own = end_of(flows == 1 ? "10.64.0.0" : "0.0.0.0", LB_FRAME_CLIENT_PORT);
  must(::bind(socket.get(), plain(own), sizeof(own)), "bind");
  const auto target = end_of(words[1], number(words[2]));
  must(::connect(socket.get(), plain(target), sizeof(target)), "connect");
  Burst messages(flows);
  measure(words[0], number(words[4]), [&] { return messages.send(socket.get()); });
}

const Commands commands = {{"receive", {receive, 5}},
                           {"swallow", {swallow, 2}},
                           {"open", {open, 7}},
                           {"live", {live, 8}},
                           {"socket", {by_socket, 5}}};

}  // namespace
}  // namespace lb::bench

int main(int count, char** words) {
  return lb::bench::run_tool("bench_frames", lb::bench::commands,
                             "usage: see the first lines of bench/frames.cpp", count, words);
}
