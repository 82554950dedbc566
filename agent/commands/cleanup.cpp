// SPDX-License-Identifier: Apache-2.0
// Lists, removes, and lists again: whatever is still listed was not removed.
#include "agent/commands/cleanup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/base/error.hpp"
#include "agent/commands/sight.hpp"
#include "agent/datapath/lock.hpp"
#include "agent/kube_proxy/cleanup.hpp"
#include "agent/run/leftovers.hpp"
#include "maps/mapset.hpp"

namespace lb::agent {
namespace {

using Lines = std::vector<std::string>;

Lines without(const Lines& lines, const Lines& others) {
  Lines rest;
  std::ranges::copy_if(lines, std::back_inserter(rest),
                       [&](const auto& line) { return std::ranges::find(others, line) == others.end(); });
  return rest;
}

void print(std::FILE* to, const char* what, const Lines& lines) {
  for (const auto& line : lines) {
    fmt::print(to, "{} {}\n", what, line);
  }
}

/// `list` returns the leftovers.
template <class List, class Remove>
int clean(CleanupMode mode, const char* whose, List list, Remove remove) {
  const Lines before = list();
  if (before.empty()) {
    fmt::print("nothing of {} is left on this node\n", whose);
    return 0;
  }
  if (mode == CleanupMode::dry_run) {
    print(stdout, "would remove", before);
    return 0;
  }
  const auto problem = remove();
  const Lines after = list();
  print(stdout, "removed", without(before, after));
  print(stderr, "sluice: could not remove", after);
  if (!problem.empty()) {
    fmt::print(stderr, "sluice: {}\n", problem);
  }
  return after.empty() && problem.empty() ? 0 : 1;
}

/// Holds the lock, because an agent would restore everything within a second.
int clean_sluice(const CleanupOptions& options) {
  const maps::Pins pins(options.pins);
  std::optional<PinLock> lock;
  if (options.mode == CleanupMode::remove) {
    lock = PinLock::take_existing(pins);
  }
  return clean(
      options.mode, "Sluice", [&] { return leftovers(pins.base()); },
      [&] {
        remove_leftovers(pins.base());
        return std::string();
      });
}

/// Why this node would have no services without kube-proxy's rules; empty: Sluice serves.
std::string why_not_serving(const maps::Pins& pins) {
  const auto opened = maps::MapSet::open(pins, maps::Access::read);
  if (!opened) {
    return opened.error().fault == maps::OpenFault::nothing_here ? "nothing is pinned"
                                                                 : opened.error().message();
  }
  if (find_agent(pins).state == AgentState::absent) {
    return "no agent runs";
  }
  const auto node = opened->node.load(0);
  if (node.started == 0) {
    return "its agent has not written its first plan";
  }
  if (node.policy.draining == LB_YES) {
    return "it is drained, and takes no new flows";
  }
  return has_hooks(pins) ? std::string() : "none of its programs is attached";
}

void require_replacement(const CleanupOptions& options) {
  if (options.mode == CleanupMode::dry_run || options.replacement == Replacement::any) {
    return;
  }
  if (kube_proxy_leftovers().empty()) {
    return;
  }
  if (const auto why = why_not_serving(maps::Pins(options.pins)); !why.empty()) {
    throw StartError(fmt::format(
        "no Sluice with the pins {} serves here ({}), so without kube-proxy's rules this node would "
        "have no services: start the agent first, or use --force",
        options.pins, why));
  }
}

void require_nothing_ends(const CleanupOptions& options) {
  if (options.mode == CleanupMode::dry_run || options.replacement == Replacement::any) {
    return;
  }
  const auto ends = kube_proxy_would_end();
  if (ends.empty()) {
    return;
  }
  throw StartError(fmt::format(
      "connections of IPVS would end with its virtual services, and nothing is changed; {} of them, as {}: "
      "wait for their end, or use --force",
      ends.size(), ends.front()));
}

int clean_kube_proxy(const CleanupOptions& options) {
  require_replacement(options);
  require_nothing_ends(options);
  const int code = clean(options.mode, "kube-proxy", kube_proxy_leftovers, [] {
    auto removed = remove_kube_proxy_leftovers();
    if (removed.handed > 0) {
      fmt::print("connections of IPVS that conntrack carries on: {}\n", removed.handed);
    }
    return std::move(removed.problem);
  });
  print(stdout, "kept, because others' chains lead there:", kube_proxy_kept());
  return code;
}

void wait_for_end() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  int signal = 0;
  sigwait(&ends, &signal);
}

}  // namespace

int run_cleanup(const CleanupOptions& options) {
  require_whole_sight(maps::Pins(options.pins));
  const int code =
      options.target == CleanupTarget::sluice ? clean_sluice(options) : clean_kube_proxy(options);
  std::fflush(stdout);
  if (code == 0 && options.after == AfterCleanup::stay) {
    wait_for_end();
  }
  return code;
}

}  // namespace lb::agent
