// SPDX-License-Identifier: Apache-2.0
// The tables say what each program is good for; the rest is a search in their order.
#include "agent/programs/acceptance.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace lb::agent {
namespace {

using Names = std::vector<std::string>;

/// Features of the tc programs, in the order in which they are given up: first what only saves time, last
/// what protects other connections.
constexpr std::array tc_features = {Feature::tc_fastpath, Feature::skb_sums,   Feature::csum_ipv6,
                                    Feature::fib_mark,    Feature::fib_source, Feature::egress_verdicts,
                                    Feature::ct_lookup};
/// XDP only saves time, so nothing that tc uses too is given up for it.
constexpr std::array xdp_features = {Feature::xdp_fastpath};
/// Without it the program is not chosen.
constexpr std::array udp_features = {Feature::socket_destroy};

/// What a program is good for.
struct Part {
  std::string_view program;
  std::string_view without_it;  ///< what an agent does without the program
  std::span<const Feature> features;
  /// Programs that do harm or nothing without this one: who does not restore answers must not translate
  /// requests, and who counts lost frames alone would take every device for one that sends none.
  std::array<std::string_view, 2> dependents;
};

constexpr std::string_view no_uplinks = "uplinks are not served";
constexpr std::string_view no_pods = "pods' devices are not served";
constexpr std::string_view no_peer = "getpeername shows backends";
constexpr std::string_view no_connect = "connect is left to the packets' hooks";
constexpr std::string_view no_send = "unconnected UDP is left to the packets' hooks";
constexpr std::string_view no_watch = "frames that devices drop are not noticed";
constexpr std::string_view no_count = "the memory of sockets' storage has no limit";
constexpr std::string_view no_udp_end = "connected UDP sockets are not ended";

constexpr std::array parts = {
    Part{"lb_peername4", no_peer, {}, {}},
    Part{"lb_peername6", no_peer, {}, {}},
    Part{"lb_recvmsg4", no_send, {}, {"lb_sendmsg4"}},
    Part{"lb_recvmsg6", no_send, {}, {"lb_sendmsg6"}},
    Part{"lb_sendmsg4", no_send, {}, {}},
    Part{"lb_sendmsg6", no_send, {}, {}},
    Part{"lb_connect4", no_connect, {}, {}},
    Part{"lb_connect6", no_connect, {}, {}},
    Part{"lb_tc_in", no_uplinks, tc_features, {"lb_tc_out", "lb_xdp"}},
    Part{"lb_tc_out", no_uplinks, tc_features, {"lb_tc_in", "lb_xdp"}},
    Part{"lb_pod_in", no_pods, tc_features, {"lb_pod_out"}},
    Part{"lb_pod_out", no_pods, tc_features, {"lb_pod_in"}},
    Part{"lb_xdp", "tc serves alone", xdp_features, {"lb_xdp_sent", "lb_xdp_refused"}},
    Part{"lb_xdp_sent", no_watch, {}, {"lb_xdp_refused"}},
    Part{"lb_xdp_refused", no_watch, {}, {"lb_xdp_sent"}},
    Part{"lb_udp_destroy", no_udp_end, udp_features, {}},
    Part{"lb_udp_find", no_udp_end, {}, {}},
    Part{"lb_udp_list", no_udp_end, {}, {}},
    Part{"lb_count_sockets", no_count, {}, {}},
};

/// Ways to serve, each the programs that it needs.
constexpr std::array<std::array<std::string_view, 2>, 4> ways = {{{"lb_connect4", "lb_connect4"},
                                                                  {"lb_connect6", "lb_connect6"},
                                                                  {"lb_tc_in", "lb_tc_out"},
                                                                  {"lb_pod_in", "lb_pod_out"}}};

const Part& part_of(std::string_view program) {
  static constexpr Part unknown{"", "it is left out", {}, {}};
  const auto* const part = std::ranges::find(parts, program, &Part::program);
  return part == parts.end() ? unknown : *part;
}

bool contains(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// Sets of features to leave unused, in the order of the attempts: each alone, then all.
std::vector<std::vector<Feature>> attempts_for(std::string_view program, const Features& features) {
  std::vector<std::vector<Feature>> attempts;
  std::vector<Feature> all;
  for (const auto feature : part_of(program).features) {
    if (features.usable(feature)) {
      attempts.push_back({feature});
      all.push_back(feature);
    }
  }
  if (all.size() > 1) {
    attempts.push_back(std::move(all));
  }
  return attempts;
}

std::string names_of(const std::vector<Feature>& features) {
  Names names;
  for (const auto feature : features) {
    names.emplace_back(feature_name(feature));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

Features refuse(Features features, const std::vector<Feature>& refused) {
  for (const auto feature : refused) {
    features = features.refused(feature);
  }
  return features;
}

class Search {
 public:
  Search(const Features& features, const ProgramTrial& trial) : trial_(trial) { found_.features = features; }

  Acceptance run() {
    while (give_up_features()) {
      forget_results();
    }
    for (bool more = true; more;) {
      more = leave_out_dependents();
    }
    return std::move(found_);
  }

 private:
  /// Tries all programs. Returns true if one needs fewer features: then all are tried again with those.
  bool give_up_features() {
    for (const auto& name : trial_.chosen(found_.features)) {
      if (found_.left_out.contains(name)) {
        continue;
      }
      auto probe = trial_.load(name, found_.features);
      if (probe.refusal.empty()) {
        found_.loads[name] = std::move(probe);
      } else if (substitute(std::move(probe))) {
        return true;
      } else {
        found_.left_out.insert(name);
      }
    }
    return false;
  }

  /// Returns whether the program loads without some of its features, which are given up then.
  bool substitute(ProgramProbe probe) {
    ProgramRefusal refusal{probe.name, {{"", std::move(probe.refusal)}}, {}};
    for (const auto& without : attempts_for(probe.name, found_.features)) {
      const auto fewer = refuse(found_.features, without);
      const bool chosen = contains(trial_.chosen(fewer), probe.name);
      auto again = chosen ? trial_.load(probe.name, fewer) : ProgramProbe{probe.name, 0, {}};
      if (again.refusal.empty()) {
        refusal.without = names_of(without);
        found_.refusals.push_back(std::move(refusal));
        found_.features = fewer;
        return true;
      }
      refusal.attempts.push_back({names_of(without), std::move(again.refusal)});
    }
    found_.refusals.push_back(std::move(refusal));
    return false;
  }

  /// With fewer features, what was left out may load.
  void forget_results() {
    found_.loads.clear();
    found_.left_out.clear();
    std::erase_if(found_.refusals, [](const ProgramRefusal& refusal) { return refusal.without.empty(); });
  }

  bool leave_out_dependents() {
    const auto before = found_.left_out.size();
    const auto refused = found_.left_out;
    for (const auto& name : refused) {
      for (const auto dependent : part_of(name).dependents) {
        if (!dependent.empty()) {
          found_.left_out.emplace(dependent);
        }
      }
    }
    return found_.left_out.size() > before;
  }

  const ProgramTrial& trial_;
  Acceptance found_;
};

}  // namespace

Acceptance accept_programs(const Features& features, const ProgramTrial& trial) {
  return Search(features, trial).run();
}

std::string nothing_served(const std::vector<std::string>& chosen, const Acceptance& accepted) {
  const auto loads = [&](std::string_view name) {
    return contains(chosen, name) && !accepted.left_out.contains(std::string(name));
  };
  const auto works = [&](const auto& way) { return std::ranges::all_of(way, loads); };
  if (accepted.refusals.empty() || std::ranges::any_of(ways, works)) {
    return {};
  }
  const auto& first = accepted.refusals.front();
  return fmt::format("the kernel refuses every program by which this node could be served, first {} ({})",
                     first.program, first.attempts.front().reason);
}

std::string refusal_effect(const ProgramRefusal& refusal) {
  return refusal.without.empty()
             ? fmt::format("{} refused: {}", refusal.program, part_of(refusal.program).without_it)
             : fmt::format("{} refused with {}", refusal.program, refusal.without);
}

std::string refusal_text(const ProgramRefusal& refusal) {
  std::string text =
      fmt::format("the kernel refuses the program {} ({})", refusal.program, refusal.attempts.front().reason);
  if (!refusal.without.empty()) {
    return fmt::format("{}; it is loaded without {}", text, refusal.without);
  }
  return fmt::format("{}; it is left out: {}", text, part_of(refusal.program).without_it);
}

}  // namespace lb::agent
