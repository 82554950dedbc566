// SPDX-License-Identifier: Apache-2.0
// clsact filters, where the kernel or --without leaves TCX out: adopting and removing them beside those of
// other Sluices and of other owners.
#include "agent/programs/clsact.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <net/if.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "agent/attach/detach.hpp"
#include "agent/netlink/filters.hpp"
#include "tests/net/lib/hooks.hpp"
#include "tests/net/lib/lab.hpp"

namespace lb::test {
namespace {

using agent::HookState;
using Catch::Matchers::ContainsSubstring;

/// Adds a clsact filter with our priority to one side of eth0.
void put_filter(int program, bpf_tc_attach_point side, std::uint32_t handle) {
  bpf_tc_hook hook{};
  hook.sz = sizeof(hook);
  hook.ifindex = static_cast<int>(if_nametoindex("eth0"));
  hook.attach_point = side;
  bpf_tc_opts place{};
  place.sz = sizeof(place);
  place.handle = handle;
  place.priority = 1;
  place.prog_fd = program;
  REQUIRE(bpf_tc_attach(&hook, &place) == 0);
}

}  // namespace

TEST_CASE("without TCX the programs are clsact filters, kept by a restart and let go for TCX") {
  DeviceLab scene;
  scene.options.without = {"tcx"};
  const auto first = start(scene.options);
  CHECK(first.packets_text() == "eth0 clsact");
  CHECK(first.count(HookState::attached) == 2);
  CHECK(start(scene.options).count(HookState::kept) == 2);
  CHECK(tcx_programs("eth0", BPF_TCX_INGRESS).empty());
  CHECK_THAT(shell_output("tc filter show dev eth0 ingress"), ContainsSubstring("lb_tc_in"));

  scene.options.source_ports = {{2000, 3000}};
  CHECK(start(scene.options).count(HookState::updated) == 2);
  scene.options.without.clear();
  CHECK(start(scene.options).packets_text() == "eth0 " + tc_type(scene.options));
  if (tc_type(scene.options) == "tcx") {
    CHECK_THAT(shell_output("tc qdisc show dev eth0"), !ContainsSubstring("clsact"));
  } else {
    CHECK_THAT(shell_output("tc filter show dev eth0 ingress"), ContainsSubstring("lb_tc_in"));
  }
}

TEST_CASE("REL-68 a foreign clsact filter at our handle is left alone, and does not prevent serving") {
  DeviceLab scene;
  scene.options.without = {"tcx"};
  const auto program = foreign_program();
  shell("tc qdisc add dev eth0 clsact");
  put_filter(program.get(), BPF_TC_INGRESS, agent::FilterOwner(scene.lab.pins()).handles().first);
  CHECK(start(scene.options).failure().empty());
  CHECK(start(scene.options).count(HookState::kept) == 2);
  CHECK_THAT(shell_output("tc filter show dev eth0 ingress"), ContainsSubstring("lb_tc_in"));
  agent::detach_all(maps::Pins(scene.lab.pins()));
  CHECK_THAT(shell_output("tc filter show dev eth0 ingress"), ContainsSubstring("foreign"));
  CHECK_THAT(shell_output("tc filter show dev eth0 ingress"), !ContainsSubstring("lb_tc_in"));
}

namespace {

/// The agents of two Sluices, by their options.
struct TwoSluices : DeviceLab {
  TwoSluices() {
    options.without = {"tcx"};
    other = options;
    options.pins = lab.pins() + "/one";
    other.pins = lab.pins() + "/other";
    REQUIRE(std::filesystem::create_directory(lab.pins()));
  }
  ~TwoSluices() {
    agent::detach_all(maps::Pins(options.pins));
    agent::detach_all(maps::Pins(other.pins));
  }
  agent::AgentOptions other;
};

std::vector<agent::TcFilter> filters_of_eth0(agent::TcSide side = agent::TcSide::ingress) {
  return agent::filters_of(static_cast<int>(if_nametoindex("eth0")), side);
}

/// A directory that is also seen at another path, until this object is destroyed.
class BindMount {
 public:
  explicit BindMount(const std::string& directory) {
    REQUIRE(::mkdtemp(path_.data()) != nullptr);
    REQUIRE(::mount(directory.c_str(), path_.c_str(), nullptr, MS_BIND, nullptr) == 0);
  }
  BindMount(const BindMount&) = delete;
  BindMount& operator=(const BindMount&) = delete;
  ~BindMount() {
    ::umount2(path_.c_str(), MNT_DETACH);
    ::rmdir(path_.c_str());
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_ = "/run/lbtest-XXXXXX";
};

/// As agents called their filters before each Sluice had handles of its own.
void move_to_older_handle(const agent::TcFilter& filter) {
  put_filter(maps::Fd(bpf_prog_get_fd_by_id(filter.program)).get(), BPF_TC_INGRESS,
             agent::older_filter_handles.first);
  shell(fmt::format("tc filter del dev eth0 ingress prio 1 handle {:#x} bpf", filter.handle));
}

}  // namespace

TEST_CASE("SEM-75 the clsact filters of two Sluices stay and go each with its own") {
  TwoSluices scene;
  static_cast<void>(start(scene.options));
  static_cast<void>(start(scene.other));
  CHECK(start(scene.options).count(HookState::kept) == 2);
  CHECK(start(scene.other).count(HookState::kept) == 2);
  CHECK(filters_of_eth0().size() == 2);
  CHECK(filters_of_eth0(agent::TcSide::egress).size() == 2);
  agent::detach_all(maps::Pins(scene.options.pins));
  CHECK(filters_of_eth0().size() == 1);
  CHECK(start(scene.other).count(HookState::kept) == 2);
  agent::detach_all(maps::Pins(scene.other.pins));
  CHECK_THAT(shell_output("tc qdisc show dev eth0"), !ContainsSubstring("clsact"));
}

TEST_CASE("SEM-75 a clsact filter of an older agent is taken over by the Sluice whose maps it has") {
  TwoSluices scene;
  static_cast<void>(start(scene.options));
  move_to_older_handle(filters_of_eth0().front());
  REQUIRE(filters_of_eth0().front().handle == agent::older_filter_handles.first);
  CHECK(start(scene.other).count(HookState::attached) == 2);
  CHECK(filters_of_eth0().size() == 2);
  CHECK(start(scene.options).count(HookState::updated) == 1);
  CHECK(filters_of_eth0().size() == 2);
  CHECK(std::ranges::none_of(filters_of_eth0(), [](const auto& filter) {
    return agent::older_filter_handles.contains(filter.handle);
  }));
}

TEST_CASE("SEM-75 a clsact filter of an agent that saw the pins at another path is taken over") {
  DeviceLab scene;
  scene.options.without = {"tcx"};
  REQUIRE(std::filesystem::create_directory(scene.lab.pins()));
  auto elsewhere = scene.options;
  {
    const BindMount mount(scene.lab.pins());
    elsewhere.pins = mount.path();
    static_cast<void>(start(elsewhere));
  }
  CHECK(start(scene.options).count(HookState::updated) == 2);
  CHECK(filters_of_eth0().size() == 1);
  CHECK(filters_of_eth0(agent::TcSide::egress).size() == 1);
  agent::detach_all(maps::Pins(scene.lab.pins()));
  CHECK_THAT(shell_output("tc qdisc show dev eth0"), !ContainsSubstring("clsact"));
}

TEST_CASE("REL-68 a qdisc that we made goes when nothing hangs from it, and no other one") {
  DeviceLab scene;
  scene.options.without = {"tcx"};
  const auto clean = [&] { agent::detach_all(maps::Pins(scene.lab.pins())); };
  SECTION("ours") {
    static_cast<void>(start(scene.options));
    static_cast<void>(start(scene.options));
    CHECK_THAT(shell_output("tc qdisc show dev eth0"), ContainsSubstring("clsact"));
    clean();
    CHECK_THAT(shell_output("tc qdisc show dev eth0"), !ContainsSubstring("clsact"));
  }
  SECTION("ours, for TCX") {
    static_cast<void>(start(scene.options));
    scene.options.without.clear();
    static_cast<void>(start(scene.options));
    CHECK_THAT(shell_output("tc qdisc show dev eth0"), !ContainsSubstring("clsact"));
    clean();
  }
  SECTION("one that was there") {
    shell("tc qdisc add dev eth0 clsact");
    static_cast<void>(start(scene.options));
    clean();
    CHECK_THAT(shell_output("tc qdisc show dev eth0"), ContainsSubstring("clsact"));
  }
  SECTION("ours, in which somebody has put a filter") {
    static_cast<void>(start(scene.options));
    const auto program = foreign_program();
    put_filter(program.get(), BPF_TC_EGRESS, 0x10);
    clean();
    CHECK_THAT(shell_output("tc filter show dev eth0 egress"), ContainsSubstring("foreign"));
  }
  CHECK_FALSE(std::filesystem::exists(scene.lab.pins()));
}

}  // namespace lb::test
