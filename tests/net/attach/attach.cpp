// SPDX-License-Identifier: Apache-2.0
// Attaching, adopting and detaching, on real devices and a real cgroup: what a restart, a kill, a removed
// device or another owner's program may change, and what not.
#include <bpf/bpf.h>
#include <fmt/format.h>
#include <net/if.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "agent/attach/detach.hpp"
#include "agent/base/error.hpp"
#include "agent/datapath/datapath.hpp"
#include "tests/net/lib/hooks.hpp"
#include "tests/net/lib/lab.hpp"

namespace lb::test {
namespace {

using agent::AttachReport;
using agent::Datapath;
using agent::HookState;
using Catch::Matchers::ContainsSubstring;

maps::Fd attach_foreign(int program, const char* device, bpf_attach_type side) {
  return maps::Fd(bpf_link_create(program, static_cast<int>(if_nametoindex(device)), side, nullptr));
}

std::string refusal(const agent::AgentOptions& options) {
  try {
    static_cast<void>(Datapath::open(options));
  } catch (const agent::StartError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("REL-19 hooks that were detached from outside are reattached", "[features]") {
  DeviceLab scene;
  scene.options.sockets = agent::SocketScope::all;
  scene.options.xdp = agent::XdpMode::native;
  auto datapath = Datapath::open(scene.options);
  static_cast<void>(datapath.attach());
  const maps::Pins pins(scene.lab.pins());
  const auto all = links(scene.lab);
  const auto in_use = programs_in_use(scene.lab);
  REQUIRE(all.size() == socket_hooks + 3);
  REQUIRE(in_use.size() == all.size());

  SECTION("by removing the pin") {
    for (const auto& [name, link] : all) {
      REQUIRE(::unlink(pins.link(name).c_str()) == 0);
    }
  }
  SECTION("by detaching the link") {
    for (const auto& [name, link] : all) {
      REQUIRE(bpf_link_detach(maps::Fd(bpf_obj_get(pins.link(name).c_str())).get()) == 0);
    }
    REQUIRE(programs_in_use(scene.lab).empty());
  }
  // The kernel releases the link of a removed pin asynchronously, and until then refuses the same program at
  // that hook.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  auto report = datapath.attach();
  auto reattached = report.count(HookState::attached);
  while (!report.failure().empty() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    report = datapath.attach();
    reattached += report.count(HookState::attached);
  }
  CHECK(reattached == all.size());
  CHECK(datapath.attach().count(HookState::kept) == all.size());
  CHECK(programs_in_use(scene.lab) == in_use);
  for (const auto& [name, link] : links(scene.lab)) {
    INFO(name);
    CHECK(link.id != all.at(name).id);
    CHECK(link.program == all.at(name).program);
  }
}

TEST_CASE("REL-38 a pinned map that cannot be opened is not taken for none", "[features]") {
  DeviceLab scene;
  static_cast<void>(start(scene.options));
  const maps::Pins pins(scene.lab.pins());
  const auto pin = pins.map("lb_frontends");
  const maps::Fd map(bpf_obj_get(pin.c_str()));
  REQUIRE(::unlink(pin.c_str()) == 0);
  REQUIRE(::mkdir(pin.c_str(), 0700) == 0);
  CHECK_THAT(refusal(scene.options), ContainsSubstring("cannot open the map pinned at " + pin.string()));
  REQUIRE(::rmdir(pin.c_str()) == 0);
  REQUIRE(bpf_obj_pin(map.get(), pin.c_str()) == 0);
  CHECK(start(scene.options).failure().empty());
}

TEST_CASE("a device that vanished and came back is served again", "[features]") {
  DeviceLab scene;
  scene.options.xdp = agent::XdpMode::native;
  auto datapath = Datapath::open(scene.options);
  static_cast<void>(datapath.attach());
  shell("ip link del eth0");
  CHECK_THAT(datapath.attach().failure(), ContainsSubstring("eth0 ingress: there is no such device now"));
  CHECK(links(scene.lab).empty());
  DeviceLab::make_device();
  CHECK(datapath.attach().count(HookState::attached) == 3);
}

TEST_CASE("a device that is no longer wanted is detached", "[features]") {
  DeviceLab scene;
  scene.options.xdp = agent::XdpMode::native;
  scene.options.devices = {"eth0", "peer0"};
  static_cast<void>(start(scene.options));
  CHECK(links(scene.lab).size() == 6);
  scene.options.devices = {"eth0"};
  CHECK(start(scene.options).count(HookState::kept) == 3);
  CHECK(links(scene.lab).size() == 3);
  CHECK(tcx_programs("peer0", BPF_TCX_INGRESS).empty());
}

TEST_CASE("the maps name the devices that are served and those that XDP may send to", "[features]") {
  DeviceLab scene;
  scene.options.devices = {"eth0", "peer0"};
  const maps::Pins pins(scene.lab.pins());
  const auto listed = [&](const char* map, const char* device) {
    const maps::Fd fd(bpf_obj_get(pins.map(map).c_str()));
    const auto index = if_nametoindex(device);
    std::array<std::byte, 64> value{};
    return bpf_map_lookup_elem(fd.get(), &index, value.data()) == 0;
  };
  static_cast<void>(start(scene.options));
  CHECK(listed("lb_devices", "eth0"));
  CHECK(listed("lb_devices", "peer0"));
  CHECK_FALSE(listed("lb_devmap", "eth0"));
  scene.options.devices = {"eth0"};
  scene.options.xdp = agent::XdpMode::native;
  static_cast<void>(start(scene.options));
  CHECK(listed("lb_devmap", "eth0"));
  CHECK(listed("lb_devices", "eth0"));
  CHECK_FALSE(listed("lb_devices", "peer0"));
}

TEST_CASE("our program runs first at ingress and last at egress", "[features]") {
  DeviceLab scene;
  const auto program = foreign_program();
  const auto in = attach_foreign(program.get(), "eth0", BPF_TCX_INGRESS);
  const auto out = attach_foreign(program.get(), "eth0", BPF_TCX_EGRESS);
  REQUIRE((in && out));
  CHECK(start(scene.options).packets_text() == "eth0 tcx");
  CHECK(tcx_programs("eth0", BPF_TCX_INGRESS) == std::vector<std::string>{"lb_tc_in", "foreign"});
  CHECK(tcx_programs("eth0", BPF_TCX_EGRESS) == std::vector<std::string>{"foreign", "lb_tc_out"});
}

TEST_CASE("SEM-80 REL-20 where a driver refuses native XDP", "[features]") {
  DeviceLab scene;
  shell(
      "ip link set eth0 mtu 9000 && ip link set peer0 mtu 9000 && ip link add br0 type bridge && ip link set "
      "br0 up");
  scene.options.devices = {"br0"};

  SECTION("tc serves alone by default, and status says so") {
    scene.options.xdp = agent::XdpMode::automatic;
    const auto report = start(scene.options);
    CHECK(report.failure().empty());
    CHECK(report.count(HookState::declined) == 1);
    CHECK_THAT(report.hooks.back().problem, ContainsSubstring("tc serves alone"));
    CHECK(report.packets_text() == "br0 tcx");
  }
  SECTION("asking for native fails with the reason") {
    scene.options.xdp = agent::XdpMode::native;
    CHECK_THROWS_WITH(start(scene.options), ContainsSubstring("br0 cannot run XDP"));
  }
  SECTION("generic serves") {
    scene.options.xdp = agent::XdpMode::generic;
    CHECK(start(scene.options).packets_text() == "br0 tcx+generic");
  }
}

TEST_CASE("XDP sends natively only where the device takes its frames, in the stack everywhere",
          "[features]") {
  DeviceLab scene;
  shell("ethtool -K peer0 gro off");
  scene.options.xdp = agent::XdpMode::native;
  CHECK(start(scene.options).packets_text() == "eth0 tcx+native (tc sends)");
  scene.options.xdp = agent::XdpMode::generic;
  CHECK(start(scene.options).packets_text() == "eth0 tcx+generic");
}

TEST_CASE("XDP changes its mode on request", "[features]") {
  DeviceLab scene;
  for (const auto mode : {agent::XdpMode::native, agent::XdpMode::generic, agent::XdpMode::native}) {
    scene.options.xdp = mode;
    const auto* means = mode == agent::XdpMode::generic ? "generic" : "native";
    CHECK(start(scene.options).packets_text() == fmt::format("eth0 tcx+{}", means));
  }
  scene.options.xdp = agent::XdpMode::off;
  CHECK(start(scene.options).packets_text() == "eth0 tcx");
}

TEST_CASE("by default XDP is not used where frames may carry unfinished checksums, and status says so",
          "[features]") {
  DeviceLab scene;
  shell("ip tuntap add dev tap0 mode tap && ip link set tap0 up");
  scene.options.devices = {"eth0", "tap0"};
  scene.options.xdp = agent::XdpMode::native;
  CHECK(start(scene.options).packets_text() == "eth0 tcx+native, tap0 tcx+native");
  scene.options.xdp = agent::XdpMode::automatic;
  auto datapath = Datapath::open(scene.options);
  const auto report = datapath.attach();
  CHECK(report.failure().empty());
  CHECK(report.packets_text() == "eth0 tcx, tap0 tcx");
  CHECK(datapath.declined() == report.declined());
  CHECK(report.declined().size() == 2);
  const std::string missing = datapath.page().read().missing;
  CHECK_THAT(missing, ContainsSubstring("eth0 xdp: frames may carry unfinished checksums (veth)"));
  CHECK_THAT(missing, ContainsSubstring("tap0 xdp: frames may carry unfinished checksums (tun)"));
}

// The frame addresses have 256 entries: see maps/abi/frame_address.h.
TEST_CASE("of two devices whose interface indices share an entry XDP serves the first", "[features]") {
  DeviceLab scene;
  const auto index = if_nametoindex("eth0");
  shell(fmt::format(
      "ip link add eth1 index {} type veth peer name peer1 && ip link set eth1 up && ip link set peer1 up && "
      "ethtool -K peer1 gro on",
      index + LB_FRAME_ADDRESSES));
  scene.options.devices = {"eth0", "eth1"};
  scene.options.xdp = agent::XdpMode::native;
  auto datapath = Datapath::open(scene.options);
  const auto report = datapath.attach();
  CHECK(report.failure().empty());
  CHECK(report.packets_text() == "eth0 tcx+native, eth1 tcx");
  CHECK_THAT(std::string(datapath.page().read().missing), ContainsSubstring("eth1 xdp: its interface index"));
  shell("ip link del eth0");
  scene.options.devices = {"eth1"};
  CHECK(start(scene.options).packets_text() == "eth1 tcx+native");
}

TEST_CASE("a device without Ethernet headers is refused by name, and the others are served", "[features]") {
  DeviceLab scene;
  shell("ip tuntap add dev tun0 mode tun && ip link set tun0 up");
  scene.options.devices = {"tun0", "lo", "eth0"};
  const maps::Pins pins(scene.lab.pins());
  auto datapath = Datapath::open(scene.options);
  const auto report = datapath.attach();
  CHECK(report.failure().empty());
  CHECK(report.packets_text() == "eth0 tcx");
  for (const auto* device : {"tun0", "lo"}) {
    INFO(device);
    CHECK(tcx_programs(device, BPF_TCX_INGRESS).empty());
    CHECK(tcx_programs(device, BPF_TCX_EGRESS).empty());
    const maps::Fd devices(bpf_obj_get(pins.map("lb_devices").c_str()));
    const auto index = if_nametoindex(device);
    lb_device value{};
    CHECK(bpf_map_lookup_elem(devices.get(), &index, &value) != 0);
  }
  const std::string missing = datapath.page().read().missing;
  CHECK_THAT(missing, ContainsSubstring("tun0: no Ethernet headers (tun), not served"));
  CHECK_THAT(missing, ContainsSubstring("lo: packet hooks do not serve loopback"));
  CHECK(datapath.restore(agent::FilterChanges::none).hooks.empty());
}

TEST_CASE("the node page says what serves") {
  DeviceLab scene;
  scene.options.sockets = agent::SocketScope::all;
  scene.options.without = {"tcx"};
  auto datapath = Datapath::open(scene.options);
  static_cast<void>(datapath.attach());
  const auto page = datapath.page().read();
  CHECK(std::string(page.name) == "node-1");
  CHECK(std::string(page.sockets) == "cgroup, 8 of 8 hooks");
  CHECK(std::string(page.packets) == "eth0 clsact");
  CHECK_THAT(std::string(page.missing), ContainsSubstring("tcx off: clsact"));
}

TEST_CASE("SEM-80 the node page names every feature that is switched off") {
  DeviceLab scene;
  scene.options.sockets = agent::SocketScope::all;
  scene.options.xdp = agent::XdpMode::native;
  scene.options.without = agent::optional_features();
  auto datapath = Datapath::open(scene.options);
  const auto report = datapath.attach();
  CHECK(report.packets_text() == "eth0 clsact");
  const auto page = datapath.page().read();
  for (const auto& feature : agent::optional_features()) {
    INFO(feature);
    CHECK((feature == "xdp" || std::string(page.missing).find(feature + " off") != std::string::npos));
  }
  CHECK(datapath.udp_cleanup().destroys < 0);
  CHECK(datapath.udp_cleanup().finds < 0);
}

TEST_CASE("a start that cannot succeed says what to do and changes nothing") {
  Lab lab;
  auto options = lab.options();
  std::string expected;
  SECTION("a device that does not exist") {
    options.devices = {"eth7"};
    expected = "no network device eth7";
  }
  SECTION("a cgroup of version 1 or none at all") {
    options.cgroup = "/tmp";
    expected = "/tmp is not in a cgroup v2 file system";
  }
  SECTION("a cgroup that does not exist") {
    options.cgroup = lab.cgroup() + "/none";
    expected = "cannot open the cgroup";
  }
  SECTION("pins outside a bpf file system") {
    options.pins = fmt::format("/tmp/lbtest-pins-{}", ::getpid());
    expected = "is not on a bpf file system";
  }
  const auto refused = refusal(options);
  const bool pinned = std::filesystem::exists(options.pins);
  std::filesystem::remove_all(options.pins);
  CHECK_THAT(refused, ContainsSubstring(expected));
  CHECK_FALSE(pinned);
}

TEST_CASE("detaching leaves nothing behind") {
  DeviceLab scene;
  scene.options.sockets = agent::SocketScope::all;
  scene.options.xdp = agent::XdpMode::native;
  static_cast<void>(start(scene.options));
  CHECK_FALSE(programs_in_use(scene.lab).empty());
  agent::detach_all(maps::Pins(scene.lab.pins()));
  CHECK_FALSE(std::filesystem::exists(scene.lab.pins()));
  CHECK(programs_in_use(scene.lab).empty());
  agent::detach_all(maps::Pins(scene.lab.pins()));
}

}  // namespace lb::test
