// SPDX-License-Identifier: Apache-2.0
// What a kernel's description of itself says of tasks that preempt one another within our programs.
#include "agent/programs/preemption.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace lb::agent {
namespace {

const std::string no_realtime = "#1 SMP PREEMPT_DYNAMIC Debian 6.18.5-1 (2026-11-01)";
const std::string realtime = "#1 SMP PREEMPT_RT Debian 6.18.5-1 (2026-11-01)";
const std::string without_lock =
    "CONFIG_PREEMPT_RT=y\n# CONFIG_PREEMPT_RT_NEEDS_BH_LOCK is not set\nCONFIG_SMP=y\n";
const std::string with_lock = "CONFIG_PREEMPT_RT=y\nCONFIG_PREEMPT_RT_NEEDS_BH_LOCK=y\nCONFIG_SMP=y\n";
const std::string older = "CONFIG_PREEMPT_RT=y\nCONFIG_SMP=y\n";

struct Row {
  KernelBuild kernel;
  Preemption preemption;
};

const std::vector<Row> rows = {
    {{"6.18.5+deb13-amd64", no_realtime, ""}, Preemption::none},
    {{"6.18.5+deb13-amd64", no_realtime, without_lock}, Preemption::none},
    {{"6.1.0-56-rt-amd64", realtime, ""}, Preemption::serialized},
    {{"6.12.117+deb12-rt-amd64", realtime, older}, Preemption::serialized},
    {{"6.17.13-rt", realtime, ""}, Preemption::serialized},
    {{"6.18.5-rt", realtime, ""}, Preemption::unknown},
    {{"7.3.4+deb13-rt-amd64", realtime, ""}, Preemption::unknown},
    {{"7.3.4+deb13-rt-amd64", realtime, without_lock}, Preemption::interleaved},
    {{"7.3.4+deb13-rt-amd64", realtime, with_lock}, Preemption::serialized},
    // A vendor's kernel with the change of a later one.
    {{"6.12.0-rt", realtime, without_lock}, Preemption::interleaved},
    {{"next", realtime, ""}, Preemption::unknown},
};

TEST_CASE("REL-122 whether tasks interleave is what the build's description and configuration say") {
  for (const auto& row : rows) {
    INFO(row.kernel.release << ": " << row.kernel.version << ": " << row.kernel.config);
    CHECK(preemption_name(preemption_of(row.kernel)) == preemption_name(row.preemption));
  }
}

TEST_CASE("REL-122 each kind says what it means; one may drop packets only if tasks may interleave") {
  const auto drops = [](Preemption preemption) {
    return preemption_text(preemption).find("scratch_busy") != std::string_view::npos;
  };
  CHECK_FALSE(drops(Preemption::none));
  CHECK_FALSE(drops(Preemption::serialized));
  CHECK(drops(Preemption::interleaved));
  CHECK(drops(Preemption::unknown));
  const auto running = running_kernel();
  CHECK(has_realtime(running.version) == (preemption_of(running) != Preemption::none));
  CHECK_FALSE(running.release.empty());
}

}  // namespace
}  // namespace lb::agent
