// SPDX-License-Identifier: Apache-2.0
// The endpoints of EndpointSlices, prepared for planning: compact, relative to one node, sorted and merged.
// Pure.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "agent/plan/local_routes.hpp"
#include "agent/plan/plan.hpp"
#include "agent/plan/topology.hpp"
#include "k8s/objects/model.hpp"

namespace lb::agent {

class Frontends;

/// The viewpoint for endpoints' traits: a node, and the topology keys of a service.
struct Viewpoint {
  const NodeView& node;
  std::span<const std::string> topology_keys;  ///< at most max_topology_keys
  const Frontends* frontends = nullptr;        ///< addresses of services are no endpoints; null: no check
  std::string service = {};                    ///< the endpoints' service
  LocalRoutes* routes = nullptr;               ///< null: not asked how endpoints of the node are reached
};

/// One endpoint of one slice for one service port.
struct Candidate {
  k8s::Address address;
  std::uint16_t port = 0;
  std::uint8_t weight = 1;
  ReachedBy reached_by = ReachedBy::unknown;  ///< known of endpoints on this node only
  Traits traits = 0;
  const std::string* slice = nullptr;  ///< its name, at a stable address while a slice of that name exists
  bool operator==(const Candidate&) const = default;
};

/// Compares like the bytes of the text "a.b.c.d:port" or "[v6]:port" (SEM-29), without making that text.
class OrderKey {
 public:
  OrderKey(const k8s::Address& address, std::uint16_t port);
  auto operator<=>(const OrderKey&) const = default;

 private:
  std::array<std::uint64_t, 4> words_{};
};

/// An EndpointSlice in deduplicated form: about 30 bytes an endpoint.
class CompactSlice {
 public:
  explicit CompactSlice(const k8s::EndpointSlice& slice)
      : CompactSlice(slice, std::make_shared<const std::string>(slice.key.name)) {}
  /// The new state of the slice `before`: unchanged endpoints give equal candidates.
  CompactSlice(const k8s::EndpointSlice& slice, const CompactSlice& before)
      : CompactSlice(slice, before.name_) {}

  [[nodiscard]] const std::string& name() const noexcept { return *name_; }
  [[nodiscard]] std::size_t size() const noexcept { return endpoints_.size(); }
  [[nodiscard]] std::size_t port_count() const noexcept { return ports_.size(); }
  /// Appends this slice's candidates for a port of its service; none for another family, protocol or port
  /// name. Returns a message about endpoints that were skipped because they are services; empty: none.
  [[nodiscard]] std::string append(const ServicePortKey& key, std::string_view port_name,
                                   const Viewpoint& view, std::vector<Candidate>& candidates) const;
  /// Calls `visit` with the addresses of ready endpoints on `node`, for any port; none if the slice drains,
  /// as none is in a set.
  template <class Visit>
  void for_each_local_ready(std::string_view node, Visit visit) const {
    const auto at = std::ranges::find(strings_, node);
    if (weight_ == 0 || node.empty() || at == strings_.end()) {
      return;
    }
    const auto index = static_cast<std::uint32_t>(at - strings_.begin());
    for (const auto& endpoint : endpoints_) {
      if (endpoint.node == index && is_ready_endpoint(endpoint)) {
        visit(endpoint.address);
      }
    }
  }
  [[nodiscard]] k8s::Family family() const noexcept { return family_; }
  /// Whether some endpoint is on `node`.
  [[nodiscard]] bool names_node(std::string_view node) const;
  /// Whether some endpoint has one of these addresses, which are sorted.
  [[nodiscard]] bool has_one_of(const std::vector<k8s::Address>& sorted) const;
  /// Calls `visit` with the address of each endpoint.
  template <class Visit>
  void for_each_address(Visit visit) const {
    for (const auto& endpoint : endpoints_) {
      visit(endpoint.address);
    }
  }
  /// Appends the addresses and ports at which its endpoints listen for TCP.
  void append_listening(std::vector<ListeningAddress>& addresses) const;
  /// Compares two states of one slice.
  bool operator==(const CompactSlice&) const = default;

