// What became of the hooks, in words.
#include "agent/attach/hooks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace lb::agent {
namespace {

bool serves(const HookReport& hook) {
  return hook.state != HookState::failed && hook.state != HookState::declined;
}

std::string failure_among(const std::vector<HookReport>& hooks) {
  const auto failed = std::ranges::find(hooks, HookState::failed, &HookReport::state);
  return failed == hooks.end() ? std::string()
                               : fmt::format("cannot attach to {}: {}", failed->place, failed->problem);
}

}  // namespace

HookReport report_of(std::string place, std::string means, const boost::system::result<Held>& outcome) {
  if (outcome) {
    return {std::move(place), std::move(means), outcome->state, {}};
  }
  return {std::move(place), {}, HookState::failed, outcome.error().message()};
}

bool is_outward(const AttachPlan& plan, std::uint32_t device) {
  return std::ranges::find(plan.devices, device, &Device::index) != plan.devices.end();
}

std::string AttachReport::failure() const { return failure_among(hooks); }

std::string AttachReport::pod_failure() const { return failure_among(pod_hooks); }

std::size_t AttachReport::count(HookState state) const {
  return static_cast<std::size_t>(std::ranges::count(hooks, state, &HookReport::state));
}

std::vector<std::string> AttachReport::declined() const {
  std::vector<std::pair<std::string, std::string>> places;  // by reason
  for (const auto& hook : hooks) {
    if (hook.state != HookState::declined) {
      continue;
    }
    const auto known = std::ranges::find(places, hook.problem, &std::pair<std::string, std::string>::first);
    if (known == places.end()) {
      places.emplace_back(hook.problem, hook.place);
    } else {
      known->second += ", " + hook.place;
    }
  }
  std::vector<std::string> sentences;
  sentences.reserve(places.size());
  for (const auto& [problem, where] : places) {
    sentences.push_back(fmt::format("{}: {}", where, problem));
  }
  return sentences;
}

std::string AttachReport::sockets_text() const {
  std::size_t all = 0;
  std::size_t serving = 0;
  for (const auto& hook : hooks) {
    if (hook.place.starts_with(cgroup_prefix)) {
      ++all;
      serving += serves(hook) ? 1 : 0;
    }
  }
  return all == 0 ? "off" : fmt::format("cgroup, {} of {} hooks", serving, all);
}

// The reports of a device follow one another: ingress, egress, XDP.
std::string AttachReport::packets_text() const {
  std::string text;
  std::string last;
  for (const auto& hook : hooks) {
    const auto device = hook.place.substr(0, hook.place.find(' '));
    if (hook.place.starts_with(cgroup_prefix) || !serves(hook) || hook.place.ends_with(" egress")) {
      continue;
    }
    text += device == last ? "+" + hook.means
                           : fmt::format("{}{} {}", text.empty() ? "" : ", ", device, hook.means);
    last = device;
  }
  if (pods > 0) {
    text += fmt::format("{}{} pods {}", text.empty() ? "" : ", ", pods, name_of(tc_by));
  }
  return text.empty() ? "off" : text;
}

}  // namespace lb::agent
