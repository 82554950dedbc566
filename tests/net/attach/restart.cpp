// SPDX-License-Identifier: Apache-2.0
// Agents that are killed and started again while clients connect: no client may notice (SEM-78).
#include <linux/bpf.h>
#include <linux/rtnetlink.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "agent/attach/detach.hpp"
#include "agent/datapath/datapath.hpp"
#include "tests/net/lib/hooks.hpp"
#include "tests/net/lib/lab.hpp"
#include "tests/net/lib/pod_scene.hpp"
#include "tests/net/lib/scene.hpp"

namespace lb::test {
namespace {

using agent::Datapath;
using agent::HookState;
using Catch::Matchers::ContainsSubstring;

/// The kernel's part of an agent in its own process; killed at the end.
class Agent {
 public:
  explicit Agent(const agent::AgentOptions& options) : process_(::fork()) {
    if (process_ == 0) {
      run(options);
    }
  }
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;
  ~Agent() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }

 private:
  [[noreturn]] static void run(const agent::AgentOptions& options) noexcept {
    auto datapath = Datapath::open(options);
    datapath.attach();
    while (true) {
      ::pause();
    }
  }
  pid_t process_;
};

/// A service on the lab's loopback device, and the connections to it.
class Traffic {
 public:
  explicit Traffic(const std::string& pins) : server_(AF_INET, SOCK_STREAM) {
    shell("ip address add 10.1.0.1/32 dev lo");
    Writer writer(pins);
    writer.service(1, {{1, end("10.1.0.1", 8080)}});
    writer.frontend(end("10.96.0.1", 80), LB_TCP, 1);
    REQUIRE(server_.bind(end("10.1.0.1", 8080)) == 0);
    REQUIRE(server_.listen() == 0);
  }

  /// Makes one connection; returns whether it reached the backend with the service as its peer.
  [[nodiscard]] bool once() const {
    const Socket client(AF_INET, SOCK_STREAM);
    return client.connect(end("10.96.0.1", 80)) == 0 && server_.accept() &&
           client.peer() == end("10.96.0.1", 80);
  }

  /// Makes connections for a while; returns the number of failed ones.
  [[nodiscard]] int failures(std::chrono::microseconds time) const {
    int failed = 0;
    const auto until = std::chrono::steady_clock::now() + time;
    do {
      failed += once() ? 0 : 1;
    } while (std::chrono::steady_clock::now() < until);
    return failed;
  }

 private:
  Socket server_;
};

/// Whether a system call sends a netlink request that attaches or detaches something: filters, qdiscs, XDP of
/// a device.
bool attaches_by_netlink(pid_t process, const __ptrace_syscall_info& info) {
  if (info.entry.nr != __NR_sendto) {
    return false;
  }
  // libbpf and the agent begin each request with its header, whose third 16-bit word is the type.
  const long head = ::ptrace(PTRACE_PEEKDATA, process, info.entry.args[1], nullptr);
  const auto type = static_cast<std::uint16_t>(static_cast<unsigned long>(head) >> 32);
  static const std::set<std::uint16_t> attaching = {RTM_NEWQDISC, RTM_DELQDISC, RTM_NEWTFILTER,
                                                    RTM_DELTFILTER, RTM_SETLINK};
  return attaching.contains(type);
}

/// Whether a system call is a bpf() call with one of `commands`. An iterator's link is no attachment: it is
/// made for each pass.
bool calls_bpf(pid_t process, const __ptrace_syscall_info& info, const std::set<bpf_cmd>& commands) {
  const auto command = static_cast<bpf_cmd>(info.entry.args[0]);
  if (info.entry.nr != __NR_bpf || !commands.contains(command)) {
    return false;
  }
  const auto type = info.entry.args[1] + offsetof(bpf_attr, link_create.attach_type);
  return command != BPF_LINK_CREATE ||
         static_cast<std::uint32_t>(::ptrace(PTRACE_PEEKDATA, process, type, nullptr)) != BPF_TRACE_ITER;
}

enum class Ended : std::uint8_t { killed, whole };

/// Starts an agent in its own process and kills it just before its `nth` bpf() call with one of `commands`,
/// or just before its `nth` netlink request that attaches.
Ended start_and_kill(const agent::AgentOptions& options, const std::set<bpf_cmd>& commands, int nth) {
  const auto child = ::fork();
  if (child == 0) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
    static_cast<void>(start(options));
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  for (int calls = 0; !WIFEXITED(status) && !WIFSIGNALED(status); ::waitpid(child, &status, 0)) {
    __ptrace_syscall_info info{};
    ::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info);
    const bool enters = info.op == PTRACE_SYSCALL_INFO_ENTRY;
    const bool counts = enters && (calls_bpf(child, info, commands) || attaches_by_netlink(child, info));
    calls += counts ? 1 : 0;
    if (calls == nth) {
      ::kill(child, SIGKILL);
    }
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
  }
  return WIFEXITED(status) ? Ended::whole : Ended::killed;
}

std::size_t count_replaced(const std::map<std::string, LinkState>& old,
                           const std::map<std::string, LinkState>& now) {
  return static_cast<std::size_t>(
      std::ranges::count_if(old, [&](const auto& entry) { return now.at(entry.first) != entry.second; }));
}

}  // namespace

namespace {

const std::set<bpf_cmd> attaching = {BPF_LINK_CREATE, BPF_LINK_UPDATE, BPF_LINK_DETACH,
                                     BPF_PROG_ATTACH, BPF_PROG_DETACH, BPF_OBJ_PIN};

/// `others`: the number of hooks that are not socket hooks. SLUICE_LONG: a hundred restarts.
void restart_unchanged(DeviceLab& scene, std::size_t others) {
  const auto hooks = socket_hooks + others;
  REQUIRE(start(scene.options).count(HookState::attached) == hooks);
  const auto before = links(scene.lab);
  const int restarts = std::getenv("SLUICE_LONG") != nullptr ? 100 : 10;
  for (int restart = 0; restart < restarts; ++restart) {
    REQUIRE(start(scene.options).count(HookState::kept) == hooks);
  }
  CHECK(start_and_kill(scene.options, attaching, 1) == Ended::whole);
  CHECK(links(scene.lab) == before);
}

}  // namespace

