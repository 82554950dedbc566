// SPDX-License-Identifier: Apache-2.0
// Formats the results of attaching.
#include "agent/attach/hooks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lb::agent {
namespace {

bool serves(const HookReport& hook) {
  return hook.state != HookState::failed && hook.state != HookState::declined &&
         hook.state != HookState::left_out;
}

std::string failure_among(const std::vector<HookReport>& hooks) {
  const auto failed = std::ranges::find(hooks, HookState::failed, &HookReport::state);
  return failed == hooks.end() ? std::string()
                               : fmt::format("cannot attach to {}: {}", failed->hook.text(), failed->problem);
}

}  // namespace

HookReport report_of(HookId hook, std::string attach_type,
                     const boost::system::result<AttachResult>& outcome) {
  if (outcome) {
    return {std::move(hook), std::move(attach_type), outcome->state, {}};
  }
  return {std::move(hook), {}, HookState::failed, outcome.error().message()};
}

HookReport report_of_program(HookId hook, const std::string& attach_type, int program,
                             const boost::system::result<AttachResult>& outcome) {
  if (program != left_out) {
    return report_of(std::move(hook), attach_type, outcome);
  }
  if (!outcome) {
    return {std::move(hook), {}, HookState::left_out, {}};
  }
  return report_of(std::move(hook), attach_type + " (earlier program)", outcome);
}

bool is_uplink(const AttachPlan& plan, std::uint32_t device) {
  return std::ranges::find(plan.devices, device, &Device::index) != plan.devices.end();
}

std::string AttachReport::failure() const { return failure_among(hooks); }

std::string AttachReport::pod_failure() const { return failure_among(pod_hooks); }

bool AttachReport::uplinks_left_out() const {
  return std::ranges::any_of(hooks, [](const HookReport& each) {
    return each.state == HookState::left_out && each.hook.kind == HookKind::tc_ingress;
  });
}

std::size_t AttachReport::count(HookState state) const {
  return static_cast<std::size_t>(std::ranges::count(hooks, state, &HookReport::state));
}

std::vector<std::string> AttachReport::declined() const {
  std::vector<std::pair<std::string, std::string>> by_reason;
  for (const auto& each : hooks) {
    if (each.state != HookState::declined) {
      continue;
    }
    const auto known =
        std::ranges::find(by_reason, each.problem, &std::pair<std::string, std::string>::first);
    if (known == by_reason.end()) {
      by_reason.emplace_back(each.problem, each.hook.text());
    } else {
      known->second += ", " + each.hook.text();
    }
  }
  std::vector<std::string> texts;
  texts.reserve(by_reason.size());
  for (const auto& [problem, where] : by_reason) {
    texts.push_back(fmt::format("{}: {}", where, problem));
  }
  return texts;
}

std::string AttachReport::sockets_text() const {
  std::size_t all = 0;
  std::size_t serving = 0;
  for (const auto& each : hooks) {
    if (each.hook.kind == HookKind::socket) {
      ++all;
      serving += serves(each) ? 1 : 0;
    }
  }
  return all == 0 ? "off" : fmt::format("cgroup, {} of {} hooks", serving, all);
}

// The reports of a device are consecutive: ingress, egress, XDP.
std::string AttachReport::packets_text() const {
  std::string text;
  std::string last;
  for (const auto& each : hooks) {
    const auto& [kind, device, socket] = each.hook;
    if (!serves(each) || (kind != HookKind::tc_ingress && kind != HookKind::xdp)) {
      continue;
    }
    text += device == last ? "+" + each.attach_type
                           : fmt::format("{}{} {}", text.empty() ? "" : ", ", device, each.attach_type);
    last = device;
  }
  if (pods > 0) {
    text += fmt::format("{}{} pods {}", text.empty() ? "" : ", ", pods, name_of(tc_by));
  }
  return text.empty() ? "off" : text;
}

}  // namespace lb::agent
