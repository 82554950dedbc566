#include "agent/commands/alive.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "agent/datapath/lock.hpp"

namespace lb::agent {
namespace {

/// It looks each 0.7 s, and each 5 s while it starts; one that is busy with a first plan of a large cluster
/// takes its time.
constexpr std::chrono::seconds longest_silence{60};

/// Empty: it is alive.
std::string why_not_alive(const AgentPresence& agent, std::chrono::system_clock::time_point now) {
  if (agent.state == AgentState::absent) return "no agent runs on these pins";
  if (!agent.last_beat) return {};  // it has just begun
  const auto age = std::chrono::duration_cast<std::chrono::seconds>(now - *agent.last_beat);
  return age <= longest_silence ? std::string()
                                : fmt::format("the agent's last heartbeat was {} s ago", age.count());
}

}  // namespace

int run_alive(const ShowOptions& options) {
  const auto why = why_not_alive(find_agent(maps::Pins(options.pins)), std::chrono::system_clock::now());
  if (why.empty()) return 0;
  fmt::print(stderr, "sluice: {}\n", why);
  return 1;
}

}  // namespace lb::agent
