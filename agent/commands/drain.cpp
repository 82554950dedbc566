// SPDX-License-Identifier: Apache-2.0
// Switches the programs by the node page, then checks the flows until none needs Sluice.
#include "agent/commands/drain.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/base/clock.hpp"
#include "agent/base/error.hpp"
#include "agent/base/escape.hpp"
#include "agent/commands/compare_services.hpp"
#include "agent/commands/our_frontends.hpp"
#include "agent/commands/sight.hpp"
#include "agent/commands/view.hpp"
#include "agent/datapath/lock.hpp"
#include "agent/datapath/open_maps.hpp"
#include "agent/kube_proxy/presence.hpp"
#include "agent/kube_proxy/services.hpp"
#include "agent/netlink/tuple_filter.hpp"
#include "agent/run/leftovers.hpp"
#include "agent/tables/hand_over.hpp"
#include "agent/tables/switch_over.hpp"
#include "k8s/objects/host_port.hpp"
#include "maps/mapset.hpp"
#include "maps/text.hpp"

namespace lb::agent {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds between_walks{500};
constexpr std::chrono::seconds rules_timeout{30};  // for a kube-proxy that is starting
constexpr std::chrono::seconds agent_timeout{5};   // for a running agent's next look at the node page
constexpr std::size_t max_named = 3;               // frontends listed in an error message

Conntrack open_conntrack() {
  auto opened = Conntrack::open();
  if (!opened) {
    throw StartError(fmt::format("cannot ask the kernel's conntrack: {}", opened.error().message()));
  }
  return std::move(*opened);
}

/// nullopt on a kernel without nf_tables.
std::optional<NfTupleFilter> open_filter() {
  auto opened = NfTupleFilter::open();
  if (opened) {
    return std::move(*opened);
  }
  fmt::print(
      stderr,
      "sluice: no nftables table can be made ({}): a connection may be reset if a packet arrives while "
      "it is handed over\n",
      opened.error().message());
  return std::nullopt;
}

/// The frontends that are served here, from the maps.
ServedFrontends our_frontends(const maps::MapSet& maps) {
  const auto services = read_services(maps);
  if (!services) {
    throw StartError(fmt::format("cannot read the maps: {}", services.error().message()));
  }
  std::vector<std::uint32_t> numbers;
  for (const auto& service : *services) {
    numbers.push_back(service.number);
  }
  std::ranges::sort(numbers);
  return frontends_of(*services, read_backends(maps, numbers));
}

KubeProxyServices kube_proxy_services() {
  auto found = read_kube_proxy_services();
  if (!found) {
    throw StartError(fmt::format("cannot read kube-proxy's rules: {}", found.error().message()));
  }
  if (found->mode == ProxyMode::none) {
    throw StartError(
        "no rules of kube-proxy are on this node, so new connections would be lost: start "
        "kube-proxy, or use --force");
  }
  return std::move(*found);
}

/// "default/web:http (tcp 10.96.0.80:80), ... and 4 more".
std::string lacking_text(const std::vector<Difference>& lacking) {
  std::vector<std::string> named;
  for (const auto& each : lacking) {
    if (named.size() == max_named) {
      break;
    }
    named.push_back(fmt::format("{} ({} {})", escaped(each.service), maps::word(each.frontend.protocol),
                                frontend_text(each.frontend)));
  }
  auto text = fmt::format("{}", fmt::join(named, ", "));
  if (lacking.size() > named.size()) {
    text += fmt::format(" and {} more", lacking.size() - named.size());
  }
  return text;
}

/// Why `drain` refuses: what kube-proxy lacks, or that nobody can tell, because some of its rules are not
/// understood.
std::string refusal(const KubeProxyServices& kube_proxy, const std::vector<Difference>& lacking) {
  const auto* mode = proxy_mode_name(kube_proxy.mode);
  if (kube_proxy.unread.empty()) {
    return fmt::format(
        "kube-proxy ({}) does not serve all that is served here, so new connections to the rest would be "
        "lost: {}; "
        "wait for its rules, see `sluice check --against kube-proxy`, or use --force",
        mode, lacking_text(lacking));
  }
  return fmt::format(
      "cannot tell whether kube-proxy ({}) serves {}, because {} of its rules are not understood ({}): see "
      "`sluice "
      "check --against kube-proxy`, and use --force if its rules are complete",
      mode, lacking_text(lacking), kube_proxy.unread.size(), escaped(kube_proxy.unread.front()));
}

/// Waits until kube-proxy has endpoints for everything served here: it reports healthy before its rules are
/// installed. Returns its mode. Rules that are not understood do not matter if the others suffice.
std::string await_successor(const maps::MapSet& maps) {
  const auto deadline = Clock::now() + rules_timeout;
  for (;;) {
    const auto kube_proxy = kube_proxy_services();
    const auto lacking = unserved_by(kube_proxy.frontends, our_frontends(maps));
    if (lacking.empty()) {
      return proxy_mode_name(kube_proxy.mode);
    }
    if (Clock::now() >= deadline) {
      throw StartError(refusal(kube_proxy, lacking));
    }
    std::this_thread::sleep_for(between_walks);
  }
}

/// kube-proxy's mode; empty: it does not serve, and --force accepts that.
std::string successor(const DrainOptions& options, const maps::MapSet& maps) {
  return options.successor == Successor::required ? await_successor(maps) : KubeProxyRules().detect();
}

/// Walks the flows until none needs Sluice, or the deadline passes; `page_deadline` is the deadline for the
/// node page.
HandOverCount drain_flows(const DrainOptions& options, maps::MapSet& maps, HandOver handing,
                          std::uint32_t page_deadline) {
  auto conntrack = open_conntrack();
  auto filter = handing == HandOver::allowed ? open_filter() : std::nullopt;
  const HandOverTarget target{conntrack, filter ? &*filter : nullptr};
  const auto deadline = Clock::now() + std::chrono::seconds(options.timeout_seconds);
  HandOverCount all;
  for (;;) {
    set_draining(maps.node, page_deadline);  // again, in case an agent has written the page meanwhile
    const auto count = hand_over({maps.flows4, maps.flows6, maps.unassured4, maps.unassured6}, target,
                                 handing, flow_clock_now(maps.node.load(0).hertz));
    if (!count) {
      throw StartError(fmt::format("cannot walk the flow tables: {}", count.error().message()));
    }
    all.handed += count->handed;
    all.left = count->left;
    all.refusal = count->refusal;
    if ((count->handed == 0 && count->all_left() == 0) || Clock::now() >= deadline) {
      return all;
    }
    std::this_thread::sleep_for(between_walks);
  }
}

/// Prints the number of flows for each reason, and a few examples.
void print_left(const HandOverCount& count) {
  for (std::size_t at = 0; at < count.left.size(); ++at) {
    const auto& flows = count.left.at(at);
    if (flows.count == 0) {
      continue;
    }
    const auto reason = static_cast<RemainReason>(at);
    fmt::print("{} left: {}{}\n", flows.count, reason_text(reason),
               reason == RemainReason::refused ? ": " + count.refusal.message() : "");
    for (const auto& flow : flows.examples) {
      fmt::print("  {} {} -> {}\n", maps::word(flow.protocol),
                 k8s::host_port(flow.source.text(), flow.source_port),
                 k8s::host_port(flow.destination.text(), flow.destination_port));
    }
    if (flows.count > flows.examples.size()) {
      fmt::print("  ...\n");
    }
  }
}

/// Waits until a running agent has seen that the node is drained, and has left its ports to kube-proxy
/// (REL-166): its heartbeat follows its look at the page.
void await_agent(const maps::MapSet& maps) {
  const auto deadline = Clock::now() + agent_timeout;
  for (auto page = maps.node.load(0); page.heartbeat <= page.drain_started && Clock::now() < deadline;
       page = maps.node.load(0)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

/// If an agent holds the pins, it would restore its hooks.
int finish(const maps::MapSet& maps, const maps::Pins& pins) {
  if (find_agent(pins).state == AgentState::running) {
    await_agent(maps);
    fmt::print(
        "the hooks stay while an agent runs, and pass new flows on to kube-proxy: stop the agent, then "
        "`sluice cleanup`\n");
    return 0;
  }
  const auto lock = PinLock::take_existing(pins);
  remove_leftovers(pins.base());
  const auto left = leftovers(pins.base());
  for (const auto& line : left) {
    fmt::print(stderr, "sluice: could not remove {}\n", line);
  }
  fmt::print("{}\n", left.empty() ? "removed the hooks and all that was pinned" : "something is left");
  return left.empty() ? 0 : 1;
}

int cancel(maps::MapSet& maps) {
  end_draining(maps.node);
  fmt::print("new flows are taken again\n");
  return 0;
}

}  // namespace

int run_drain(const DrainOptions& options) {
  const maps::Pins pins(options.pins);
  require_whole_sight(pins);
  if (options.mode != DrainMode::cancel && leftovers(pins.base()).empty()) {
    fmt::print("nothing of Sluice is here, and nothing is to be drained\n");
    return 0;
  }
  auto maps = open_maps(pins, maps::Access::write);
  if (options.mode == DrainMode::cancel) {
    return cancel(maps);
  }
  const auto rules = successor(options, maps);
  const auto page_deadline = flow_clock_now(maps.node.load(0).hertz) + options.timeout_seconds;
  set_draining(maps.node, page_deadline);
  fmt::print("draining: no new flows; successor: {}\n", rules.empty() ? "none" : "kube-proxy, " + rules);
  std::fflush(stdout);
  const auto count =
      drain_flows(options, maps, rules.empty() ? HandOver::forbidden : HandOver::allowed, page_deadline);
  fmt::print("{} flows were handed over to conntrack, {} are left\n", count.handed, count.all_left());
  print_left(count);
  std::fflush(stdout);
  const int code = finish(maps, pins);
  return count.all_left() == 0 ? code : 1;
}

}  // namespace lb::agent