 private:
  /// Properties that many endpoints share. Numbers are indexes into strings_; for lists, into lists_, where a
  /// list's length comes before its members.
  struct Profile {
    std::uint32_t zone = 0;
    std::uint32_t hint_zones = 0;
    std::uint32_t hint_nodes = 0;
    std::uint32_t labels = 0;  ///< a list of key, value, key, value …
    std::uint8_t conditions = 0;
    auto operator<=>(const Profile&) const = default;
  };
  struct CompactEndpoint {
    k8s::Address address;
    std::uint32_t node = 0;     ///< an index into strings_
    std::uint32_t profile = 0;  ///< an index into profiles_
    bool operator==(const CompactEndpoint&) const = default;
  };
  class Builder;

  CompactSlice(const k8s::EndpointSlice& slice, std::shared_ptr<const std::string> name);
  [[nodiscard]] const Profile& of(const CompactEndpoint& endpoint) const {
    return profiles_[endpoint.profile];
  }
  [[nodiscard]] bool is_ready_endpoint(const CompactEndpoint& endpoint) const;
  [[nodiscard]] bool is_service(const CompactEndpoint& endpoint, const k8s::EndpointPort& port,
                                const Viewpoint& view) const;
  [[nodiscard]] Traits traits(const CompactEndpoint& endpoint, const Viewpoint& view) const;
  [[nodiscard]] ReachedBy reached_by(const CompactEndpoint& endpoint, Traits traits,
                                     const Viewpoint& view) const;
  [[nodiscard]] Traits condition_traits(const Profile& profile) const;
  [[nodiscard]] Traits hint_traits(const Profile& profile, const NodeView& node) const;
  [[nodiscard]] Traits key_traits(const CompactEndpoint& endpoint, const Viewpoint& view) const;
  [[nodiscard]] bool shares(const CompactEndpoint& endpoint, const NodeView& node,
                            std::string_view label) const;
  [[nodiscard]] std::string_view label_of(const CompactEndpoint& endpoint, const NodeView& node,
                                          std::string_view label) const;
  [[nodiscard]] std::span<const std::uint32_t> list(std::uint32_t index) const;
  [[nodiscard]] bool list_has(std::uint32_t index, std::string_view text) const;

  std::shared_ptr<const std::string> name_;
  k8s::Family family_;
  std::uint8_t weight_;
  std::vector<k8s::EndpointPort> ports_;
  std::vector<CompactEndpoint> endpoints_;
  std::vector<Profile> profiles_;     ///< [0] is for endpoints that no service port can use
  std::vector<std::string> strings_;  ///< [0] is empty
  std::vector<std::uint32_t> lists_;  ///< [0] is the empty list
};

/// All candidates of one service port, sorted; of equal ones the one that counts comes first (SEM-4). They
/// are kept in blocks, so that a change costs only the changed blocks.
class CandidateList {
 public:
  /// Removes candidates of removed slices, and adds those of new ones. `gone` must contain all candidates
  /// that a removed slice added.
  void update(const std::vector<Candidate>& gone, const std::vector<Candidate>& fresh);
  void clear() noexcept { blocks_.clear(); }
  /// Counts of the candidates that count.
  [[nodiscard]] EndpointCounts counts() const noexcept;
  /// Backends from the candidates that count and are in a set or serving. Unchanged backends are in the same
  /// chunks as last time.
  [[nodiscard]] BackendList backends(const Sets& sets);

 private:
  /// Consecutive candidates, at least one; those of one address and port are all in one block.
  struct Block {
    OrderKey first;
    std::vector<Candidate> candidates;
    EndpointCounts counts;
    std::shared_ptr<const BackendChunk> chunk;  ///< for sets_; null: not made yet
  };
  class Editor;

  std::vector<Block> blocks_;
  Sets sets_;
};

}  // namespace lb::agent
