// SPDX-License-Identifier: Apache-2.0
// The Kubernetes API as a source of objects: runs one reflector for each resource, and tracks whether all of
// them have synced. No socket and no clock: connections, timers and time are injected (api_runtime.hpp has
// the real ones).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "k8s/client/transport.hpp"
#include "k8s/objects/peer_labels.hpp"
#include "k8s/objects/source.hpp"
#include "k8s/watch/reflector.hpp"

namespace lb::k8s {

/// The part of the API that is watched (SEM-1, 2, 17, 24).
struct ApiScope {
  std::string node;  ///< the own Node's name
  std::string
      service_proxy_name;      ///< only Services with this label value; empty: only those without the label
  std::string slice_selector;  ///< label selector that slices must match too; empty: all slices
  ApiEncoding encoding = ApiEncoding::protobuf;
  AllowedLabels topology_labels = {};  ///< Node labels that Services may use as topology keys; nullopt: all
};

/// A one-shot timer: calls its callback at or after a given time.
class Alarm {
 public:
  virtual ~Alarm() = default;
  /// Sets the timer; replaces the earlier time and callback.
  virtual void set(Time when, std::function<void()> ring) = 0;
};

/// Connections, timers and clock: the real ones or a test's.
struct ApiRuntime {
  std::function<std::unique_ptr<ApiConnection>()> connection;
  std::function<std::unique_ptr<Alarm>()> alarm;
  std::function<Time()> now;
  std::uint32_t seed = 0;  ///< seed of all jitter
};

/// Counters of one resource since the agent started.
struct ApiStats {
  std::string_view resource;   ///< "services"
  std::uint64_t lists = 0;     ///< completed lists
  std::uint64_t requests = 0;  ///< list pages and watches
  std::uint64_t failures = 0;  ///< requests that ended with an error
  std::uint64_t bytes = 0;     ///< body bytes after decompression
  std::uint64_t problems = 0;  ///< objects or fields that were rejected or skipped
  std::uint64_t objects = 0;   ///< objects known now
  Reflector::Counts stream;
  Time silence{0};  ///< time since the last byte arrived, or since the start
};

/// Reports to `sink` all objects of the API and every change, deletions first within one burst (REL-35).
/// Calls synced() when Services, EndpointSlices and the own Node have been listed completely, and on no other
/// event (SEM-69, REL-78). Known objects stay, whatever happens to the servers. Other Nodes are listed and
/// watched only while some Service has topology keys for their labels, and some minutes longer; only those
/// labels are reported. `sink` must outlive this.
class ApiSource final : public Source {
 public:
  /// Called with a log message for each failure of a server, with a rate limit.
  using Failure = std::function<void(std::string message)>;

  ApiSource(const ApiScope& scope, ApiRuntime runtime, Sink& sink, Failure failure, Timeouts timeouts = {});
  ~ApiSource() override;
  ApiSource(const ApiSource&) = delete;
  ApiSource& operator=(const ApiSource&) = delete;

  void start() override;
  [[nodiscard]] std::vector<ApiStats> stats() const;

 private:
  class ResourceWatcher;
  struct State;
  std::unique_ptr<State> state_;
};

/// The resources that ApiSource always watches, in this order: Services, EndpointSlices, the own Node,
/// ServiceCIDRs.
[[nodiscard]] std::vector<Resource> api_resources(const ApiScope& scope);
/// The additional resource while some Service has topology keys that slices do not have: the other Nodes.
[[nodiscard]] Resource peer_nodes(const ApiScope& scope);

}  // namespace lb::k8s
