// SPDX-License-Identifier: Apache-2.0
// Between the source and the model: counts objects, records pending changes for the probes, and keeps the
// ServiceCIDRs.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/observe/health.hpp"
#include "agent/observe/metrics.hpp"
#include "agent/run/api_server_cache.hpp"
#include "k8s/objects/source.hpp"

namespace lb::agent {

class Intake final : public k8s::Sink {
 public:
  /// `in_sync` is called after each end of a burst, when the model has passed all its results on. All
  /// references must outlive this.
  Intake(k8s::Sink& model, std::string node, Metrics& metrics, Health& health, std::function<Moment()> clock,
         std::function<void()> in_sync);

  /// Also passes the API servers' slices to `memory`, which must outlive this.
  void cache_api_servers_in(ApiServerCache& memory) noexcept { api_server_cache_ = &memory; }

  void arrived() override;
  void upsert(k8s::Service service) override;
  void upsert(k8s::EndpointSlice slice) override;
  void upsert(k8s::Node node) override;
  void upsert(k8s::ServiceCidr cidr) override;
  void erase_service(const k8s::ObjectKey& key) override;
  void erase_slice(const k8s::ObjectKey& key) override;
  void erase_node(const std::string& name) override;
  void erase_service_cidr(const std::string& name) override;
  void complain(k8s::Complaint complaint) override;
  void labels_known(const k8s::LabelKeys& keys) override;
  void flush() override;
  void synced() override;

  /// Time of the first change of the burst under way; nullopt outside of a burst.
  [[nodiscard]] std::optional<Moment> burst() const noexcept { return burst_; }
  /// Whether the source has reported all its objects.
  [[nodiscard]] bool listed() const noexcept { return listed_; }
  /// Whether the source has reported all its objects, and the own Node is not among them.
  [[nodiscard]] bool own_node_is_missing() const noexcept { return listed_ && !own_node_; }
  /// Whether the source has reported any Node.
  [[nodiscard]] bool any_node() const noexcept { return any_node_; }
  /// The ranges of ClusterIPs, if the source reports ServiceCIDRs; sorted. Deleted ServiceCIDRs are not
  /// included.
  [[nodiscard]] std::vector<k8s::Prefix> cluster_ip_ranges() const;

 private:
  void note(Subject what);
  [[nodiscard]] Moment queue();
  void finish_burst();

  k8s::Sink& model_;
  ApiServerCache* api_server_cache_ = nullptr;
  std::string node_;
  std::map<std::string, std::vector<k8s::Prefix>> service_cidrs_;  ///< by name
  Metrics& metrics_;
  Health& health_;
  std::function<Moment()> clock_;
  std::function<void()> in_sync_;
  bool listed_ = false;    ///< the source's first lists are complete
  bool own_node_ = false;  ///< the own Node exists
  bool any_node_ = false;  ///< any Node has been reported
  std::optional<Moment> arrived_;
  std::optional<Moment> burst_;
};

}  // namespace lb::agent
