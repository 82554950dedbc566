// SPDX-License-Identifier: Apache-2.0
// The paths of the two servers, and their responses. No I/O.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "agent/observe/health.hpp"
#include "agent/observe/http.hpp"
#include "agent/observe/metrics.hpp"

namespace lb::agent {

/// Pages whose content depends only on the options.
struct FixedPages {
  std::string configz;
  std::map<std::string, std::string> flags;  ///< by flag name, without dashes
};

class Pages {
 public:
  /// `snapshot` reads the maps at the time of a scrape. All references must outlive this.
  Pages(const Health& health, Metrics& metrics, std::function<Moment()> clock,
        std::function<Snapshot()> snapshot, FixedPages fixed);

  /// Call when the options have changed.
  void show(FixedPages fixed) { fixed_ = std::move(fixed); }
  /// /healthz and /livez, for probes from anywhere (SEM-59, 60).
  [[nodiscard]] HttpResponse health(const HttpRequest& request);
  /// /metrics, /metrics/slis, /proxyMode, /configz, /flagz, /statusz and the probes, for this node (SEM-61).
  [[nodiscard]] HttpResponse metrics(const HttpRequest& request);

 private:
  /// Numbers of responses of one probe since the agent started.
  struct Answers {
    std::uint64_t good = 0;
    std::uint64_t bad = 0;
  };

  [[nodiscard]] HttpResponse probe(Probe probe);
  [[nodiscard]] HttpResponse verdict(Probe probe) const;
  [[nodiscard]] std::string slis() const;
  [[nodiscard]] std::string flagz() const;
  [[nodiscard]] std::string statusz() const;

  const Health& health_;
  Metrics& metrics_;
  std::function<Moment()> clock_;
  std::function<Snapshot()> snapshot_;
  FixedPages fixed_;
  Moment started_;
  std::array<Answers, 2> answers_;  ///< by Probe
};

}  // namespace lb::agent
