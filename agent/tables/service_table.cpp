// SPDX-License-Identifier: Apache-2.0
// Service ports, their numbers and their names.
#include "agent/tables/service_table.hpp"

#include <cstring>
#include <optional>

namespace lb::agent {

using maps::error_code;

namespace {

/// Returns nullopt if the name does not fit.
std::optional<lb_name> name_of(const ServicePortKey& key, lb_bool retired) {
  lb_name name{};
  if (key.name.size() >= sizeof(name.service)) {
    return std::nullopt;
  }
  std::memcpy(static_cast<void*>(name.service), key.name.data(), key.name.size());
  name.protocol = key.protocol;
  name.family = key.family;
  name.retired = retired;
  return name;
}

}  // namespace

std::string service_of(const std::string& service_port) {
  return service_port.substr(0, service_port.find(':'));
}

// The name is written first: if the agent is killed later, the next one can identify the number.
maps::result<ServiceState*> ServiceTable::create(const ServicePortKey& key) {
  const auto name = name_of(key, LB_NO);
  if (!name) {
    return make_error_code(boost::system::errc::filename_too_long);
  }
  const auto number = reclaimer_.service();
  if (!number) {
    return nullptr;
  }
  if (const error_code error = names_.put(*number, *name, maps::Put::any)) {
    reclaimer_.cancel_service(*number);
    return error;
  }
  return &add(key, *number);
}

ServiceState& ServiceTable::add(const ServicePortKey& key, std::uint32_t number) {
  auto& state = *services_[service_of(key.name)].emplace(key, std::make_unique<ServiceState>())->second;
  state.key = key;
  state.number = number;
  return state;
}

error_code ServiceTable::retire(const ServiceState& state) {
  if (const auto name = name_of(state.key, LB_YES)) {
    if (const error_code error = names_.put(state.number, *name, maps::Put::any)) {
      return error;
    }
  }
  reclaimer_.retire_service(state.number);
  return {};
}

/// Skips ports that were adopted without a valid name.
bool ServiceTable::takes_writes() {
  for (const auto& [service, ports] : services_) {
    for (const auto& [key, state] : ports) {
      const auto name = name_of(key, LB_NO);
      if (!name || key.name.empty() || !is_usable(state->number)) {
        continue;
      }
      return !names_.put(state->number, *name, maps::Put::any);
    }
  }
  return false;
}

void ServiceTable::forget(const std::string& service, const States& states) {
  const auto found = services_.find(service);
  if (found == services_.end() || states.empty()) {
    return;
  }
  std::erase_if(found->second, [&](const auto& port) { return states.contains(port.second.get()); });
  if (found->second.empty()) {
    services_.erase(found);
  }
}

const ServiceTable::Ports& ServiceTable::ports_of(const std::string& service) const {
  static const Ports none;
  const auto found = services_.find(service);
  return found == services_.end() ? none : found->second;
}

bool ServiceTable::contains(const ServicePortKey& key) const {
  return ports_of(service_of(key.name)).contains(key);
}

}  // namespace lb::agent
