// SPDX-License-Identifier: Apache-2.0
// Runs one agent after another: each with other table sizes than the previous one, or with the options of a
// changed file.
#include "agent/run/run.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/base/error.hpp"
#include "agent/base/log.hpp"
#include "agent/base/oom_score.hpp"
#include "agent/datapath/lock.hpp"
#include "agent/netlink/conntrack.hpp"
#include "agent/run/absence.hpp"
#include "agent/run/end_signals.hpp"
#include "agent/run/serve.hpp"
#include "agent/run/unused_proxies.hpp"
#include "agent/run/writable_paths.hpp"
#include "maps/mapset.hpp"

namespace lb::agent {
namespace {

std::string sizes_text(const Sizes& sizes) {
  return fmt::format("{} frontends, {} source ranges, {} service ports, {} backends, {} slots",
                     sizes.frontends, sizes.ranges, sizes.services, sizes.backends, sizes.slots);
}

/// Logs remarks, except those that were logged for the previous options.
void say_remarks(const std::vector<ConfigRemark>& remarks, const std::vector<ConfigRemark>& said) {
  for (const auto& remark : remarks) {
    if (std::ranges::find(said, remark) != said.end()) {
      continue;
    }
    if (remark.level == LogLevel::info) {
      spdlog::info("{}", remark.text);
    } else {
      spdlog::warn("{}", remark.text);
    }
  }
}

void begin_log(const AgentOptions& options, const std::vector<ConfigRemark>& said) {
  start_log(options.log_level, options.log_format);
  say_remarks(options.remarks, said);
  adjust_oom_score(options.oom_score_adj);
}

const char* reason(SizeChange change) {
  return change == SizeChange::smaller ? "slots were mostly free"
                                       : "tables are too small for what is planned";
}

/// Derives the next agent's options from those of the agent that ended.
AgentOptions next_options(const AgentOptions& options, Next next) {
  if (next.options) {
    begin_log(*next.options, options.remarks);
    return std::move(*next.options);
  }
  auto resized = options;
  resized.sizes = next.sizes;
  spdlog::info("{}; recreating the maps: {}", reason(next.change), sizes_text(resized.sizes));
  return resized;
}

/// Returns to the last working options. A failed enlargement is not retried, nor is a table shrunk again
/// after a failure, nor is a configuration retried before its file changes.
AgentOptions last_good_options(AgentOptions good, const AgentOptions& failed, SizeChange change,
                               const StartError& error) {
  if (good.config_file.text != failed.config_file.text) {
    start_log(good.log_level, good.log_format);
    good.config_file.refused = failed.config_file.text;
    good.config_file.refusal =
        fmt::format("{}: no agent starts with it: {}", failed.config_file.path, error.what());
  } else if (change == SizeChange::smaller) {
    spdlog::error("the table of slots stays as large as it is: {}", error.what());
    good.shrink_after = 0;
  } else {
    spdlog::error("the tables stay as small as they are: {}", error.what());
    good.growth = Growth::off;
  }
  return good;
}

int prepare(const AgentOptions& options) {
  const auto problem = set_conntrack(options.conntrack, online_cpus());
  if (!problem.empty()) {
    throw StartError(problem);
  }
  spdlog::info("the kernel's conntrack is set (--init-only)");
  return 0;
}

}  // namespace

int run_agent(AgentOptions options) {
  begin_log(options, {});
  if (options.init_only) {
    return prepare(options);
  }
  for (const auto& warning : writable_by_all(options)) {
    spdlog::warn("{}", warning);
  }
  if (const auto warning = unused_proxies(options, own_environment); !warning.empty()) {
    spdlog::warn("{}", warning);
  }
  EndSignals ends;
  const maps::Pins pins(options.pins);
  const auto absence = absence_text(find_agent(pins).last_heartbeat, std::chrono::system_clock::now());
  auto lock = PinLock::take(pins);
  std::optional<AgentOptions> good;  ///< options of the previous agent
  std::vector<ProgramRefusal> refusals;
  Start start{.lock = lock,
              .readiness = Readiness::never,
              .min_slots = options.sizes.slots,
              .absence = absence,
              .refusals = refusals};
  auto change = SizeChange::larger;
  for (;;) {
    try {
      auto next = serve(options, start, ends);
      if (!next) {
        return 0;
      }
      start.readiness = next->readiness;
      start.absence.reset();
      change = next->change;
      good = options;
      options = next_options(options, std::move(*next));
    } catch (const StartError& error) {
      if (!good) {
        throw;
      }
      options = last_good_options(*std::exchange(good, std::nullopt), options, change, error);
    }
  }
}

}  // namespace lb::agent
