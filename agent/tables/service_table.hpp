// SPDX-License-Identifier: Apache-2.0
// The service ports that have a number, their names in lb_names, and the state of each in the maps.
#pragma once

#include <boost/unordered/unordered_flat_set.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "agent/plan/plan.hpp"
#include "agent/tables/id_reclaimer.hpp"
#include "agent/tables/service_state.hpp"
#include "maps/abi/abi.h"
#include "maps/hash.hpp"
#include "maps/map.hpp"

namespace lb::agent {

/// "namespace/name" from a service port's name.
[[nodiscard]] std::string service_of(const std::string& service_port);

class ServiceTable {
 public:
  /// A Service may have 10,000 service ports. A service port adopted without a name has an empty key.
  using Ports = std::multimap<ServicePortKey, std::unique_ptr<ServiceState>>;
  using Services = std::unordered_map<std::string, Ports, maps::HashText>;  ///< by "namespace/name"
  using States = boost::unordered_flat_set<const ServiceState*>;

  /// Both must outlive this.
  ServiceTable(maps::Table<std::uint32_t, lb_name>& names, IdReclaimer& reclaimer)
      : names_(names), reclaimer_(reclaimer) {}

  /// Allocates a number for a service port and writes its name. Returns nullptr if no number is free now.
  /// Errors: filename_too_long, or the map's; then the number is free again.
  [[nodiscard]] maps::result<ServiceState*> create(const ServicePortKey& key);
  /// Adds a service port that has a number already; an empty key if its name is unknown.
  ServiceState& add(const ServicePortKey& key, std::uint32_t number);
  /// Marks the name and the number as retired. Errors are the map's; then nothing is retired.
  [[nodiscard]] maps::error_code retire(const ServiceState& state);
  /// Whether lb_names takes a write: writes one of its entries again, unchanged. False if there is none yet.
  [[nodiscard]] bool takes_writes();
  /// Removes these service ports of one service from this table.
  void forget(const std::string& service, const States& states);

  /// The service ports of one service, sorted by key; may be empty.
  [[nodiscard]] const Ports& ports_of(const std::string& service) const;
  [[nodiscard]] bool contains(const ServicePortKey& key) const;
  [[nodiscard]] const Services& all() const noexcept { return services_; }
  /// Whether this agent could have allocated the number found in a map.
  [[nodiscard]] bool is_usable(std::uint32_t number) const {
    return number > 0 && number < reclaimer_.service_pool().limit();
  }

 private:
  maps::Table<std::uint32_t, lb_name>& names_;
  IdReclaimer& reclaimer_;
  Services services_;
};

}  // namespace lb::agent
