// SPDX-License-Identifier: Apache-2.0
// Events about ports that another process holds (SEM-150).
#include "agent/run/port_events.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

namespace {

using namespace lb::agent;
using lb::k8s::Event;
using lb::k8s::EventSeverity;
using std::chrono::minutes;
using std::chrono::seconds;

const PortEvents::Time start{};
const Event taken{
    {"", "node-a"}, "FailedToStartProxierHealthcheck", "cannot listen", lb::k8s::EventSubject::node};

struct Lab {
  KubeProxy kube_proxy = KubeProxy::present;
  int looks = 0;
  std::vector<std::string> posted;
  PortEvents events{[this](const Event& event) {
                      posted.push_back((event.severity == EventSeverity::normal ? "Normal " : "Warning ") +
                                       event.reason + ": " + event.message);
                    },
                    [this] {
                      ++looks;
                      return kube_proxy;
                    }};
};

}  // namespace

TEST_CASE("SEM-150: while kube-proxy is here a port that is taken is normal, and its end is told") {
  Lab lab;
  lab.events.taken("health", taken, start);
  lab.events.pass(start);
  REQUIRE(lab.posted.size() == 1);
  CHECK(lab.posted[0].starts_with(
      "Normal FailedToStartProxierHealthcheck: cannot listen; kube-proxy's rules are on this node"));
  for (int second = 1; second < 60; ++second) {
    lab.events.taken("health", taken, start + seconds(second));
    lab.events.pass(start + seconds(second));
  }
  CHECK(lab.posted.size() == 1);
  CHECK(lab.looks == 1);
  lab.events.listens("health", "listens now");
  lab.events.listens("health", "listens now");
  lab.events.pass(start + PortEvents::patience);
  REQUIRE(lab.posted.size() == 2);
  CHECK(lab.posted[1] == "Normal StartedProxierHealthcheck: listens now");
}

TEST_CASE("SEM-150: what lasts is a Warning, once") {
  Lab lab;
  lab.events.taken("health", taken, start);
  lab.events.pass(start);
  lab.events.pass(start + PortEvents::patience - seconds(1));
  CHECK(lab.posted.size() == 1);
  lab.events.pass(start + PortEvents::patience);
  lab.events.pass(start + PortEvents::patience + minutes(60));
  REQUIRE(lab.posted.size() == 2);
  CHECK(lab.posted[1] ==
        "Warning FailedToStartProxierHealthcheck: cannot listen; it is tried again each second");
}

TEST_CASE("SEM-150: without kube-proxy it is a Warning at once") {
  Lab lab;
  lab.kube_proxy = KubeProxy::absent;
  lab.events.taken("health", taken, start);
  lab.events.pass(start);
  REQUIRE(lab.posted.size() == 1);
  CHECK(lab.posted[0].starts_with("Warning FailedToStartProxierHealthcheck: "));
}

TEST_CASE(
    "SEM-150: nothing is told of a port that was free before anybody heard of it, or that nobody wants any "
    "more") {
  Lab lab;
  lab.events.taken("health", taken, start);
  lab.events.listens("health", "listens now");
  lab.events.taken("10.0.0.10:30100", taken, start);
  lab.events.forget_but({"health"});
  lab.events.pass(start + PortEvents::patience);
  CHECK(lab.posted.empty());
}
