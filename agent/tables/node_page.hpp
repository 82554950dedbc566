// The one element of lb_node: what all programs need to know about the node, and what `status` shows of the
// agent. The running agent is its only writer.
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

  /// What was pinned here when the page was made.
  enum class Before : std::uint8_t { nothing, other_layout };

  /// Marks the page as this version's and makes the secret if there is none yet; an existing one is kept, so
  /// that flows find their ports and backends again. `cluster_secret` is what all nodes of the cluster share;
  /// empty: each chooses by its own secret, and for consistent selection by a public key.
  /// Where another layout's flows were left behind, programs know so for a while (lb_tables_lost).
  void begin(std::string_view node_name, std::uint32_t hertz, std::string_view cluster_secret, Before before);
  /// Before begin(): the secret of another page, where this one has none.
  void inherit(const std::array<std::uint64_t, 2>& secret);
  /// How clients are distinguished, and what is refused for their sake: one store.
  void set_node_policy(const lb_node_policy& policy);
  /// An agent looks after this node now: see --orphaned-after.
  void set_heartbeat();
  void set_zone(std::string_view zone);
  /// Where the FIB cannot say a source address, this one is used; all zero where the node has none of that
  /// family.
  void set_sources(const k8s::Address& ipv4, const k8s::Address& ipv6);
  /// Words for `status`; cut to fit.
  void set_status(std::string_view sockets, std::string_view packets);
  void set_missing(std::string_view missing);
  /// Unix seconds at which the first whole plan was written.
  void set_started(std::uint64_t seconds);

 private:
  maps::MappedArray<lb_node> array_;
};

}  // namespace lb::agent
