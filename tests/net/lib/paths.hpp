// SPDX-License-Identifier: Apache-2.0
// The paths of packets through the node of a PodScene: which client, which backend, and which address of a
// service. For the coexistence tests.
#pragma once

#include <cstdint>
#include <string>

#include "tests/net/lib/pod_scene.hpp"

namespace lb::test {

/// The client and the server of a path, and the backend's address.
struct Leg {
  const char* name;
  Host PodScene::* from;
  Host PodScene::* to;
  std::string PodNames::* backend;
};

inline constexpr Leg outside_here{"outside to a pod here", &PodScene::outside, &PodScene::server,
                                  &PodNames::server};
inline constexpr Leg outside_elsewhere{"outside to a pod elsewhere", &PodScene::outside, &PodScene::remote,
                                       &PodNames::remote_pod};
inline constexpr Leg pod_here{"pod to a pod here", &PodScene::client, &PodScene::server, &PodNames::server};
inline constexpr Leg pod_elsewhere{"pod to a pod elsewhere", &PodScene::client, &PodScene::remote,
                                   &PodNames::remote_pod};
inline constexpr Leg pod_to_node{"pod to another node", &PodScene::client, &PodScene::remote,
                                 &PodNames::remote};
inline constexpr Leg pod_to_itself{"pod to itself", &PodScene::client, &PodScene::client, &PodNames::client};

/// The address through which a client reaches a service.
struct At {
  const char* name;
  std::string PodNames::* address;
  lb_kind kind;
};

inline constexpr At load_balancer{"a load balancer", &PodNames::vip, LB_LOAD_BALANCER};
inline constexpr At cluster_ip{"a ClusterIP", &PodNames::service, LB_CLUSTER_IP};
inline constexpr At node_port{"a node port", &PodNames::node, LB_NODE_PORT};
inline constexpr At other_node_port{"a node port of another device's address", &PodNames::second,
                                    LB_NODE_PORT};

/// Makes `backend` the only backend of service `number` and adds a frontend at `at`; returns the frontend.
End offer(Writer& writer, std::uint32_t number, const At& at, const PodNames& known, const End& backend,
          lb_protocol protocol);

/// nft tables like a CNI's: packets from pods that leave the cluster get the node's address as source.
[[nodiscard]] std::string masquerade_rules();

}  // namespace lb::test
