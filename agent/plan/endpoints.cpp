// SPDX-License-Identifier: Apache-2.0
// The endpoints of EndpointSlices, prepared for planning.
#include "agent/plan/endpoints.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <utility>

#include "agent/plan/frontends.hpp"
#include "maps/text.hpp"

namespace lb::agent {
namespace {

enum Condition : std::uint8_t { is_ready = 1, is_serving = 2, is_terminating = 4 };

constexpr std::uint32_t symbols_per_word = 12;
constexpr std::uint32_t bits_per_symbol = 5;

/// Maps the characters of address texts to numbers in byte order; 0 is the end of the text.
constexpr std::uint64_t symbol(char character) {
  if (character == '.') {
    return 1;
  }
  if (character >= '0' && character <= '9') {
    return static_cast<std::uint64_t>(character - '0') + 2;
  }
  if (character == ':') {
    return 12;
  }
  if (character == ']') {
    return 13;
  }
  return static_cast<std::uint64_t>(character - 'a') + 14;
}

struct Run {
  std::size_t first = 8;
  std::size_t length = 1;
  [[nodiscard]] std::size_t end() const { return first + length; }
};

/// The zeros that RFC 5952 writes as "::": the longest run of two or more groups, of equals the first.
Run longest_zeros(const std::array<unsigned, 8>& groups) {
  Run best;
  for (std::size_t first = 0; first < groups.size(); ++first) {
    std::size_t end = first;
    while (end < groups.size() && groups.at(end) == 0) {
      ++end;
    }
    if (end - first > best.length) {
      best = {first, end - first};
    }
    first = std::max(first, end);
  }
  return best;
}

/// Packs a text as symbols, the first in the highest bits, so that words compare like the text.
class Packer {
 public:
  explicit Packer(std::array<std::uint64_t, 4>& words) : words_(words) {}

  void push(char character) {
    const auto shift = bits_per_symbol * (symbols_per_word - 1 - length_ % symbols_per_word);
    words_.at(length_ / symbols_per_word) |= symbol(character) << shift;
    ++length_;
  }

  void push_number(unsigned number, int base) {
    std::array<char, 8> digits{};
    const auto* end = std::to_chars(digits.data(), digits.data() + digits.size(), number, base).ptr;
    for (const char* digit = digits.data(); digit != end; ++digit) {
      push(*digit);
    }
  }

  void push_dotted(const k8s::Address& address) {
    for (std::size_t byte = 12; byte < 16; ++byte) {
      if (byte > 12) {
        push('.');
      }
      push_number(address.bytes.at(byte), 10);
    }
  }

  void push_groups(const k8s::Address& address) {
    std::array<unsigned, 8> groups{};
    for (std::size_t group = 0; group < groups.size(); ++group) {
      groups.at(group) =
          static_cast<unsigned>(address.bytes.at(group * 2) << 8 | address.bytes.at(group * 2 + 1));
    }
    const Run zeros = longest_zeros(groups);
    for (std::size_t group = 0; group < groups.size(); ++group) {
      if (group == zeros.first) {
        push(':');
      }
      if (group >= zeros.first && group < zeros.end()) {
        continue;
      }
      if (group > 0) {
        push(':');
      }
      push_number(groups.at(group), 16);
    }
    if (zeros.end() == groups.size()) {
      push(':');
    }
  }

