// SPDX-License-Identifier: Apache-2.0
// The incremental model compared with planning from scratch: any sequence of changes must result in the same
// plans.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "agent/plan/cluster.hpp"
#include "cluster_record.hpp"
#include "random_objects.hpp"
#include "tests/lib/seed.hpp"

namespace lb::test {
namespace {

/// A small cluster whose objects change.
class World {
 public:
  explicit World(std::uint32_t seed) : draw_(seed) {}

  void change(agent::Cluster& cluster) {
    switch (draw_.below(8)) {
      case 0:
      case 1:
        return change_service(cluster);
      case 2:
        return change_node(cluster);
      default:
        return change_slice(cluster);
    }
  }

  /// Every service planned from scratch; frontends are assigned by comparing each pair of services.
  [[nodiscard]] std::map<std::string, std::vector<std::string>> oracle() const {
    std::map<std::string, std::vector<std::string>> all;
    for (const auto& [name, service] : services_) {
      for (auto plan : test::whole_plan(service, slices_of(name), node_, {})) {
        std::erase_if(plan.frontends,
                      [&](const auto& frontend) { return is_lost(service, plan.key, frontend); });
        for (auto& line : test::plan_lines(plan)) {
          all[service.key.text()].push_back(std::move(line));
        }
      }
    }
    return all;
  }

 private:
  void change_service(agent::Cluster& cluster) {
    const auto name = draw_.service_name();
    if (draw_.below(4) == 0) {
      services_.erase(name);
      return cluster.erase_service({"default", name});
    }
    const auto made = draw_.service_named(name);
    services_.insert_or_assign(name, made);
    cluster.upsert(made);
  }

  void change_slice(agent::Cluster& cluster) {
    const auto name = draw_.slice_name();
    if (draw_.below(6) == 0) {
      slices_.erase(name);
      return cluster.erase_slice({"default", name});
    }
    const auto made = draw_.slice_named(name);
    slices_.insert_or_assign(name, made);
    cluster.upsert(made);
  }

  void change_node(agent::Cluster& cluster) {
    const auto made = draw_.node();
    if (made.name == "this") {
      node_.labels = made.labels;
      node_.zone = made.labels.size() > 1 ? made.labels.back().second : "";
      node_.addresses = node_.primary = made.internal_ips;
    } else {
      node_.peers["peer"] = made.labels;
    }
    cluster.upsert(made);
  }

  [[nodiscard]] std::vector<k8s::EndpointSlice> slices_of(const std::string& service) const {
    std::vector<k8s::EndpointSlice> found;
    for (const auto& [name, made] : slices_) {
      if (made.service != service) {
        continue;
      }
      for (const auto& port : made.ports) {
        auto part = made;
        part.ports = {port};
        std::erase_if(part.endpoints,
                      [&](const auto& endpoint) { return is_service(service, endpoint, port); });
        found.push_back(std::move(part));
      }
    }
    return found;
  }

  /// Whether an endpoint's address is a service's, by comparing with each requested frontend. An endpoint
  /// that is neither ready nor serving is kept: if its address occurs twice, it may be the one that counts
  /// (SEM-4).
  [[nodiscard]] bool is_service(const std::string& service, const k8s::Endpoint& endpoint,
                                const k8s::EndpointPort& port) const {
    if (!endpoint.ready && !endpoint.serving) {
      return false;
    }
    for (const auto& [name, other] : services_) {
      for (const auto& derived : agent::spec(other, node_, {}).ports) {
        for (const auto& frontend : derived.plan.frontends) {
          if (frontend.address != endpoint.address) {
            continue;
          }
          if (frontend.kind == LB_CLUSTER_IP) {
            return true;
          }
          const bool same = frontend.port == port.port &&
                            static_cast<int>(derived.plan.key.protocol) == static_cast<int>(port.protocol);
          if (same && name == service && endpoint.node_name.empty()) {
            return true;
          }
        }
      }
    }
    return false;
  }

