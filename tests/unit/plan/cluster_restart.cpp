// SPDX-License-Identifier: Apache-2.0
// The plans after any sequence of changes are those of an agent that starts then: with tables of consistent
// selection that do not suffice, labels that become known and unknown, addresses of devices and API servers,
// and objects that need several turns.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/plan/cluster.hpp"
#include "cluster_record.hpp"
#include "random_objects.hpp"
#include "tests/lib/seed.hpp"

namespace lb::test {
namespace {

const k8s::LabelKeys all_labels = {"topology.kubernetes.io/region"};

/// All that a Cluster is told, and one that has been told it.
class World {
 public:
  explicit World(std::uint32_t seed) : draw_(seed) {
    options_.max_frontends = 8 + draw_.below(60);
    options_.consistent_tables = draw_.below(5);
    cluster_ = std::make_unique<agent::Cluster>("this", options_, record_, agent::Cluster::Complain{});
    const agent::TurnLimits limits{1 + draw_.below(30), 1 + draw_.below(30), 1 + draw_.below(3)};
    cluster_->take_turns([this] { is_asked_ = true; }, limits);
  }

  void sync() { cluster_->synced(); }

  void change() {
    switch (draw_.below(12)) {
      case 0:
      case 1:
      case 2:
        return change_service();
      case 3:
        return change_node();
      case 4:
        return change_addresses();
      default:
        return change_slice();
    }
  }

  /// Takes some turns, seldom all that are asked for.
  void work() {
    cluster_->flush();
    for (auto turns = draw_.below(6); turns > 0 && is_asked_; --turns) {
      take_turn();
    }
  }

  void finish() {
    if (known_ != all_labels) {
      know(all_labels);
    }
    cluster_->flush();
    for (int turn = 0; is_asked_; ++turn) {
      REQUIRE(turn < 100'000);
      take_turn();
    }
  }

  void check() const {
    Record record;
    agent::Cluster fresh("this", options_, record, {});
    tell(fresh);
    fresh.synced();
    CHECK(record_.lines_by_service() == record.lines_by_service());
    CHECK(plans_of(*cluster_) == plans_of(fresh));
    CHECK(cluster_->health_checks() == fresh.health_checks());
    const auto mine = cluster_->counts(), wanted = fresh.counts();
    CHECK(mine.services == wanted.services);
    CHECK(mine.slices == wanted.slices);
    CHECK(mine.endpoints == wanted.endpoints);
    CHECK(mine.waiting == wanted.waiting);
    CHECK(mine.lost_frontends == wanted.lost_frontends);
    CHECK(mine.no_local.internal == wanted.no_local.internal);
    CHECK(mine.no_local.external == wanted.no_local.external);
  }

 private:
  using Plans = std::map<std::string, std::vector<agent::ServicePortPlan>>;

  void take_turn() {
    is_asked_ = false;
    cluster_->take_turn();
  }

  template <class Object>
  void put(std::map<std::string, Object>& known, const std::string& name, Object made) {
    known.insert_or_assign(name, made);
    cluster_->upsert(std::move(made));
  }

  void change_service() {
    const auto name = draw_.service_name();
    if (draw_.below(3) == 0) {
      services_.erase(name);
      return cluster_->erase_service({"default", name});
    }
    auto made = draw_.service_named(name);
    if (draw_.below(2) == 0) {
      made.selection = k8s::Selection::consistent;
    }
    if (draw_.below(2) == 0) {
      made.type = k8s::ServiceType::load_balancer;
      made.health_check_node_port = 31000;
    }
    for (auto left = draw_.below(3) == 0 ? draw_.below(80) : 0; left > 0; --left) {
      made.external_ips.push_back(address("192.0.2." + std::to_string(draw_.below(12))));
      made.external_ips.push_back(address("198.51.100." + std::to_string(left)));
    }
    put(services_, name, std::move(made));
  }

  void change_slice() {
    const auto name = draw_.slice_name();
    if (draw_.below(4) == 0) {
      slices_.erase(name);
      return cluster_->erase_slice({"default", name});
    }
    put(slices_, name, draw_.slice_named(name));
  }

  void change_node() {
    if (draw_.below(4) == 0) {
      return know(draw_.below(2) == 0 ? all_labels : k8s::LabelKeys{});
    }
    if (draw_.below(4) == 0) {
      nodes_.erase("peer");
      return cluster_->erase_node("peer");
    }
    auto made = draw_.node();
    const auto name = made.name;
    put(nodes_, name, std::move(made));
  }

  /// A source reports its Nodes again where other labels are needed.
  void know(const k8s::LabelKeys& keys) {
    known_ = keys;
    cluster_->labels_known(keys);
    for (const auto& [name, node] : nodes_) {
      cluster_->upsert(node);
    }
  }

  void change_addresses() {
    const auto some = [this](const std::string& block) {
      return address(block + std::to_string(draw_.below(3)));
    };
    if (draw_.below(2) == 0) {
      devices_ = {some("192.0.2."), some("10.96.0.")};
      cluster_->set_addresses(devices_);
    } else {
      api_servers_ = {{some("192.0.2."), 80}};
      cluster_->set_api_servers(api_servers_);
    }
  }

  void tell(agent::Cluster& other) const {
    other.labels_known(known_);
    for (const auto& [name, service] : services_) {
      other.upsert(service);
    }
    for (const auto& [name, slice] : slices_) {
      other.upsert(slice);
    }
    for (const auto& [name, node] : nodes_) {
      other.upsert(node);
    }
    other.set_addresses(devices_);
    other.set_api_servers(api_servers_);
  }

  static Plans plans_of(const agent::Cluster& cluster) {
    Plans plans;
    for (auto next = cluster.plans_after(""); next; next = cluster.plans_after(next->service)) {
      for (const auto& port : next->ports) {
        plans[next->service].push_back(*port);
      }
    }
    return plans;
  }

  RandomObjects draw_;
  agent::PlanOptions options_;
  Record record_;
  std::unique_ptr<agent::Cluster> cluster_;
  bool is_asked_ = false;
  std::map<std::string, k8s::Service> services_;
  std::map<std::string, k8s::EndpointSlice> slices_;
  std::map<std::string, k8s::Node> nodes_;
  std::vector<k8s::Address> devices_;
  std::vector<agent::ListeningAddress> api_servers_;
  k8s::LabelKeys known_;
};

}  // namespace

TEST_CASE(
    "REL-93: after any sequence of changes, in any turns, the plans are those of an agent that starts then") {
  const auto seed = test::seed();
  for (std::uint32_t run = 0; run < 60; ++run) {
    CAPTURE(seed, run);
    World world(seed + run);
    for (auto before = run % 20; before > 0; --before) {
      world.change();
    }
    world.sync();
    for (std::uint32_t step = 0; step < 60; ++step) {
      CAPTURE(step);
      for (auto burst = step % 3; burst > 0; --burst) {
        world.change();
      }
      world.work();
      if (step % 7 != 6) {
        continue;
      }
      world.finish();
      world.check();
    }
  }
}

}  // namespace lb::test
