// Which path of the two servers shows what. No I/O.
#pragma once

#include <functional>
#include <string>

#include "agent/health.hpp"
#include "agent/http.hpp"
#include "agent/metrics.hpp"

namespace lb::agent {

class Pages {
 public:
  /// `snapshot` reads the maps as they are at a scrape, `configuration` is what /configz shows. All
  /// references must outlive this.
  Pages(const Health& health, Metrics& metrics, std::function<Moment()> clock,
        std::function<Snapshot()> snapshot, std::string configuration);

  /// /healthz and /livez, for probes from anywhere (SEM-59, 60).
  [[nodiscard]] HttpResponse health(const HttpRequest& request);
  /// /metrics, /proxyMode, /configz and the probes, for this node (SEM-61).
  [[nodiscard]] HttpResponse metrics(const HttpRequest& request);

 private:
  const Health& health_;
  Metrics& metrics_;
  std::function<Moment()> clock_;
  std::function<Snapshot()> snapshot_;
  std::string configuration_;
};

}  // namespace lb::agent