  [[nodiscard]] bool is_lost(const k8s::Service& mine, const agent::ServicePortKey& key,
                             const agent::FrontendPlan& frontend) const {
    const auto rank = [](const k8s::Service& service, const agent::ServicePortKey& port, lb_kind kind) {
      const int order = kind == LB_CLUSTER_IP      ? 0
                        : kind == LB_LOAD_BALANCER ? 1
                        : kind == LB_EXTERNAL_IP   ? 2
                                                   : 3;
      return std::tuple(order, service.created == 0 ? INT64_MAX : service.created, service.key.name,
                        port.name);
    };
    for (const auto& [name, other] : services_) {
      for (const auto& port : agent::spec(other, node_, {}).ports) {
        for (const auto& rival : port.plan.frontends) {
          const bool same = rival.address == frontend.address && rival.port == frontend.port &&
                            port.plan.key.protocol == key.protocol;
          if (same && rank(other, port.plan.key, rival.kind) < rank(mine, key, frontend.kind)) {
            return true;
          }
        }
      }
    }
    return false;
  }

  RandomObjects draw_;
  std::map<std::string, k8s::Service> services_;
  std::map<std::string, k8s::EndpointSlice> slices_;
  agent::NodeView node_ = [] {
    agent::NodeView view;
    view.name = "this";
    return view;
  }();
};

using Lines = std::map<std::string, std::vector<std::string>>;

std::string only_in(const Lines& some, const Lines& others) {
  std::string text;
  for (const auto& [service, lines] : some) {
    const auto other = others.find(service);
    for (const auto& line : lines) {
      if (other == others.end() || std::ranges::find(other->second, line) == other->second.end()) {
        text += "\n  " + line;
      }
    }
  }
  return text;
}

TEST_CASE("after any sequence of changes the plans are those of a clean start") {
  const auto seed = test::seed();
  for (std::uint32_t run = 0; run < 60; ++run) {
    CAPTURE(seed, run);
    World world(seed + run);
    Record record;
    agent::Cluster cluster("this", {}, record, {});
    cluster.synced();
    for (int step = 0; step < 60; ++step) {
      CAPTURE(step);
      for (int burst = step % 3; burst >= 0; --burst) {
        world.change(cluster);
      }
      cluster.flush();
      const auto reported = record.lines_by_service();
      const auto wanted = world.oracle();
      INFO("reported alone:" << only_in(reported, wanted) << "\nwanted alone:" << only_in(wanted, reported));
      REQUIRE(reported == wanted);
    }
    REQUIRE(record.empty_changes == 0);
  }
}

TEST_CASE("the same where all is planned by turns of next to no work, and changes come between them") {
  const auto seed = test::seed();
  for (std::uint32_t run = 0; run < 60; ++run) {
    CAPTURE(seed, run);
    World world(seed + run);
    std::mt19937 random(seed + run);
    Record record;
    agent::Cluster cluster("this", {}, record, {});
    int asked = 0;
    int most_asked = 0;
    cluster.take_turns([&] { most_asked = std::max(most_asked, ++asked); }, {.service = 2, .turn = 3});
    cluster.synced();
    for (int step = 0; step < 60; ++step) {
      CAPTURE(step);
      for (int burst = step % 3; burst >= 0; --burst) {
        world.change(cluster);
      }
      cluster.flush();
      for (auto turns = random() % 4; turns > 0 && asked > 0; --turns) {
        asked = 0;
        cluster.take_turn();
      }
      if (random() % 4 > 0) {
        continue;
      }
      for (int turn = 0; asked > 0; ++turn) {
        REQUIRE(turn < 1000);
        asked = 0;
        cluster.take_turn();
      }
      const auto reported = record.lines_by_service();
      const auto wanted = world.oracle();
      INFO("reported alone:" << only_in(reported, wanted) << "\nwanted alone:" << only_in(wanted, reported));
      REQUIRE(reported == wanted);
    }
    REQUIRE(most_asked == 1);
  }
}

}  // namespace
}  // namespace lb::test
