// SPDX-License-Identifier: Apache-2.0
// `sluice status`: which agent serves, the fill of the tables, the counters of outcomes.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <cstdint>
#include <ctime>

#include "agent/base/escape.hpp"
#include "agent/commands/grid.hpp"
#include "agent/commands/show.hpp"
#include "maps/text.hpp"

namespace lb::agent {
namespace {

namespace json = boost::json;
using maps::stored_text;

std::string text_of(std::span<const char> stored) { return escaped(stored_text(stored)); }

std::string time_text(std::time_t seconds) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(seconds));
}

std::string started_text(std::uint64_t seconds) { return time_text(static_cast<std::time_t>(seconds)); }

/// The two largest units: "2 h 5 min".
std::string age_text(std::chrono::seconds age) {
  const auto seconds = std::max<std::int64_t>(age.count(), 0);
  if (seconds < 60) {
    return fmt::format("{} s", seconds);
  }
  return seconds < 3600 ? fmt::format("{} min", seconds / 60)
                        : fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
}

/// The pinned maps keep serving and become outdated; only this line shows it.
std::string absent_text(const Status& status) {
  std::string since;
  if (const auto beat = status.agent.last_heartbeat) {
    const auto age = std::chrono::duration_cast<std::chrono::seconds>(status.now - *beat);
    since =
        fmt::format(" since {} ({})", time_text(std::chrono::system_clock::to_time_t(*beat)), age_text(age));
  }
  return fmt::format(
      "NOT RUNNING{}; what is pinned serves as it was then, whatever changes: start it, or remove all by "
      "`sluice cleanup` (version {} was the last)",
      since, stored_text(status.node.version));
}

std::string agent_text(const Status& status) {
  const auto& node = status.node;
  if (status.agent.state == AgentState::absent) {
    return absent_text(status);
  }
  const auto pid = status.agent.pid ? fmt::format(", pid {}", *status.agent.pid) : std::string();
  const auto since = node.started == 0 ? std::string(", first plan not written yet")
                                       : fmt::format(", first plan written {}", started_text(node.started));
  return fmt::format("running{}, version {}{}", pid, stored_text(node.version), since);
}

std::string or_dash(std::string text) { return text.empty() ? "-" : text; }

std::string percent(const Fill& fill) {
  return fill.limit == 0 ? "-" : fmt::format("{}%", fill.used * 100 / fill.limit);
}

/// Number of flows, which have two entries each.
std::uint64_t flows_left(const Status& status) {
  std::uint64_t entries = 0;
  for (const auto& fill : status.snapshot.fills) {
    if (fill.map.starts_with("lb_flows") || fill.map.starts_with("lb_unassured")) {
      entries += fill.used;
    }
  }
  return (entries + 1) / 2;
}

/// Seconds until `then` (lb_clock); negative: it has passed.
std::int32_t seconds_until(const Status& status, std::uint32_t then) {
  return static_cast<std::int32_t>(then - status.clock);
}

/// The line shown while no flow is created; the draining state outlasts a restart.
std::string draining_line(const Status& status) {
  if (status.node.policy.draining != LB_YES) {
    return {};
  }
  const auto since = std::chrono::seconds(-seconds_until(status, status.node.drain_started));
  const auto left = seconds_until(status, status.node.drain_deadline);
  const auto until =
      left > 0 ? "for " + age_text(std::chrono::seconds(left)) + " more" : std::string("deadline passed");
  return fmt::format(
      "Draining since {}, {}; {} flows are left; no new ones are taken, until `sluice drain --cancel`\n",
      age_text(since), until, flows_left(status));
}

json::object draining_json(const Status& status) {
  return {{"sinceSeconds", -seconds_until(status, status.node.drain_started)},
          {"untilSeconds", seconds_until(status, status.node.drain_deadline)},
          {"flowsLeft", flows_left(status)}};
}