TEST_CASE("REL-69 an unchanged restart makes no attach call", "[features]") {
  DeviceLab scene;
  scene.options.sockets = agent::SocketScope::all;
  scene.options.xdp = agent::XdpMode::native;
  restart_unchanged(scene, 3);
}

TEST_CASE("REL-69 an unchanged restart makes no attach call, without TCX") {
  DeviceLab scene;
  scene.options.sockets = agent::SocketScope::all;
  scene.options.without = {"tcx"};
  const auto filters = [] {
    return Host::here().output("tc filter show dev eth0 ingress; tc filter show dev eth0 egress");
  };
  restart_unchanged(scene, 2);
  const auto before = filters();
  REQUIRE(before.find("lb_tc_in") != std::string::npos);
  CHECK(start(scene.options).count(HookState::kept) == socket_hooks + 2);
  CHECK(filters() == before);
  // And the tracer recognises the requests that attach what is missing.
  agent::detach_all(maps::Pins(scene.lab.pins()));
  CHECK(start_and_kill(scene.options, {}, 1) == Ended::killed);
  static_cast<void>(start(scene.options));
  agent::detach_all(maps::Pins(scene.lab.pins()));
}

TEST_CASE("another configuration replaces programs in place", "[features]") {
  DeviceLab scene;
  scene.options.sockets = agent::SocketScope::all;
  scene.options.xdp = agent::XdpMode::native;
  static_cast<void>(start(scene.options));
  const auto before = links(scene.lab);
  scene.options.source_ports = {{2000, 3000}};
  const auto report = start(scene.options);
  CHECK(report.count(HookState::updated) == before.size());
  const auto after = links(scene.lab);
  CHECK(ids(after) == ids(before));
  for (const auto& [name, link] : before) {
    INFO(name);
    CHECK(after.at(name).program != link.program);
  }
}

TEST_CASE("SEM-71 connections succeed while the agent is killed and started again") {
  Lab lab;
  static_cast<void>(start(lab.options()));
  const Traffic traffic(lab.pins());
  const auto before = ids(links(lab));
  for (int round = 0; round < 5; ++round) {
    const Agent agent(lab.options());
    CHECK(traffic.failures(std::chrono::milliseconds(150)) == 0);
  }
  CHECK(traffic.failures(std::chrono::milliseconds(50)) == 0);
  CHECK(ids(links(lab)) == before);
}

// Every start has another configuration, so it replaces all programs, and is killed before the next
// replacement.
TEST_CASE("REL-83 every mix of old and new programs serves") {
  Lab lab;
  auto options = lab.options();
  static_cast<void>(start(options));
  const Traffic traffic(lab.pins());
  const auto before = ids(links(lab));
  for (std::uint16_t nth = 1; nth <= socket_hooks; ++nth) {
    INFO("killed before replacing program " << nth);
    options.source_ports = {{2000, static_cast<std::uint16_t>(3000 + nth)}};
    const auto old = links(lab);
    REQUIRE(start_and_kill(options, {BPF_LINK_UPDATE}, nth) == Ended::killed);
    CHECK(count_replaced(old, links(lab)) == nth - 1U);
    CHECK(traffic.failures(std::chrono::milliseconds(10)) == 0);
  }
  CHECK(start(options).failure().empty());
  CHECK(ids(links(lab)) == before);
  CHECK(traffic.once());
}

TEST_CASE("a first start killed before any pin or link is completed by the next one") {
  const std::set<bpf_cmd> steps = {BPF_OBJ_PIN, BPF_LINK_CREATE};
  int kills = 0;
  for (int nth = 1;; nth += 5) {
    const Lab lab;
    INFO("killed before step " << nth);
    const auto ended = start_and_kill(lab.options(), steps, nth);
    const auto report = start(lab.options());
    CHECK(report.failure().empty());
    CHECK(links(lab).size() == socket_hooks);
    CHECK(Traffic(lab.pins()).once());
    if (ended == Ended::whole) {
      break;
    }
    ++kills;
  }
  CHECK(kills > 4);
}

TEST_CASE("links of a cgroup that is gone are made anew") {
  Lab lab;
  auto options = lab.options();
  options.cgroup = lab.make_cgroup("other");
  static_cast<void>(start(options));
  const auto before = ids(links(lab));
  REQUIRE(::rmdir(options.cgroup.c_str()) == 0);
  options.cgroup = lab.cgroup();
  CHECK(start(options).count(HookState::attached) == socket_hooks);
  CHECK(ids(links(lab)) != before);
  CHECK(Traffic(lab.pins()).once());
}

TEST_CASE("a restart keeps the secret and the sizes of the maps, and says so") {
  Lab lab;
  auto options = lab.options();
  auto first = Datapath::open(options);
  const auto before = first.page().read();
  CHECK((before.secret[0] != 0 || before.secret[1] != 0));
  CHECK(before.hertz != 0);
  options.sizes.flows *= 2;
  auto second = Datapath::open(options);
  const auto after = second.page().read();
  CHECK(after.secret[0] == before.secret[0]);
  CHECK(after.secret[1] == before.secret[1]);
  REQUIRE(second.notes().size() == 2);
  CHECK_THAT(second.notes().front(), ContainsSubstring("lb_flows4 keeps its 4096 entries"));
}

}  // namespace lb::test