 private:
  std::array<std::uint64_t, 4>& words_;
  std::uint32_t length_ = 0;
};

/// An endpoint that is neither ready nor serving is in no set, has no flow and is not shown; its slice is
/// reported again when that changes.
bool is_of_use(const k8s::Endpoint& endpoint) { return endpoint.ready || endpoint.serving; }

/// A terminated endpoint loses to any other one of the same address. An endpoint that is not ready yet must
/// not be left out: it wins over a terminating one of another slice (SEM-4).
bool can_matter(const k8s::Endpoint& endpoint) { return is_of_use(endpoint) || !endpoint.terminating; }

std::string_view find_label(const Labels& labels, std::string_view key) {
  const auto found =
      std::find_if(labels.begin(), labels.end(), [&](const auto& label) { return label.first == key; });
  return found == labels.end() ? std::string_view{} : std::string_view(found->second);
}

}  // namespace

OrderKey::OrderKey(const k8s::Address& address, std::uint16_t port) {
  Packer packer(words_);
  if (address.family() == k8s::Family::ipv4) {
    packer.push_dotted(address);
  } else {
    packer.push_groups(address);
    packer.push(']');
  }
  packer.push(':');
  packer.push_number(port, 10);
}

/// Gives every string and every list one index; lives only while its slice is made.
class CompactSlice::Builder {
 public:
  explicit Builder(CompactSlice& slice) : slice_(slice) {
    slice_.strings_.emplace_back();
    slice_.lists_.push_back(0);
    slice_.profiles_.emplace_back();
    strings_.emplace("", 0);
    lists_.emplace(std::vector<std::uint32_t>{}, 0);
    profiles_.emplace(Profile{}, 0);
  }

  /// For an unusable endpoint only its address is kept.
  void add(const k8s::Endpoint& endpoint) {
    if (!is_of_use(endpoint)) {
      slice_.endpoints_.push_back({.address = endpoint.address});
      return;
    }
    std::vector<std::uint32_t> labels;
    for (const auto& [key, value] : endpoint.topology) {
      labels.push_back(string(key));
      labels.push_back(string(value));
    }
    const int conditions = (endpoint.ready ? is_ready : 0) | (endpoint.serving ? is_serving : 0) |
                           (endpoint.terminating ? is_terminating : 0);
    const auto node = string(endpoint.node_name);
    const auto shared = profile({string(endpoint.zone), list(strings(endpoint.hint_zones)),
                                 list(strings(endpoint.hint_nodes)), list(std::move(labels)),
                                 static_cast<std::uint8_t>(conditions)});
    slice_.endpoints_.push_back({endpoint.address, node, shared});
  }

 private:
  std::uint32_t string(const std::string& text) {
    const auto [index, is_new] =
        strings_.try_emplace(text, static_cast<std::uint32_t>(slice_.strings_.size()));
    if (is_new) {
      slice_.strings_.push_back(text);
    }
    return index->second;
  }

  std::vector<std::uint32_t> strings(const std::vector<std::string>& texts) {
    std::vector<std::uint32_t> addresses;
    addresses.reserve(texts.size());
    for (const auto& text : texts) {
      addresses.push_back(string(text));
    }
    return addresses;
  }

  std::uint32_t list(std::vector<std::uint32_t> members) {
    auto& lists = slice_.lists_;
    const auto [index, is_new] =
        lists_.try_emplace(std::move(members), static_cast<std::uint32_t>(lists.size()));
    if (is_new) {
      lists.push_back(static_cast<std::uint32_t>(index->first.size()));
      lists.insert(lists.end(), index->first.begin(), index->first.end());
    }
    return index->second;
  }

  std::uint32_t profile(const Profile& profile) {
    const auto [index, is_new] =
        profiles_.try_emplace(profile, static_cast<std::uint32_t>(slice_.profiles_.size()));
    if (is_new) {
      slice_.profiles_.push_back(profile);
    }
    return index->second;
  }

