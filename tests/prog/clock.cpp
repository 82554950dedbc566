// SPDX-License-Identifier: Apache-2.0
// The agent's computation of the programs' clock, compared with the kernel's own tick counter.
#include "agent/base/clock.hpp"

#include <bpf/bpf.h>
#include <linux/bpf.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <thread>

#include "agent/programs/features.hpp"
#include "maps/map.hpp"

namespace {

/// The lower half of the kernel's 64-bit tick counter.
std::uint32_t kernel_ticks() {
  const std::array<bpf_insn, 2> program = {
      bpf_insn{.code = BPF_JMP | BPF_CALL, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = BPF_FUNC_jiffies64},
      bpf_insn{.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}};
  const lb::maps::Fd fd(
      bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, "lb_ticks", "GPL", program.data(), program.size(), nullptr));
  REQUIRE(fd);
  const std::array<std::uint8_t, 64> packet{};
  bpf_test_run_opts options{};
  options.sz = sizeof(options);
  options.data_in = packet.data();
  options.data_size_in = packet.size();
  options.repeat = 1;
  REQUIRE(bpf_prog_test_run_opts(fd.get(), &options) == 0);
  return options.retval;
}

std::uint32_t clock_of(std::uint64_t ticks, std::uint32_t hertz) {
  const std::uint64_t factor = (std::uint64_t{1} << 32) / hertz;
  return static_cast<std::uint32_t>(ticks * factor >> 32);
}

TEST_CASE("the agent's flow clock is the programs' to within a second") {
  using namespace std::chrono_literals;
  const auto hertz = lb::agent::measure_hertz();
  for (int round = 0; round < 3; ++round) {
    const auto low = kernel_ticks();
    const auto reckoned = lb::agent::flow_clock_now(hertz);
    // The counter starts 300 s below 2^32, so it has wrapped once its lower half is small.
    const std::uint64_t high = low < (1U << 31) ? std::uint64_t{1} << 32 : 0;
    const auto exact = clock_of(high + low, hertz);
    CAPTURE(hertz, low, exact, reckoned);
    CHECK(exact + 1 >= reckoned);
    CHECK(reckoned + 1 >= exact);
    std::this_thread::sleep_for(300ms);
  }
}

}  // namespace
