// SPDX-License-Identifier: Apache-2.0
// Messages about a start that takes long.
#include "agent/run/start_progress.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace lb::agent {
namespace {

constexpr std::chrono::seconds pause{5};

/// Resources without which there is no plan; ServiceCIDRs and other Nodes are not needed.
constexpr std::array<std::string_view, 3> needed = {"services", "endpointslices", "nodes"};

std::string progress_of(const k8s::ApiStats& list) {
  if (list.requests == 0) {
    return fmt::format("{} (not asked for yet)", list.resource);
  }
  return fmt::format("{} ({} requests, {} failed, {} bytes; last response {} s ago)", list.resource,
                     list.requests, list.failures, list.bytes,
                     std::chrono::duration_cast<std::chrono::seconds>(list.silence).count());
}

std::string awaited_objects(const std::vector<k8s::ApiStats>& api) {
  if (api.empty()) {
    return "the manifests";
  }
  std::vector<std::string> lists;
  for (const auto& each : api) {
    const bool is_needed = std::ranges::find(needed, each.resource) != needed.end();
    if (is_needed && each.lists == 0) {
      lists.push_back(progress_of(each));
    }
  }
  return lists.empty() ? "the objects of the API"
                       : fmt::format("the API's list of {}", fmt::join(lists, ", of "));
}

}  // namespace

std::string awaited(StartStep step, const std::vector<k8s::ApiStats>& api) {
  switch (step) {
    case StartStep::network:
      return "the kernel's word about this node's devices and addresses";
    case StartStep::objects:
      return awaited_objects(api);
    case StartStep::plan:
      return "the first plan";
    case StartStep::labels:
      return "the labels of other Nodes, which Services ask for";
    case StartStep::turns:
      return "plans that are written in several turns";
    case StartStep::tables:
      return "what the maps have not taken yet";
    case StartStep::serving:
      break;
  }
  return "";
}

std::string progress_message(std::chrono::milliseconds waited, std::chrono::milliseconds held,
                             const std::string& what) {
  const auto seconds = [](std::chrono::milliseconds time) {
    return std::chrono::duration_cast<std::chrono::seconds>(time).count();
  };
  auto text = fmt::format("not ready after {} s: waiting for {}", seconds(waited), what);
  if (held >= std::chrono::seconds(1)) {
    text += fmt::format(
        "; this check came {} s late, because a step of the agent took that long or the machine is busy",
        seconds(held));
  }
  return text;
}

StartProgress::StartProgress(boost::asio::io_context& context, Ask ask)
    : timer_(context), ask_(std::move(ask)) {}

void StartProgress::watch() {
  timer_.expires_after(pause);
  timer_.async_wait([this](const auto& stopped) {
    if (stopped) {
      return;
    }
    const auto what = ask_();
    if (what.empty()) {
      return;
    }
    const auto now = Clock::now();
    const auto ms = [](Clock::duration time) {
      return std::chrono::duration_cast<std::chrono::milliseconds>(time);
    };
    spdlog::warn("{}", progress_message(ms(now - began_), ms(now - timer_.expiry()), what));
    watch();
  });
}

}  // namespace lb::agent
