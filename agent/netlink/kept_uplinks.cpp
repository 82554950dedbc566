// SPDX-License-Identifier: Apache-2.0
#include "agent/netlink/kept_uplinks.hpp"

#include <algorithm>
#include <utility>

namespace lb::agent {
namespace {

bool has(const std::vector<Uplink>& uplinks, const std::string& name) {
  return std::ranges::find(uplinks, name, &Uplink::name) != uplinks.end();
}

/// Whether a device of this index still has the name, and stands for itself.
bool exists(const NodeLinks& links, std::uint32_t index, const std::string& name) {
  const auto link = links.find(index);
  return link != links.end() && link->second.device.name == name && link->second.device.master == 0;
}

}  // namespace

std::vector<Uplink> KeptUplinks::joined(std::vector<Uplink> found, const NodeLinks& links, TimePoint now) {
  std::map<std::string, TimePoint> missing;
  for (std::size_t at = 0; at < last_.size(); ++at) {
    const auto& uplink = last_[at];
    const auto index = indices_.find(uplink.name);
    if (has(found, uplink.name) || index == indices_.end() || !exists(links, index->second, uplink.name)) {
      continue;
    }
    const auto known = missing_.find(uplink.name);
    const auto until = known == missing_.end() ? now + gap : known->second;
    if (until <= now) {
      continue;
    }
    missing.emplace(uplink.name, until);
    found.insert(found.begin() + static_cast<std::ptrdiff_t>(std::min(at, found.size())), uplink);
  }
  missing_ = std::move(missing);
  last_ = found;
  indices_.clear();
  for (const auto& [index, link] : links) {
    if (has(found, link.device.name)) {
      indices_.emplace(link.device.name, index);
    }
  }
  return found;
}

bool KeptUplinks::is_due(TimePoint now) const {
  return std::ranges::any_of(missing_, [now](const auto& each) { return each.second <= now; });
}

}  // namespace lb::agent
