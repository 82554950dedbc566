// SPDX-License-Identifier: Apache-2.0
// Why the kernel refuses bpf(): derived from /proc's facts about a process, and from the error code.
#include "agent/base/privileges.hpp"

#include <linux/capability.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "agent/attach/device_facts.hpp"
#include "agent/base/cgroup.hpp"
#include "agent/base/error.hpp"

namespace {

using namespace lb::agent;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

constexpr std::uint64_t bit(int capability) { return std::uint64_t{1} << capability; }

Privileges all() {
  Privileges privileges;
  privileges.capabilities = bit(CAP_BPF) | bit(CAP_NET_ADMIN) | bit(CAP_PERFMON);
  return privileges;
}

TEST_CASE("the capabilities that an agent needs, which CAP_SYS_ADMIN has some of") {
  CHECK(lacking_capabilities(all()).empty());
  CHECK(lacking_capabilities({}) == "CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON");
  Privileges admin;
  admin.capabilities = bit(CAP_SYS_ADMIN);
  CHECK(lacking_capabilities(admin) == "CAP_NET_ADMIN");
  CHECK_FALSE(has_capability(all(), CAP_SYS_ADMIN));
}

TEST_CASE("why bpf() is refused, and what to do") {
  auto filtered = all();
  filtered.filtered = true;
  auto inner = all();
  inner.user = Namespace::other;
  auto guarded = all();
  guarded.modules = "lockdown,selinux,bpf";
  struct Row {
    Privileges privileges;
    int error;
    const char* found;
    const char* advice;
  };
  const Row rows[] = {
      {{}, EPERM, "lacks CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON", "run it as root"},
      {inner, EPERM, "user namespace", "hostUsers"},
      {filtered, EPERM, "a seccomp filter refuses bpf()", "seccompProfile"},
      {filtered, ENOSYS, "no bpf()", "a seccomp filter may hide it"},
      {all(), ENOSYS, "no bpf()", "CONFIG_BPF_SYSCALL"},
      {guarded, EPERM, "lockdown,selinux,bpf", "audit log names the rule"},
      {all(), EINVAL, "Invalid argument", "Linux 6.1"},
  };
  for (const auto& row : rows) {
    const auto refusal = bpf_refusal(row.privileges, row.error);
    CAPTURE(row.found);
    CHECK_THAT(refusal.found, ContainsSubstring(row.found));
    CHECK_THAT(refusal.advice, ContainsSubstring(row.advice));
  }
}

TEST_CASE("privileges are read from /proc and securityfs") {
  auto root = (fs::temp_directory_path() / "sluice-privileges-XXXXXX").string();
  REQUIRE(::mkdtemp(root.data()) != nullptr);
  const auto put = [&](const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  };
  CHECK(own_privileges(root) == Privileges{});
  put("/proc/self/status", "Name:\tsluice\nCapPrm:\tffff\nCapEff:\t000000c000001000\nSeccomp:\t2\n");
  put("/proc/self/uid_map", "         0     100000      65536\n");
  put("/proc/sys/kernel/unprivileged_bpf_disabled", "2\n");
  put("/sys/kernel/security/lsm", "lockdown,yama\n");
  const auto own = own_privileges(root);
  CHECK(own.capabilities == (bit(CAP_BPF) | bit(CAP_PERFMON) | bit(CAP_NET_ADMIN)));
  CHECK(own.filtered);
  CHECK(own.user == Namespace::other);
  CHECK(own.unprivileged_off == 2);
  CHECK(own.modules == "lockdown,yama");
  put("/proc/self/uid_map", "         0          0 4294967295\n");
  CHECK(own_privileges(root).user == Namespace::initial);
  fs::remove_all(root);
}

TEST_CASE("which cgroup file systems are mounted") {
  const auto unified = cgroup_mounts("proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
  CHECK(unified.version2 == "/sys/fs/cgroup");
  CHECK_FALSE(unified.version1);
  const auto hybrid = cgroup_mounts(
      "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\ncg /sys/fs/cgroup/unified cgroup2 rw 0 0\n");
  CHECK(hybrid.version2 == "/sys/fs/cgroup/unified");
  CHECK(hybrid.version1);
  const auto old = cgroup_mounts("cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n");
  CHECK(old.version2.empty());
  CHECK(old.version1);
}

TEST_CASE("what a device's XDP can do, and what the options make of it") {
  constexpr std::uint64_t native = 1;  // NETDEV_XDP_ACT_BASIC, _REDIRECT, _NDO_XMIT
  constexpr std::uint64_t redirect = 2;
  constexpr std::uint64_t takes = 4;
  CHECK(facts_text({"veth", native | redirect | takes, ""}) ==
        "driver veth; XDP: native, redirect, transmit");
  CHECK(facts_text({"bridge", 0, ""}) == "driver bridge; no XDP");
  CHECK_THAT(facts_text({"", std::nullopt, ""}), ContainsSubstring("does not say"));
  AgentOptions options;
  options.devices = {"eth0"};
  options.xdp = XdpMode::native;
  CHECK_THROWS_AS(require_xdp(options, "eth0", {"bridge", 0, ""}), StartError);
  CHECK_THROWS_AS(require_xdp(options, "eth0", {"veth", native | takes, "xdp_pass"}), StartError);
  CHECK_NOTHROW(require_xdp(options, "eth0", {"virtio_net", std::nullopt, ""}));
  CHECK_THAT(xdp_lack(options, {"veth", native | redirect, ""}).advice, ContainsSubstring("gro on"));
  CHECK(xdp_lack(options, {"veth", native | redirect | takes, ""}).found.empty());
  options.xdp = XdpMode::automatic;
  CHECK_NOTHROW(require_xdp(options, "eth0", {"bridge", 0, ""}));
  CHECK_THAT(xdp_lack(options, {"veth", native | takes, "xdp_pass"}).found, ContainsSubstring("xdp_pass"));
  options.xdp = XdpMode::off;
  CHECK(xdp_lack(options, {"veth", native, "xdp_pass"}).found.empty());
}

}  // namespace
