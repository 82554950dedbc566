// SPDX-License-Identifier: Apache-2.0
#include "agent/commands/alive.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "agent/base/error.hpp"
#include "agent/base/replace_file.hpp"
#include "agent/commands/sight.hpp"

namespace lb::agent {
namespace {

using Now = std::chrono::system_clock::time_point;

/// An agent writes its heartbeat every 0.7 s, and every 5 s while it starts; an agent with the first plan of
/// a large cluster takes longer.
constexpr std::chrono::seconds max_silence{60};

/// Empty if the agent is alive.
std::string why_not_alive(const AgentPresence& agent, Now now) {
  if (agent.state == AgentState::absent) {
    return "no agent runs on these pins";
  }
  if (!agent.last_heartbeat) {
    return {};  // it has just started
  }
  const auto age = std::chrono::duration_cast<std::chrono::seconds>(now - *agent.last_heartbeat);
  return age <= max_silence ? std::string()
                            : fmt::format("the agent's last heartbeat was {} s ago", age.count());
}

struct Family {
  const char* name;
  const char* help;
};
constexpr Family absent = {
    "sluice_agent_absent",
    "1 while pinned hooks serve without an agent: none runs, or its last heartbeat is more than 60 s old"};
constexpr Family heartbeat = {
    "sluice_agent_last_heartbeat_timestamp_seconds",
    "Time of the last heartbeat of an agent with these pins; no value if nothing is pinned"};

std::string gauge(const Family& family, std::string_view pins, std::int64_t value) {
  return fmt::format("# HELP {0} {1}.\n# TYPE {0} gauge\n{0}{{pins=\"{2}\"}} {3}\n", family.name, family.help,
                     pins, value);
}

void write_answer(const AliveOptions& options) {
  const maps::Pins pins(options.pins);
  require_sight(pins);
  const auto text = alive_metrics(options.pins, find_agent(pins), std::chrono::system_clock::now());
  if (const auto problem = replace_file(options.textfile, text); !problem.empty()) {
    throw StartError(problem);
  }
}

/// Runs until SIGTERM or SIGINT, then removes the file, which would otherwise show outdated data.
void write_answers(const AliveOptions& options) {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  const timespec pause{static_cast<std::time_t>(options.every), 0};
  do {
    write_answer(options);
  } while (::sigtimedwait(&ends, nullptr, &pause) < 0);
  std::error_code error;
  std::filesystem::remove(options.textfile, error);
}

}  // namespace

std::string alive_metrics(std::string_view pins, const AgentPresence& agent, Now now) {
  if (!agent.last_heartbeat) {
    return gauge(absent, pins, 0);
  }
  const auto since = std::chrono::system_clock::to_time_t(*agent.last_heartbeat);
  return gauge(absent, pins, why_not_alive(agent, now).empty() ? 0 : 1) + gauge(heartbeat, pins, since);
}

int run_alive(const AliveOptions& options) {
  if (options.every != 0) {
    write_answers(options);
    return 0;
  }
  if (!options.textfile.empty()) {
    write_answer(options);
    return 0;
  }
  const maps::Pins pins(options.pins);
  require_sight(pins);
  const auto why = why_not_alive(find_agent(pins), std::chrono::system_clock::now());
  if (why.empty()) {
    return 0;
  }
  fmt::print(stderr, "sluice: {}\n", why);
  return 1;
}

}  // namespace lb::agent
