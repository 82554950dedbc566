// The Kubernetes API as a source of objects: one reflector for each resource, and whether all of them have
// synced. No socket and no clock: connections, timers and time are injected (api_runtime.hpp has the real
// ones).
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

/// Which part of the API is watched (SEM-1, 2, 17, 24).
struct ApiScope {
  std::string node;  ///< the own Node's name
  std::string
      service_proxy_name;      ///< only Services with this label value; empty: only those without the label
  std::string slice_selector;  ///< label selector that slices must match too; empty: all
  ApiEncoding encoding = ApiEncoding::protobuf;
  AllowedLabels topology_labels = {};  ///< what Services may ask of other Nodes; nothing: anything
};

/// Calls once, at or after a time.
class Alarm {
 public:
  virtual ~Alarm() = default;
  /// In place of what was set before.
  virtual void set(Time when, std::function<void()> ring) = 0;
};

/// What the world is made of: real, or a test's.
struct ApiRuntime {
  std::function<std::unique_ptr<ApiConnection>()> connection;
  std::function<std::unique_ptr<Alarm>()> alarm;
  std::function<Time()> now;
  std::uint32_t seed = 0;  ///< of all jitter
};

/// Of one resource, since the start.
struct ApiStats {
  std::string_view resource;   ///< "services"
  std::uint64_t lists = 0;     ///< that came to their end
  std::uint64_t requests = 0;  ///< lists' pieces and watches
  std::uint64_t failures = 0;  ///< requests that did not come to a good end
  std::uint64_t bytes = 0;     ///< of bodies, decompressed
  std::uint64_t problems = 0;  ///< what was refused or skipped in objects
  std::uint64_t objects = 0;   ///< known now
  Reflector::Counts stream;
  Time silence{0};  ///< since something came, or since the start
};

/// Reports to `sink` what the API holds and every change, deletions first within what comes together
/// (REL-35); synced() when Services, EndpointSlices and the own Node have been listed as a whole, and by
/// nothing else (SEM-69, REL-78). What is known stays, whatever happens to the servers. Other Nodes are
/// listed and watched for as long as some Service asks for their labels, and only those labels are reported.
/// `sink` must outlive this.
class ApiSource final : public Source {
 public:
  /// What goes wrong with servers, a sentence each and not too often: for the log.
  using Failure = std::function<void(std::string sentence)>;

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

/// What ApiSource always asks for, in this order: Services, EndpointSlices, the own Node, ServiceCIDRs.
[[nodiscard]] std::vector<Resource> api_resources(const ApiScope& scope);
/// What it asks for beside them while some Service has topology keys that slices do not have.
[[nodiscard]] Resource peer_nodes(const ApiScope& scope);

}  // namespace lb::k8s
