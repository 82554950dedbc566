// SPDX-License-Identifier: Apache-2.0
// Writes whole words, and rewrites unchanged words with the same value, so a reader never sees a partial
// word.
#include "agent/tables/node_page.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "agent/base/clock.hpp"
#include "agent/base/error.hpp"
#include "maps/abi/checks.h"

namespace lb::agent {
namespace {

template <std::size_t Size>
void write_text(char (&field)[Size], std::string_view text) {
  std::memset(field, 0, Size);
  std::memcpy(field, text.data(), std::min(text.size(), Size - 1));
}

void make_secret(lb_node& node) {
  while (node.secret[0] == 0 && node.secret[1] == 0) {
    if (::getrandom(node.secret, sizeof(node.secret), 0) != static_cast<ssize_t>(sizeof(node.secret))) {
      throw StartError("the kernel gives no random bytes for the secret that keys the choice of backends");
    }
  }
}

using Key = std::array<std::uint64_t, 2>;

/// Derives the same key from the same text on every node; two passes, so that the halves differ.
Key key_of(std::string_view text) {
  Key key{text.size(), ~text.size()};
  for (auto& half : key) {
    for (const char each : text) {
      half = lb_mix(half, static_cast<unsigned char>(each));
    }
    half = lb_mix(half, key[0]);
  }
  return key;
}

/// Seconds after another layout's flow tables were lost during which a packet in mid-connection may belong to
/// one of those flows.
constexpr std::uint32_t seconds_to_find_flows_again = 900;

/// The key for all clusters without a secret: load balancers must agree on it.
constexpr std::string_view known_to_all = "sluice.lb/selection: consistent";

void choose_keys(lb_node& node, std::string_view cluster_secret) {
  const auto shared = key_of(cluster_secret.empty() ? known_to_all : cluster_secret);
  std::ranges::copy(shared, std::begin(node.choice[LB_CONSISTENT]));
  if (cluster_secret.empty()) {
    std::ranges::copy(node.secret, std::begin(node.choice[LB_RANDOM]));
  } else {
    std::ranges::copy(shared, std::begin(node.choice[LB_RANDOM]));
  }
}

}  // namespace

void NodePage::begin(std::string_view node_name, std::uint32_t hertz, std::string_view cluster_secret,
                     Before before) {
  auto node = read();
  make_secret(node);
  choose_keys(node, cluster_secret);
  // A new page comes with new tables; flows of another layout's tables may still be active.
  if (node.layout != LB_LAYOUT && before == Before::other_layout) {
    node.lost_until = flow_clock_now(hertz) + seconds_to_find_flows_again;
  }
  node.layout = LB_LAYOUT;
  node.hertz = hertz;
  write_text(node.version, SLUICE_VERSION);
  write_text(node.name, node_name);
  array_.store(0, node);
}

void NodePage::inherit(const std::array<std::uint64_t, 2>& secret) {
  auto node = read();
  if (node.secret[0] == 0 && node.secret[1] == 0) {
    std::ranges::copy(secret, node.secret);
    array_.store(0, node);
  }
}

void NodePage::set_heartbeat() {
  auto node = read();
  node.heartbeat = flow_clock_now(node.hertz);
  array_.publish_change<offsetof(lb_node, lost_until)>(0, node);
}

void NodePage::set_zone(std::string_view zone) {
  auto node = read();
  write_text(node.zone, zone);
  array_.store(0, node);
}

void NodePage::set_sources(const k8s::Address& ipv4, const k8s::Address& ipv6) {
  auto node = read();
  std::ranges::copy(ipv4.bytes, node.source4);
  std::ranges::copy(ipv6.bytes, node.source6);
  array_.store(0, node);
}

void NodePage::set_node_policy(const lb_node_policy& policy) {
  auto node = read();
  const auto before = node.policy;
  node.policy = policy;
  node.policy.conntrack_nat = before.conntrack_nat;
  node.policy.draining = before.draining;
  array_.publish_change<offsetof(lb_node, policy)>(0, node);
}

void NodePage::set_status(std::string_view sockets, std::string_view packets) {
  auto node = read();
  write_text(node.sockets, sockets);
  write_text(node.packets, packets);
  array_.store(0, node);
}

void NodePage::set_missing(std::string_view missing) {
  auto node = read();
  write_text(node.missing, missing);
  array_.store(0, node);
}

void NodePage::set_started(std::uint64_t seconds) {
  auto node = read();
  node.started = seconds;
  array_.store(0, node);
}

}  // namespace lb::agent
