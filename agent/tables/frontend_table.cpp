// SPDX-License-Identifier: Apache-2.0
// Keeps lb_frontends, and what depends on its entries.
#include "agent/tables/frontend_table.hpp"

#include <algorithm>

namespace lb::agent {

using maps::error_code;

error_code FrontendTable::load() {
  if (const error_code error = entries_.load()) {
    return error;
  }
  for (const auto& [key, value] : entries_.entries()) {
    addresses_.count(key, value.kind, 1);
    count_node_port(key, 1);
  }
  return {};
}

error_code FrontendTable::put(const lb_frontend_key& key, const lb_frontend& value) {
  if (auto* const former = find_former(key, value.service)) {
    *former = value;
    return {};
  }
  const auto before = entries_.find(key);
  if (const error_code error = write(key, value)) {
    return error;
  }
  if (before && before->service != value.service) {
    former_[key].push_back(*before);
  }
  return {};
}

error_code FrontendTable::write(const lb_frontend_key& key, const lb_frontend& value) {
  const auto before = entries_.find(key);
  if (before && maps::EqualBytes()(*before, value)) {
    return {};
  }
  if (!before) {
    count_node_port(key, 1);
  }
  if (const error_code error = entries_.put(key, value)) {
    if (!before) {
      count_node_port(key, -1);
    }
    return error;
  }
  if (before) {
    addresses_.count(key, before->kind, -1);
  }
  addresses_.count(key, value.kind, 1);
  return {};
}

error_code FrontendTable::remove(const lb_frontend_key& key, std::uint32_t service) {
  const auto before = entries_.find(key);
  if (!before || before->service != service) {
    forget_former(key, service);
    return {};
  }
  if (const auto former = former_.find(key); former != former_.end()) {
    const auto last = former->second.back();
    if (const error_code error = write(key, last)) {
      return error;
    }
    forget_former(key, last.service);
    return {};
  }
  if (const error_code error = entries_.erase(key)) {
    return error;
  }
  addresses_.count(key, before->kind, -1);
  count_node_port(key, -1);
  return {};
}

lb_frontend* FrontendTable::find_former(const lb_frontend_key& key, std::uint32_t service) {
  const auto former = former_.find(key);
  if (former == former_.end()) {
    return nullptr;
  }
  const auto found = std::ranges::find(former->second, service, &lb_frontend::service);
  return found == former->second.end() ? nullptr : &*found;
}

void FrontendTable::forget_former(const lb_frontend_key& key, std::uint32_t service) {
  const auto former = former_.find(key);
  if (former == former_.end()) {
    return;
  }
  std::erase_if(former->second, [&](const lb_frontend& each) { return each.service == service; });
  if (former->second.empty()) {
    former_.erase(former);
  }
}

/// A node port is reserved from source NAT before the frontend is served, and until it is removed.
void FrontendTable::count_node_port(const lb_frontend_key& key, int change) {
  if (is_node_port(key)) {
    ports_.count_node_port(key.port, change);
  }
}

}  // namespace lb::agent
