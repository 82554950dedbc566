// SPDX-License-Identifier: Apache-2.0
// Events about ports of the agent that another process holds. While kube-proxy runs beside it that is how a
// migration looks: an Event of type Normal; a Warning follows if it lasts, or comes at once without
// kube-proxy. When the agent listens at last, an Event says so. No clock, no I/O.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "agent/kube_proxy/presence.hpp"
#include "k8s/watch/events.hpp"

namespace lb::agent {

class PortEvents {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// How long a migration may take.
  static constexpr std::chrono::minutes patience{30};

  using Post = std::function<void(k8s::Event)>;
  /// Asks the kernel, which costs some milliseconds: called only if an Event depends on it.
  using Look = std::function<KubeProxy()>;
  PortEvents(Post post, Look look) : post_(std::move(post)), look_(std::move(look)) {}

  /// `event` reports that `port` is taken; its reason begins with "FailedToStart". Repeated calls change
  /// nothing.
  void taken(const std::string& port, const k8s::Event& event, Time now);
  /// The agent listens on the port.
  void listens(const std::string& port, const std::string& message);
  /// Forgets all other ports: nobody wants to listen on them any more.
  void forget_but(const std::set<std::string>& ports);

  /// Posts the Events that are due.
  void pass(Time now);

 private:
  enum class Posted : std::uint8_t { nothing, normal, warning };
  struct Waiting {
    k8s::Event event;
    Time since;
    Posted posted = Posted::nothing;
  };

  void post(Waiting& port, Posted as);

  Post post_;
  Look look_;
  std::map<std::string, Waiting> waiting_;
};

}  // namespace lb::agent
