// SPDX-License-Identifier: Apache-2.0
// Endpoints of this node that are reached by an uplink: in their sets as before, but packets reach
// them as on another node (SEM-141).
#include "agent/plan/local_routes.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agent/plan/cluster.hpp"
#include "build.hpp"
#include "cluster_record.hpp"

namespace lb::test {
namespace {

using Texts = std::vector<std::string>;

/// The routes of a node.
class Routes final : public agent::LocalRoutes {
 public:
  agent::ReachedBy ask(std::string_view /*service*/, const k8s::Address& asked) override {
    asked_.insert(asked.text());
    return by_uplink.contains(asked.text()) ? agent::ReachedBy::uplink : agent::ReachedBy::device;
  }
  [[nodiscard]] std::uint64_t lookups() const noexcept override { return 0; }
  [[nodiscard]] Texts take_asked() {
    Texts texts(asked_.begin(), asked_.end());
    asked_.clear();
    return texts;
  }

  std::set<std::string> by_uplink;

 private:
  std::set<std::string> asked_;
};

struct Bed {
  Record record;
  Texts complaints;
  Texts events;
  Routes routes;
  agent::Cluster cluster{"this", {}, record, [this](const k8s::Complaint& complaint) {
                           complaints.push_back(complaint.reason);
                           events.push_back(complaint.event);
                         }};

  Bed() { cluster.ask_routes(routes); }

  /// "10.1.0.1 here cluster local": locality and sets of each backend.
  [[nodiscard]] Texts backends() const {
    Texts texts;
    for (const auto& [service, ports] : record.services) {
      for (const auto& backend : ports.front()->backends) {
        auto text = backend.address.text();
        if (backend.locality == LB_SAME_NODE) {
          text += " here";
        }
        if (backend.locality == LB_SAME_NODE_BY_UPLINK) {
          text += " by-uplink";
        }
        if (backend.locality == LB_SAME_ZONE) {
          text += " zone";
        }
        if (backend.in_cluster) {
          text += " cluster";
        }
        if (backend.in_local) {
          text += " local";
        }
        texts.push_back(text);
      }
    }
    return texts;
  }
};

k8s::Service with_policy(k8s::TrafficPolicy external) {
  auto made = service();
  made.type = k8s::ServiceType::node_port;
  made.ports = {{"", k8s::Protocol::tcp, 80, 30080}};
  made.external_policy = external;
  return made;
}

}  // namespace

TEST_CASE("SEM-141: sets do not change, and only endpoints of this node are asked about") {
  Bed bed;
  bed.routes.by_uplink = {"10.1.0.1", "10.1.0.3"};
  bed.cluster.upsert(with_policy(k8s::TrafficPolicy::local));
  bed.cluster.upsert(slice("a", {"10.1.0.1 node=this zone=zone-a", "10.1.0.2 node=this", "10.1.0.3 node=peer",
                                 "10.1.0.4", "10.1.0.5 node=this unready unserving"}));
  bed.cluster.synced();
  CHECK(bed.backends() == Texts{"10.1.0.1 by-uplink cluster local", "10.1.0.2 here cluster local",
                                "10.1.0.3 cluster", "10.1.0.4 cluster"});
  CHECK(bed.routes.take_asked() == Texts{"10.1.0.1", "10.1.0.2"});
}

TEST_CASE("SEM-141: endpoints are planned again when their route changes, there and back") {
  Bed bed;
  bed.cluster.upsert(service());
  bed.cluster.upsert(slice("a", {"10.1.0.1 node=this", "10.1.0.2 node=this"}));
  bed.cluster.upsert(slice("b", {"10.1.1.1 node=this"}));
  bed.cluster.synced();
  const Texts before = {"10.1.0.1 here cluster", "10.1.0.2 here cluster", "10.1.1.1 here cluster"};
  CHECK(bed.backends() == before);
  static_cast<void>(bed.routes.take_asked());

  bed.routes.by_uplink = {"10.1.0.2"};
  bed.cluster.routes_changed({address("10.1.0.2"), address("10.9.0.1")});
  bed.cluster.flush();
  CHECK(bed.backends() ==
        Texts{"10.1.0.1 here cluster", "10.1.0.2 by-uplink cluster", "10.1.1.1 here cluster"});
  CHECK(bed.routes.take_asked() == Texts{"10.1.0.1", "10.1.0.2"});  // no other slice is read again

  bed.routes.by_uplink.clear();
  bed.cluster.routes_changed({address("10.1.0.2")});
  bed.cluster.flush();
  CHECK(bed.backends() == before);

  bed.routes.by_uplink = {"10.1.0.1"};  // together with a change of the slice
  bed.cluster.upsert(slice("a", {"10.1.0.1 node=this", "10.1.0.3 node=this"}));
  bed.cluster.routes_changed({address("10.1.0.1")});
  bed.cluster.flush();
  CHECK(bed.backends() ==
        Texts{"10.1.0.1 by-uplink cluster", "10.1.0.3 here cluster", "10.1.1.1 here cluster"});

  bed.routes.by_uplink = {"10.1.1.1"};
  bed.cluster.routes_forgotten();
  bed.cluster.flush();
  CHECK(bed.backends() ==
        Texts{"10.1.0.1 here cluster", "10.1.0.3 here cluster", "10.1.1.1 by-uplink cluster"});
  CHECK(bed.record.empty_changes == 0);
}

TEST_CASE("SEM-141: the owner of a Service with the policy Local is told, once") {
  Bed bed;
  bed.routes.by_uplink = {"10.1.0.1"};
  bed.cluster.upsert(with_policy(k8s::TrafficPolicy::cluster));
  bed.cluster.upsert(slice("a", {"10.1.0.1 node=this", "10.1.0.2 node=this"}));
  bed.cluster.synced();
  CHECK(bed.complaints.empty());
  CHECK(bed.cluster.complaining(agent::client_address_lost).empty());

  bed.cluster.upsert(with_policy(k8s::TrafficPolicy::local));
  bed.cluster.flush();
  REQUIRE(bed.complaints.size() == 1);
  CHECK(bed.complaints.front().find("the route to backend 10.1.0.1 leaves by an uplink") !=
        std::string::npos);
  CHECK(bed.events == Texts{"ClientAddressNotKept"});
  CHECK(bed.cluster.complaining(agent::client_address_lost) == Texts{"default/web"});

  bed.cluster.upsert(slice("a", {"10.1.0.1 node=this", "10.1.0.3 node=this"}));
  bed.cluster.flush();
  CHECK(bed.complaints.size() == 1);

  bed.routes.by_uplink.clear();
  bed.cluster.routes_changed({address("10.1.0.1")});
  bed.cluster.flush();
  CHECK(bed.cluster.complaining(agent::client_address_lost).empty());
}

}  // namespace lb::test
