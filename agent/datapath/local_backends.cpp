// SPDX-License-Identifier: Apache-2.0
#include "agent/datapath/local_backends.hpp"

#include <utility>

namespace lb::agent {

void LocalBackends::set_uplinks(std::set<std::uint32_t> indices) {
  if (indices == uplinks_) {
    return;
  }
  uplinks_ = std::move(indices);
  changed_ = true;
}

/// A route that adds its own headers is the stack's, by whatever device it leads (REL-99).
ReachedBy LocalBackends::look_up(const k8s::Address& address) const {
  if (uplinks_.empty()) {
    return ReachedBy::device;
  }
  const auto hop = lookup_(address);
  return hop.kind != HopKind::encapsulated && uplinks_.contains(hop.device) ? ReachedBy::uplink
                                                                            : ReachedBy::device;
}

ReachedBy LocalBackends::ask(std::string_view service, const k8s::Address& address) {
  const auto known = answers_.find(address);
  if (known != answers_.end()) {
    return known->second;
  }
  auto share = answers_of_.find(service);
  if (share == answers_of_.end()) {
    share = answers_of_.emplace(service, 0).first;
  }
  if (answers_.size() >= max_answers || share->second >= max_answers_of_service) {
    is_full_ = true;
    return ReachedBy::device;
  }
  ++share->second;
  ++lookups_;
  return answers_.emplace(address, look_up(address)).first->second;
}

LocalBackends::Changes LocalBackends::check(TimePoint now) {
  if (is_full_ && now - forgot_ >= memory) {
    answers_.clear();
    answers_of_.clear();
    next_.reset();
    is_full_ = changed_ = false;
    forgot_ = now;
    return {{}, true};
  }
  if (!next_ && std::exchange(changed_, false) && !answers_.empty()) {
    next_ = answers_.begin()->first;
  }
  if (!next_) {
    return {};
  }
  Changes changes;
  auto at = answers_.lower_bound(*next_);
  for (std::size_t count = 0; at != answers_.end() && count < lookups_of_check; ++at, ++count) {
    auto& [address, answer] = *at;
    const auto present = look_up(address);
    if (std::exchange(answer, present) != present) {
      changes.addresses.push_back(address);
    }
  }
  next_ = at == answers_.end() ? std::nullopt : std::optional(at->first);
  return changes;
}

}  // namespace lb::agent
