// SPDX-License-Identifier: Apache-2.0
// The health-check node ports: one small server for each service, family and address (SEM-58, 62). The model
// computes their results; this opens and closes them.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/observe/health.hpp"
#include "agent/observe/http.hpp"
#include "agent/plan/health_check.hpp"
#include "k8s/objects/model.hpp"

namespace lb::agent {

/// 200 if an endpoint of the service is ready on this node and the maps are up to date, else 503.
[[nodiscard]] HttpResponse service_health(const HealthCheck& check, k8s::Family family, const Health& health,
                                          Moment now);

class ServiceHealth {
 public:
  using Open = std::function<boost::system::result<std::unique_ptr<HttpServer>>(const Listen&, HttpHandler)>;
  /// A port on which it cannot listen.
  struct Taken {
    const HealthCheck& check;
    std::string place;  ///< "10.0.0.10:30100"
    std::string why;    ///< the port, its address and the kernel's error
  };
  using Failed = std::function<void(const Taken& port)>;
  /// It listens on a port that was taken.
  using Opened = std::function<void(const HealthCheck& check, const std::string& place)>;

  /// `open` listens on a port; `failed` is called if it fails, or if `most` servers listen already. All
  /// references must outlive this.
  ServiceHealth(const Health& health, std::function<Moment()> clock, Open open, Failed failed, Opened opened,
                std::size_t most);

  /// Listens on the ports of `checks` at `addresses` (an unspecified address stands for all of its family),
  /// and closes all other servers. A failure is reported once, and retried by every call. Namespaces take
  /// turns, and one has at most three quarters.
  void serve(const HealthChecks& checks, const std::vector<k8s::Address>& addresses);
  [[nodiscard]] bool complete() const noexcept { return failed_.empty(); }
  /// Number of ports on which it cannot listen yet.
  [[nodiscard]] std::size_t waiting() const noexcept { return failed_.size(); }
  /// Their places.
  [[nodiscard]] std::set<std::string> waiting_places() const;

 private:
  struct Listening {
    std::string service;
    k8s::Address address;
    std::uint16_t port = 0;
    auto operator<=>(const Listening&) const = default;
  };

  [[nodiscard]] static std::string place_of(const Listening& at);
  [[nodiscard]] const std::string& name_space_of(const Listening& at) const;
  void open(const Listening& at, std::size_t& used);
  void fail(const Listening& at, const std::string& why);
  [[nodiscard]] HttpResponse answer(const Listening& at) const;

  const Health& health_;
  std::function<Moment()> clock_;
  Open open_;
  Failed report_;
  Opened opened_;
  std::size_t most_;  ///< servers
  HealthChecks checks_;
  std::vector<k8s::Address> addresses_;
  std::map<Listening, std::unique_ptr<HttpServer>> servers_;
  std::set<Listening> failed_;
};

}  // namespace lb::agent