std::string heading(const Status& status) {
  const auto& node = status.node;
  const auto zone = text_of(node.zone);
  return fmt::format(
      "Node     {}{}\n"
      "Agent    {}\n"
      "Pins     {}, {} links\n"
      "Sockets  {}\n"
      "Packets  {}\n"
      "Uplinks  {}\n"
      "Others   {}\n"
      "Without  {}\n"
      "Kernel   {}, {}\n{}",
      or_dash(text_of(node.name)), zone.empty() ? "" : ", zone " + zone, agent_text(status), status.pins,
      status.links.size(), or_dash(text_of(node.sockets)), or_dash(text_of(node.packets)),
      or_dash(escaped(status.uplinks)), or_dash(escaped(status.others)), or_dash(text_of(node.missing)),
      escaped(status.kernel), preemption_text(status.preemption), draining_line(status));
}

/// Retired entries take room, but are not in use.
std::string fills_table(const std::vector<Fill>& fills) {
  Grid grid({{"MAP"},
             {"USED", Align::right},
             {"RETIRED", Align::right},
             {"LIMIT", Align::right},
             {"FULL", Align::right}});
  for (const auto& fill : fills) {
    const auto retired = fill.retired.value_or(0);
    grid.add({std::string(fill.map), std::to_string(fill.used - retired),
              fill.retired ? std::to_string(retired) : "-", std::to_string(fill.limit), percent(fill)});
  }
  return grid.text();
}

json::object fill_json(const Fill& fill) {
  json::object object = {{"used", fill.used}, {"limit", fill.limit}};
  if (fill.retired) {
    object["retired"] = *fill.retired;
  }
  return object;
}

/// Only outcomes that have occurred; the JSON has all.
std::string outcomes_table(const lb_stats& stats) {
  Grid grid({{"OUTCOME"}, {"COUNT", Align::right}, {"ACTION"}, {"MEANING"}});
  for (const auto& outcome : outcomes) {
    if (const auto count = stats.*outcome.count; count != 0) {
      grid.add({std::string(outcome.name), std::to_string(count), std::string(outcome.action),
                std::string(outcome.meaning)});
    }
  }
  return grid.text();
}

json::object agent_json(const Status& status) {
  json::object agent = {{"running", status.agent.state == AgentState::running},
                        {"version", text_of(status.node.version)}};
  if (status.agent.pid) {
    agent["pid"] = *status.agent.pid;
  }
  if (status.agent.state == AgentState::absent && status.agent.last_heartbeat) {
    agent["absentSince"] = time_text(std::chrono::system_clock::to_time_t(*status.agent.last_heartbeat));
  }
  if (status.node.started != 0) {
    agent["started"] = started_text(status.node.started);
  }
  return agent;
}

json::object kernel_json(const Status& status) {
  return {{"release", escaped(status.kernel)}, {"preemption", preemption_name(status.preemption)}};
}

std::string status_json(const Status& status) {
  const auto& node = status.node;
  json::object counts;
  for (const auto& outcome : outcomes) {
    counts[json::string_view(outcome.name.data(), outcome.name.size())] =
        static_cast<std::uint64_t>(status.snapshot.outcomes.*outcome.count);
  }
  json::object fills;
  for (const auto& fill : status.snapshot.fills) {
    fills[json::string_view(fill.map.data(), fill.map.size())] = fill_json(fill);
  }
  json::object object = {{"node", text_of(node.name)},
                         {"zone", text_of(node.zone)},
                         {"agent", agent_json(status)},
                         {"pins", status.pins},
                         {"layout", node.layout},
                         {"links", json::array(status.links.begin(), status.links.end())},
                         {"sockets", text_of(node.sockets)},
                         {"packets", text_of(node.packets)},
                         {"uplinks", escaped(status.uplinks)},
                         {"others", escaped(status.others)},
                         {"without", text_of(node.missing)},
                         {"kernel", kernel_json(status)},
                         {"maps", std::move(fills)},
                         {"outcomes", std::move(counts)}};
  if (node.policy.draining == LB_YES) {
    object["draining"] = draining_json(status);
  }
  return json::serialize(object) + "\n";
}

}  // namespace

std::string show_status(const Status& status, Output output) {
  if (output == Output::json) {
    return status_json(status);
  }
  return heading(status) + "\n" + fills_table(status.snapshot.fills) + "\n" +
         outcomes_table(status.snapshot.outcomes);
}

}  // namespace lb::agent
