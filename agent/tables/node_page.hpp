// SPDX-License-Identifier: Apache-2.0
// The only element of lb_node: facts about the node that all programs need, and the agent's part of `status`.
// The running agent is its only writer.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "k8s/objects/model.hpp"
#include "maps/abi/abi.h"
#include "maps/mapped.hpp"

namespace lb::agent {

class NodePage {
 public:
  explicit NodePage(maps::MappedArray<lb_node> array) : array_(std::move(array)) {}

  [[nodiscard]] lb_node read() const { return array_.load(0); }

  /// The pins that existed when the page was created.
  enum class Before : std::uint8_t { nothing, other_layout };

  /// Marks the page with this version's layout, and creates the secret if there is none; an existing secret
  /// is kept, so that flows find their ports and backends again. `cluster_secret` is shared by all nodes of
  /// the cluster; if it is empty, each node selects by its own secret, and consistent selection uses a public
  /// key. If flows of another layout were lost, programs are told so for a while (lb_tables_lost).
  void begin(std::string_view node_name, std::uint32_t hertz, std::string_view cluster_secret, Before before);
  /// Copies the secret of another page, if this one has none. Call before begin().
  void inherit(const std::array<std::uint64_t, 2>& secret);
  /// Sets how clients are distinguished, and which packets are dropped to protect them, in one store.
  void set_node_policy(const lb_node_policy& policy);
  /// Records that an agent manages this node now: see --orphaned-after.
  void set_heartbeat();
  void set_zone(std::string_view zone);
  /// Sets source addresses for cases in which the FIB has none; all zero if the node has none of that family.
  void set_sources(const k8s::Address& ipv4, const k8s::Address& ipv6);
  /// Texts for `status`, truncated to fit.
  void set_status(std::string_view sockets, std::string_view packets);
  void set_missing(std::string_view missing);
  /// Sets the time, in Unix seconds, at which the first whole plan was written.
  void set_started(std::uint64_t seconds);

 private:
  maps::MappedArray<lb_node> array_;
};

}  // namespace lb::agent
