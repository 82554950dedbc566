// SPDX-License-Identifier: Apache-2.0
// A check is cheap while kube-proxy's rules exist, and if they never did: conntrack is read only in between.
#include "agent/datapath/kube_proxy_flows.hpp"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "agent/netlink/conntrack_keepalive.hpp"
#include "agent/netlink/tracked.hpp"
#include "agent/tables/switch_over.hpp"
#include "k8s/objects/raw_address.hpp"

namespace lb::agent {
namespace {

constexpr std::array families = {AF_INET, AF_INET6};

lb_frontend_key frontend_of(const TrackedTuple& tuple) {
  lb_frontend_key key{};
  std::ranges::copy(tuple.destination.bytes, std::begin(key.address));
  key.port = tuple.destination_port;
  key.protocol = tuple.protocol;
  return key;
}

/// The target of a UDP connection's datagrams: service number, address, port.
using Target = std::tuple<std::uint32_t, k8s::Address, std::uint16_t>;
using Datagrams = std::multimap<Target, TrackedTuple>;

/// Removes datagrams whose backend still serves. Reads all backends once, however many connections there are.
void remove_served(Datagrams& datagrams, const maps::MappedArray<lb_backend>& backends) {
  for (std::uint32_t id = 1; id < backends.size() && !datagrams.empty(); ++id) {
    const auto backend = backends.load(id);
    if (backend.service == 0 || backend.serving != LB_YES) {
      continue;
    }
    datagrams.erase({backend.service, k8s::address_of(backend.address), backend.port});
  }
}

}  // namespace

KubeProxyFlows::KubeProxyFlows(boost::asio::io_context& context, maps::MapSet& maps, std::string table)
    : maps_(maps),
      table_(context, std::move(table), keep_nat,
             "connections that kube-proxy began may end when its rules go", [this] { check(); }) {}

void KubeProxyFlows::start() {
  held_ = table_.exists();
  table_.start();
}

boost::system::result<std::size_t> KubeProxyFlows::find_flows() const {
  auto conntrack = Conntrack::open();
  if (!conntrack) {
    return conntrack.error();
  }
  std::size_t flows = 0;
  Datagrams abandoned;
  boost::system::error_code error;
  for (const int family : families) {
    if (error) {
      break;
    }
    error = conntrack->for_each_translated(family, [&](const Tracked& flow) {
      const auto service = service_at(maps_.frontends, maps_.addresses, frontend_of(flow.original));
      if (service == 0 || !flow.has_other_destination()) {
        return;
      }
      ++flows;
      if (flow.original.protocol == LB_UDP) {
        abandoned.emplace(Target{service, flow.reply.source, flow.reply.source_port}, flow.original);
      }
    });
  }
  remove_served(abandoned, maps_.backends);
  const auto gone =
      std::ranges::count_if(abandoned, [&](const auto& each) { return !conntrack->erase(each.second); });
  if (gone > 0) {
    spdlog::info("deleted {} conntrack entries of datagrams to backends that serve no more", gone);
  }
  if (error) {
    return error;
  }
  return flows;
}

// If conntrack cannot be read, or changed while it was read, the table is kept.
void KubeProxyFlows::check() {
  const bool rules = !rules_.detect().empty();
  const bool is_first = !std::exchange(checked_, true);
  if (!rules && !held_ && !is_first) {
    return;
  }
  const bool wanted = rules || any_left();
  const bool holds = wanted && keep_table();
  set_conntrack_nat(maps_.node, rules || holds ? LB_YES : LB_NO);
  if (!wanted && held_) {
    remove_table();
  }
}

bool KubeProxyFlows::any_left() const {
  const auto flows = find_flows();
  return flows ? *flows > 0 : held_;
}

bool KubeProxyFlows::keep_table() {
  if (!table_.make()) {
    return false;
  }
  if (!std::exchange(held_, true)) {
    spdlog::info(
        "connections that kube-proxy began go on by conntrack, which the nftables table {} keeps translating",
        table_.name());
  }
  return true;
}

void KubeProxyFlows::remove_table() {
  table_.remove();
  held_ = false;
  spdlog::info("no connection that kube-proxy began is left: the nftables table {} is gone", table_.name());
}

}  // namespace lb::agent
