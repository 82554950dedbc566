// SPDX-License-Identifier: Apache-2.0
// Hooks and pins that others remove are restored, and counted (REL-19).
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "agent/attach/attach.hpp"
#include "agent/attach/detach.hpp"
#include "agent/attach/socket_probe.hpp"
#include "agent/base/cgroup.hpp"
#include "agent/base/error.hpp"
#include "agent/datapath/lock.hpp"
#include "agent/netlink/filters.hpp"
#include "agent/netlink/node_watch.hpp"
#include "agent/programs/clsact.hpp"
#include "maps/abi/checks.h"
#include "tests/net/lib/hooks.hpp"
#include "tests/net/lib/pod_scene.hpp"

namespace lb::test {
namespace {

using agent::FilterChanges;
using Catch::Matchers::ContainsSubstring;
using Names = std::map<std::string, int>;

/// Restores as the agent does, until nothing is left to restore, for a minute at most; returns what was
/// restored, and how often.
Names heal(agent::Datapath& datapath, FilterChanges filters = FilterChanges::none) {
  Names healed;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < deadline) {
    const auto restored = datapath.restore(filters);
    for (const auto& hook : restored.hooks) {
      ++healed[std::string(hook.name())];
    }
    if (restored.maps > 0) {
      healed["map"] += static_cast<int>(restored.maps);
    }
    if (restored.nothing() && restored.failure.empty()) {
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return healed;
}

std::map<std::string, std::uint32_t> programs(const Lab& lab) {
  std::map<std::string, std::uint32_t> all;
  for (const auto& [name, link] : links(lab)) {
    all[name] = link.program;
  }
  return all;
}

const Names all_hooks = {{"getpeername4", 1}, {"getpeername6", 1}, {"recvmsg4", 1}, {"recvmsg6", 1},
                         {"sendmsg4", 1},     {"sendmsg6", 1},     {"connect4", 1}, {"connect6", 1},
                         {"ingress", 1},      {"egress", 1},       {"xdp", 1},      {"pod_ingress", 2},
                         {"pod_egress", 2}};

struct HealScene : PodScene {
  HealScene() : PodScene(Wiring::routed) {
    options.sockets = agent::SocketScope::all;
    options.xdp = agent::XdpMode::native;
    lock = agent::PinLock::take(pins());
    REQUIRE(attach().failure().empty());
    REQUIRE(heal(*datapath).empty());
  }
  [[nodiscard]] maps::Pins pins() const { return maps::Pins(lab.pins()); }
};

/// The ids of all pinned maps, by name.
std::map<std::string, std::uint32_t> map_ids(const maps::Pins& pins) {
  std::map<std::string, std::uint32_t> all;
  for (const auto& entry : std::filesystem::directory_iterator(pins.maps())) {
    const auto info = maps::map_info(maps::Fd(bpf_obj_get(entry.path().c_str())).get());
    all[entry.path().filename().string()] = info ? info->id : 0;
  }
  return all;
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

TEST_CASE("REL-19 SEM-76 every hook that was detached by hand is brought back", "[features]") {
  HealScene scene;
  const auto before = programs(scene.lab);
  SECTION("by detaching its link") {
    for (const auto& [name, link] : links(scene.lab)) {
      REQUIRE(bpf_link_detach(maps::Fd(bpf_obj_get(scene.pins().link(name).c_str())).get()) == 0);
    }
    CHECK(heal(*scene.datapath) == all_hooks);
  }
  SECTION("by removing its pin") {
    for (const auto& [name, link] : links(scene.lab)) {
      REQUIRE(::unlink(scene.pins().link(name).c_str()) == 0);
    }
    CHECK(heal(*scene.datapath) == all_hooks);
  }
  CHECK(programs(scene.lab) == before);
  CHECK(heal(*scene.datapath).empty());
}

using Hooks = std::vector<std::string>;

TEST_CASE("REL-70 socket hooks are tried by calls out of the served cgroup") {
  const Lab lab;
  auto options = lab.options();
  options.cgroup = lab.make_cgroup("served");
  auto datapath = agent::Datapath::open(options);
  REQUIRE(datapath.attach().failure().empty());
  const maps::Fd sockets(bpf_obj_get(maps::Pins(lab.pins()).map("lb_sockets").c_str()));
  const auto hooks_not_running_in = [&](const std::string& path) {
    agent::SocketProbe probe(sockets.get());
    probe.enter(agent::open_cgroup(path));
    return probe.not_running();
  };
  CHECK(hooks_not_running_in(options.cgroup).empty());
  const auto below = options.cgroup + "/below";
  REQUIRE(::mkdir(below.c_str(), 0755) == 0);
  const auto deaf_below = hooks_not_running_in(below);
  REQUIRE(::rmdir(below.c_str()) == 0);
  CHECK(deaf_below.empty());
  CHECK(hooks_not_running_in(lab.make_cgroup("beside")) == Hooks{"connect4", "connect6"});
}

TEST_CASE("REL-70 REL-148 the call by which socket hooks are tried meets no service") {
  const Lab lab;
  auto options = lab.options();
  options.cgroup = lab.make_cgroup("served");
  auto datapath = agent::Datapath::open(options);
  REQUIRE(datapath.attach().failure().empty());
  const maps::Pins pins(lab.pins());
  const maps::Fd frontends(bpf_obj_get(pins.map("lb_frontends").c_str()));
  for (const char* address : {"::ffff:192.0.0.8", "100:0:0:1::1", "::ffff:127.0.0.1", "::1"}) {
    lb_frontend_key key{};
    REQUIRE(::inet_pton(AF_INET6, address, key.address) == 1);
    key.port = 9;
    key.protocol = LB_UDP;
    const lb_frontend claimed{
        .service = 1, .kind = LB_EXTERNAL_IP, .pad = 0, .check = lb_frontend_check(&key)};
    REQUIRE(bpf_map_update_elem(frontends.get(), &key, &claimed, BPF_ANY) == 0);
  }
  CHECK(datapath.reattach_idle_hooks().hooks.empty());
  CHECK(std::string(datapath.page().read().sockets) == "cgroup, 8 of 8 hooks");
}

TEST_CASE("REL-70 a socket hook that does not run is attached anew, and said to be lost until it does") {
  const Lab lab;
  auto options = lab.options();
  options.cgroup = lab.make_cgroup("served");
  auto datapath = agent::Datapath::open(options);
  REQUIRE(datapath.attach().failure().empty());
  const maps::Pins pins(lab.pins());
  const auto detach = [&] {
    REQUIRE(bpf_link_detach(maps::Fd(bpf_obj_get(pins.link("connect6").c_str())).get()) == 0);
  };
  const auto sockets = [&] { return std::string(datapath.page().read().sockets); };
  CHECK(datapath.reattach_idle_hooks().hooks.empty());
  SECTION("its link was detached") {
    detach();
    CHECK(datapath.reattach_idle_hooks().hooks ==
          std::vector{agent::HookId{agent::HookKind::socket, {}, "connect6"}});
  }
  SECTION("its cgroup is going away") {
    REQUIRE(::rmdir(options.cgroup.c_str()) == 0);
    detach();
    CHECK_THAT(datapath.reattach_idle_hooks().failure, ContainsSubstring("cannot attach to cgroup connect6"));
    CHECK(sockets() == "cgroup, 7 of 8 hooks");
    CHECK(lab.make_cgroup("served") == options.cgroup);
    CHECK(datapath.restore(FilterChanges::none).hooks.size() == socket_hooks);
  }
  CHECK(datapath.reattach_idle_hooks().hooks.empty());
  CHECK(datapath.reattach_idle_hooks().failure.empty());
  CHECK(sockets() == "cgroup, 8 of 8 hooks");
}

// A separate thread, so that the namespaces of the other threads do not change.
TEST_CASE("REL-70 the root of a cgroup namespace is served, and that it holds no pods is said") {
  const Lab lab;
  const std::string mount = "/tmp";
  const std::string slice = mount + "/kubelet.slice";  // named like the slice on kind's nodes
  const std::string pods = slice + "/kubelet-kubepods.slice";
  std::string without_pods;
  std::string with_pods = "not looked at";
  std::jthread([&] {
    if (::unshare(CLONE_NEWCGROUP | CLONE_NEWNS) == 0 && ::mount("", "/", "", MS_REC | MS_PRIVATE, "") == 0 &&
        ::mount("cgroup2", mount.c_str(), "cgroup2", 0, "") == 0) {
      without_pods = agent::open_cgroup(mount).note;
      if (::mkdir(slice.c_str(), 0700) == 0 && ::mkdir(pods.c_str(), 0700) == 0) {
        with_pods = agent::open_cgroup(mount).note;
      }
      ::rmdir(pods.c_str());
      ::rmdir(slice.c_str());
    }
  }).join();
  CHECK_THAT(without_pods, ContainsSubstring("is the root of a cgroup namespace and holds no pods"));
  CHECK(with_pods.empty());
}

TEST_CASE("REL-70 a cgroup that was removed and made again is served again") {
  Lab lab;
  auto options = lab.options();
  options.cgroup = lab.make_cgroup("other");
  auto datapath = agent::Datapath::open(options);
  REQUIRE(datapath.attach().failure().empty());
  REQUIRE(::rmdir(options.cgroup.c_str()) == 0);
  CHECK_FALSE(datapath.restore(FilterChanges::none).failure.empty());
  CHECK(lab.make_cgroup("other") == options.cgroup);
  const auto restored = datapath.restore(FilterChanges::none);
  CHECK(restored.failure.empty());
  CHECK(restored.hooks.size() == socket_hooks);
  CHECK(datapath.reattach_idle_hooks().hooks.empty());
  lab.enter_cgroup(options.cgroup);
  Writer writer(lab.pins());
  writer.service(1, {{1, end("127.0.0.1", 9)}});
  writer.frontend(end("10.96.0.1", 80), LB_UDP, 1);
  const Socket client(AF_INET, SOCK_DGRAM);
  CHECK(counter_deltas(writer, [&] {
          static_cast<void>(client.connect(end("10.96.0.1", 80)));
        }).socket_translated == 1);
  lab.enter_cgroup(lab.cgroup());
}

TEST_CASE("REL-19 one lost hook of one pod is brought back alone", "[features]") {
  HealScene scene;
  const auto before = ids(links(scene.lab));
  const auto pin = fmt::format("pod_out_{}", if_nametoindex("pods3"));
  REQUIRE(bpf_link_detach(maps::Fd(bpf_obj_get(scene.pins().link(pin).c_str())).get()) == 0);
  CHECK(heal(*scene.datapath) == Names{{"pod_egress", 1}});
  auto after = ids(links(scene.lab));
  CHECK(after.at(pin) != before.at(pin));
  after[pin] = before.at(pin);
  CHECK(after == before);
}

TEST_CASE("REL-19 another program put behind our link is replaced", "[features]") {
  HealScene scene;
  const auto in = fmt::format("pod_in_{}", if_nametoindex("pods2"));
  const auto out = fmt::format("pod_in_{}", if_nametoindex("pods3"));
  const auto all = programs(scene.lab);
  const auto tc_in = all.at(fmt::format("tc_in_{}", if_nametoindex("eth0")));
  const maps::Fd link(bpf_obj_get(scene.pins().link(in).c_str()));
  const maps::Fd program(bpf_prog_get_fd_by_id(tc_in));
  REQUIRE(bpf_link_update(link.get(), program.get(), nullptr) == 0);
  CHECK(heal(*scene.datapath) == Names{{"pod_ingress", 1}});
  CHECK(programs(scene.lab).at(in) == programs(scene.lab).at(out));
}

TEST_CASE("REL-19 an unpinned map is pinned again, and is the same map") {
  HealScene scene;
  const auto path = scene.pins().map("lb_frontends");
  const auto id = [&] {
    const auto info = maps::map_info(maps::Fd(bpf_obj_get(path.c_str())).get());
    return info ? info->id : 0;
  };
  const auto before = id();
  REQUIRE(before != 0);
  REQUIRE(::unlink(path.c_str()) == 0);
  CHECK(heal(*scene.datapath) == Names{{"map", 1}});
  CHECK(id() == before);
}

TEST_CASE("REL-19 a removed directory of pins is made again, with all that was pinned there", "[features]") {
  HealScene scene;
  const auto programs_before = programs(scene.lab);
  const auto maps_before = map_ids(scene.pins());
  SECTION("the whole directory") { std::filesystem::remove_all(scene.pins().base()); }
  SECTION("that of the layout") { std::filesystem::remove_all(scene.pins().version()); }
  SECTION("that of the links") {
    std::filesystem::remove_all(scene.pins().links());
    CHECK(heal(*scene.datapath) == all_hooks);
  }
  static_cast<void>(heal(*scene.datapath));
  CHECK(programs(scene.lab) == programs_before);
  CHECK(map_ids(scene.pins()) == maps_before);
  CHECK(heal(*scene.datapath).empty());
  CHECK(agent::find_agent(scene.pins()).state == agent::AgentState::running);
  // The lock outlives this part of the agent, as when tables grow.
  scene.datapath.reset();
  REQUIRE(scene.attach().failure().empty());
  static_cast<void>(heal(*scene.datapath));
  CHECK(agent::find_agent(scene.pins()).state == agent::AgentState::running);
}

TEST_CASE("REL-19 REL-40 a directory of pins that another agent has made meanwhile is left to it",
          "[features]") {
  HealScene scene;
  std::filesystem::remove_all(scene.pins().base());
  {
    const auto other = agent::PinLock::take(scene.pins());
    const auto restored = scene.datapath->restore(FilterChanges::none);
    CHECK(restored.nothing());
    CHECK_THAT(restored.failure, ContainsSubstring("another agent"));
    CHECK(links(scene.lab).empty());
  }
  auto healed = heal(*scene.datapath);
  CHECK(healed.erase("map") == 1);
  CHECK(healed == all_hooks);
}

// A device of another driver's name, because by default a veth runs no XDP.
TEST_CASE("REL-19 a link that cannot be pinned is no refusal of XDP by the driver", "[features]") {
  const DeviceLab scene;
  const maps::Pins pins(scene.lab.pins());
  const auto tc = foreign_program();
  const std::array<bpf_insn, 2> pass = {
      {{BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, XDP_PASS}, {BPF_JMP | BPF_EXIT, 0, 0, 0, 0}}};
  const maps::Fd xdp(bpf_prog_load(BPF_PROG_TYPE_XDP, "foreign", "GPL", pass.data(), pass.size(), nullptr));
  agent::AttachPlan plan;
  plan.devices = {{"eth0", if_nametoindex("eth0"), {.driver = "virtio_net"}}};
  plan.tc_in = plan.tc_out = tc.get();
  plan.xdp = xdp.get();
  agent::Attacher attacher(pins.links());
  const auto attached = [&] { return attacher.attach(plan); };
  const auto first = attached();
  CHECK(first.count(agent::HookState::declined) == 0);
  CHECK_THAT(first.hooks.back().problem, ContainsSubstring("cannot pin the link"));
  agent::prepare_pins(pins);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!attached().failure().empty() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  CHECK_THAT(attached().packets_text(), ContainsSubstring("eth0 tcx+native"));
  agent::detach_all(pins);
}

TEST_CASE("REL-19 REL-70 hooks of devices are brought back while the served cgroup is missing",
          "[features]") {
  DeviceLab scene;
  scene.options.sockets = agent::SocketScope::all;
  scene.options.cgroup = scene.lab.make_cgroup("other");
  auto datapath = agent::Datapath::open(scene.options);
  REQUIRE(datapath.attach().failure().empty());
  const auto in_use = tcx_programs("eth0", BPF_TCX_INGRESS);
  REQUIRE(::rmdir(scene.options.cgroup.c_str()) == 0);
  const auto pin = maps::Pins(scene.lab.pins()).link(fmt::format("tc_in_{}", if_nametoindex("eth0")));
  REQUIRE(bpf_link_detach(maps::Fd(bpf_obj_get(pin.c_str())).get()) == 0);
  const auto restored = datapath.restore(FilterChanges::none);
  CHECK_THAT(restored.failure, ContainsSubstring("cannot open the cgroup"));
  CHECK(restored.hooks == std::vector{agent::HookId{agent::HookKind::tc_ingress, "eth0"}});
  CHECK(tcx_programs("eth0", BPF_TCX_INGRESS) == in_use);
  CHECK(scene.lab.make_cgroup("other") == scene.options.cgroup);
  CHECK(datapath.restore(FilterChanges::none).hooks.size() == socket_hooks);
}

TEST_CASE("REL-19 removed clsact filters are brought back when the kernel tells of a removal") {
  PodScene scene(Wiring::routed);
  scene.options.without = {"tcx"};
  REQUIRE(scene.attach().failure().empty());
  REQUIRE(heal(*scene.datapath, FilterChanges::some).empty());
  shell("tc filter del dev pods2 ingress && tc qdisc del dev eth0 clsact");
  CHECK(heal(*scene.datapath).empty());
  CHECK(heal(*scene.datapath, FilterChanges::some) ==
        Names{{"ingress", 1}, {"egress", 1}, {"pod_ingress", 1}});
  shell("tc filter show dev pods2 ingress | grep -q lb_pod_in");
  agent::detach_all(maps::Pins(scene.lab.pins()));
}

TEST_CASE("REL-68 a filter replaced at our handle is noticed, and ours runs again") {
  PodScene scene(Wiring::routed);
  scene.options.without = {"tcx"};
  REQUIRE(scene.attach().failure().empty());
  boost::asio::io_context context;
  const agent::NodeWatch watch(context, [] {});
  const auto changes = [&] {
    context.restart();
    context.run_for(std::chrono::milliseconds(100));
    return watch.network().filter_changes();
  };
  const auto before = changes();
  shell("tc filter replace dev eth0 ingress prio 1 handle 0x99 bpf bytecode '1,6 0 0 4294967295,'");
  CHECK(changes() == before);
  shell(
      fmt::format("tc filter replace dev eth0 ingress prio 1 handle {:#x} bpf bytecode '1,6 0 0 4294967295,'",
                  agent::FilterOwner(scene.lab.pins()).handles().first));
  CHECK(changes() == before + 1);
  CHECK(heal(*scene.datapath, FilterChanges::some) == Names{{"ingress", 1}});
  const auto at_eth0 = agent::filters_of(static_cast<int>(if_nametoindex("eth0")), agent::TcSide::ingress);
  REQUIRE(at_eth0.size() == 3);
  CHECK(at_eth0.front().name.starts_with("lb_tc_in"));
  agent::detach_all(maps::Pins(scene.lab.pins()));
}

TEST_CASE("500 pods' devices are attached, checked and detached cheaply", "[features]") {
  PodScene scene(Wiring::routed);
  const auto file = fmt::format("/tmp/lbtest-{}", ::getpid());
  constexpr int count = 500;
  std::string add;
  std::string remove;
  for (int number = 0; number < count; ++number) {
    add += fmt::format("link add podsx{0} type veth peer name far{0}\n", number);
    remove += fmt::format("link del podsx{}\n", number);
  }
  const auto batch = [&](const std::string& lines) {
    std::ofstream(file) << lines;
    shell(fmt::format("ip -batch {0} && rm {0}", file));
  };
  const auto timed = [](const std::function<void()>& act) {
    const auto begin = cpu_seconds();
    act();
    return cpu_seconds() - begin;
  };
  batch(add);
  const auto all = timed([&] { CHECK(scene.attach().pods == count + 2); });
  shell("ip link add podsy type veth peer name fary");
  const auto one = timed([&] { CHECK(scene.attach().pods == count + 3); });
  REQUIRE(heal(*scene.datapath).empty());
  const auto look = timed([&] {
    for (int time = 0; time < 20; ++time) {
      CHECK(scene.datapath->restore(FilterChanges::none).hooks.empty());
    }
  });
  WARN(fmt::format("500 devices: all {:.0f} ms, one more {:.1f} ms, a look {:.2f} ms of CPU", all * 1e3,
                   one * 1e3, look * 1e3 / 20));
  CHECK(one < all / 4);
  CHECK(look / 20 < 0.01);  // it runs twice a second: at most 2 % of a core, even with sanitizers
  batch(remove + "link del podsy\n");
  CHECK(scene.attach().pods == 2);
  CHECK(links(scene.lab).size() == 6);
}

}  // namespace lb::test
