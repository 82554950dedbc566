// SPDX-License-Identifier: Apache-2.0
// Waits for addresses to return, then ends the flows of those that have not.
#include "agent/tables/lost_sources.hpp"

#include <algorithm>
#include <ranges>
#include <utility>

namespace lb::agent {
namespace {

/// The node's address in a source-NATed flow.
const k8s::Address& source_of(const SweptEntry& entry) {
  return entry.track.direction == LB_FORWARD ? entry.leaving_source : entry.arriving_destination;
}

}  // namespace

LostSources::LostSources(boost::asio::io_context& context, maps::MapSet& maps,
                         std::function<void(std::size_t entries)> ended, std::chrono::milliseconds patience)
    : timer_(context),
      patience_(patience),
      sweep_(context, maps, std::move(ended), "flows from addresses that this node lost may hang") {}

void LostSources::follow(const std::vector<k8s::Address>& own) {
  std::set<k8s::Address> now(own.begin(), own.end());
  if (!own_) {
    own_ = std::move(now);
    return sweep();
  }
  for (const auto& address : *own_) {
    if (!now.contains(address)) {
      lost_.emplace(address, Clock::now() + patience_);
    }
  }
  std::erase_if(lost_, [&](const auto& lost) { return now.contains(lost.first); });
  own_ = std::move(now);
  await_next();
}

void LostSources::await_next() {
  if (lost_.empty()) {
    return static_cast<void>(timer_.cancel());
  }
  timer_.expires_at(std::ranges::min(lost_ | std::views::values));
  timer_.async_wait([this](const auto& stopped) {
    if (!stopped) {
      look();
    }
  });
}

void LostSources::look() {
  const auto now = Clock::now();
  if (std::erase_if(lost_, [&](const auto& lost) { return lost.second <= now; }) > 0) {
    sweep();
  }
  await_next();
}

/// The kernel is asked once about each address that no device has.
void LostSources::sweep() {
  sweep_.start([this, asked = std::map<k8s::Address, bool>()](const SweptEntry& entry) mutable {
    const auto& source = source_of(entry);
    if (entry.track.source_nat == LB_NO || own_->contains(source) || lost_.contains(source)) {
      return false;
    }
    const auto [answer, is_new] = asked.try_emplace(source, false);
    if (is_new) {
      answer->second = !routes_.is_local(source);
    }
    return answer->second;
  });
}

}  // namespace lb::agent