  CompactSlice& slice_;
  std::unordered_map<std::string, std::uint32_t> strings_;
  std::map<std::vector<std::uint32_t>, std::uint32_t> lists_;
  std::map<Profile, std::uint32_t> profiles_;
};

CompactSlice::CompactSlice(const k8s::EndpointSlice& slice, std::shared_ptr<const std::string> name)
    : name_(std::move(name)), family_(slice.family), weight_(slice.weight), ports_(slice.ports) {
  Builder builder(*this);
  endpoints_.reserve(slice.endpoints.size());
  for (const auto& endpoint : slice.endpoints) {
    if (endpoint.address.family() == family_ && can_matter(endpoint)) {
      builder.add(endpoint);
    }
  }
  strings_.shrink_to_fit();
  lists_.shrink_to_fit();
  profiles_.shrink_to_fit();
  endpoints_.shrink_to_fit();
}

std::string CompactSlice::append(const ServicePortKey& key, std::string_view port_name, const Viewpoint& view,
                                 std::vector<Candidate>& candidates) const {
  if (static_cast<int>(family_) != static_cast<int>(key.family)) {
    return {};
  }
  std::string first;
  std::size_t skipped = 0;
  for (const auto& port : ports_) {
    if (port.name != port_name || static_cast<int>(port.protocol) != static_cast<int>(key.protocol)) {
      continue;
    }
    if (port.port == 0) {
      continue;
    }
    for (const auto& endpoint : endpoints_) {
      if (of(endpoint).conditions != 0 && is_service(endpoint, port, view)) {
        if (skipped++ == 0) {
          first = maps::socket_text(endpoint.address.bytes, port.port);
        }
        continue;
      }
      const Traits seen = traits(endpoint, view);
      candidates.push_back(
          {endpoint.address, port.port, weight_, reached_by(endpoint, seen, view), seen, name_.get()});
    }
  }
  if (skipped == 0) {
    return {};
  }
  return fmt::format("endpoint {} of slice {} is skipped{}: a service has that address", first, *name_,
                     skipped == 1 ? "" : fmt::format(", and {} more", skipped - 1));
}

/// Packets to such an endpoint would return to a service. Only addresses that cannot be claimed at will
/// count: ClusterIPs, which the API server assigns, and the service's own outside addresses, where its
/// packets would loop. Another service's outside address excludes nothing, because a tenant who may write a
/// Service may claim any address, and could exclude another namespace's endpoints. A loop through several
/// services ends like every routing loop, by the packets' hop limits. An endpoint on a node may have that
/// node's address although it is also the service's load-balancer address.
bool CompactSlice::is_service(const CompactEndpoint& endpoint, const k8s::EndpointPort& port,
                              const Viewpoint& view) const {
  if (view.frontends == nullptr) {
    return false;
  }
  const Frontends::Key frontend{endpoint.address, port.port, static_cast<lb_protocol>(port.protocol)};
  switch (view.frontends->use_of(frontend, view.service)) {
    case Frontends::Use::cluster_ip:
      return true;
    case Frontends::Use::own:
      return endpoint.node == 0;
    case Frontends::Use::none:
      break;
  }
  return false;
}

bool CompactSlice::has_one_of(const std::vector<k8s::Address>& sorted) const {
  return std::ranges::any_of(endpoints_, [&](const CompactEndpoint& endpoint) {
    return std::ranges::binary_search(sorted, endpoint.address);
  });
}

void CompactSlice::append_listening(std::vector<ListeningAddress>& addresses) const {
  for (const auto& port : ports_) {
    if (port.protocol != k8s::Protocol::tcp) {
      continue;
    }
    for (const auto& endpoint : endpoints_) {
      addresses.push_back({endpoint.address, port.port});
    }
  }
}

bool CompactSlice::names_node(std::string_view node) const {
  return std::ranges::any_of(endpoints_, [&](const CompactEndpoint& endpoint) {
    return endpoint.node != 0 && strings_[endpoint.node] == node;
  });
}

bool CompactSlice::is_ready_endpoint(const CompactEndpoint& endpoint) const {
  return (of(endpoint).conditions & is_ready) != 0;
}

Traits CompactSlice::traits(const CompactEndpoint& endpoint, const Viewpoint& view) const {
  const Profile& profile = of(endpoint);
  Traits traits = condition_traits(profile) | hint_traits(profile, view.node);
  if (strings_[endpoint.node] == view.node.name && endpoint.node != 0) {
    traits |= trait::local;
  }
  if (strings_[profile.zone] == view.node.zone && profile.zone != 0) {
    traits |= trait::same_zone;
  }
  return traits | key_traits(endpoint, view);
}

/// Only endpoints of this node are asked about, and none that no service port can use.
ReachedBy CompactSlice::reached_by(const CompactEndpoint& endpoint, Traits traits,
                                   const Viewpoint& view) const {
  const bool matters =
      view.routes != nullptr && has_all(traits, trait::local) && of(endpoint).conditions != 0;
  return matters ? view.routes->ask(view.service, endpoint.address) : ReachedBy::unknown;
}

/// An endpoint of weight 0 only keeps its old flows: it is neither ready nor draining (docs/semantics.md,
/// choice I).
Traits CompactSlice::condition_traits(const Profile& profile) const {
  const bool terminating = (profile.conditions & is_terminating) != 0;
  const bool serving = (profile.conditions & is_serving) != 0;
  const bool ready = (profile.conditions & is_ready) != 0;
  Traits traits = (serving ? trait::serving : 0) | (terminating ? trait::terminating : 0);
  if (weight_ == 0) {
    return traits;
  }
  if (ready) {
    return traits | trait::ready;
  }
  return serving && terminating ? traits | trait::draining : traits;
}

Traits CompactSlice::hint_traits(const Profile& profile, const NodeView& node) const {
  Traits traits = 0;
  if (profile.hint_nodes != 0) {
    traits |= trait::node_hint;
  }
  if (list_has(profile.hint_nodes, node.name)) {
    traits |= trait::my_node_hint;
  }
  if (profile.hint_zones != 0) {
    traits |= trait::zone_hint;
  }
  if (!node.zone.empty() && list_has(profile.hint_zones, node.zone)) {
    traits |= trait::my_zone_hint;
  }
  return traits;
}

Traits CompactSlice::key_traits(const CompactEndpoint& endpoint, const Viewpoint& view) const {
  Traits traits = 0;
  for (std::size_t key = 0; key < std::min(view.topology_keys.size(), max_topology_keys); ++key) {
    if (shares(endpoint, view.node, view.topology_keys[key])) {
      traits |= topology_key_trait(key);
    }
  }
  return traits;
}

bool CompactSlice::shares(const CompactEndpoint& endpoint, const NodeView& node,
                          std::string_view label) const {
  if (label == k8s::any_topology) {
    return true;
  }
  if (label == k8s::hostname_label) {
    return endpoint.node != 0 && strings_[endpoint.node] == node.name;
  }
  const std::string_view mine =
      label == k8s::zone_label ? std::string_view(node.zone) : find_label(node.labels, label);
  return !mine.empty() && label_of(endpoint, node, label) == mine;
}

/// The label from the slice if present, else from the Node object of the endpoint's node; empty: unknown.
std::string_view CompactSlice::label_of(const CompactEndpoint& endpoint, const NodeView& node,
                                        std::string_view label) const {
  const Profile& profile = of(endpoint);
  if (label == k8s::zone_label && profile.zone != 0) {
    return strings_[profile.zone];
  }
  const auto labels = list(profile.labels);
  for (std::size_t i = 0; i + 1 < labels.size(); i += 2) {
    if (strings_[labels[i]] == label) {
      return strings_[labels[i + 1]];
    }
  }
  const std::string& name = strings_[endpoint.node];
  if (name.empty()) {
    return {};
  }
  if (name == node.name) {
    return label == k8s::zone_label ? std::string_view(node.zone) : find_label(node.labels, label);
  }
  const auto peer = node.peers.find(name);
  return peer == node.peers.end() ? std::string_view{} : find_label(peer->second, label);
}

std::span<const std::uint32_t> CompactSlice::list(std::uint32_t index) const {
  return std::span(lists_).subspan(index + 1, lists_[index]);
}

bool CompactSlice::list_has(std::uint32_t index, std::string_view text) const {
  const auto members = list(index);
  return std::any_of(members.begin(), members.end(),
                     [&](std::uint32_t member) { return strings_[member] == text; });
}

}  // namespace lb::agent
