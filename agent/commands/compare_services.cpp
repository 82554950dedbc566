// SPDX-License-Identifier: Apache-2.0
#include "agent/commands/compare_services.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "k8s/objects/host_port.hpp"

namespace lb::agent {
namespace {

constexpr std::size_t max_named = 3;  // endpoints listed in a line

bool serves(const ServedFrontend& frontend) {
  return !frontend.outside.endpoints.empty() || !frontend.inside.endpoints.empty();
}

/// "10.244.1.10:8080, 10.244.2.10:8080 and 4 more": endpoints that `others` lacks; empty: none.
std::string lacking(const EndpointSet& set, const EndpointSet& others) {
  std::vector<ServedEndpoint> missing;
  std::ranges::set_difference(set.endpoints, others.endpoints, std::back_inserter(missing));
  std::vector<std::string> named;
  for (const auto& each : missing) {
    if (named.size() == max_named) {
      break;
    }
    named.push_back(k8s::host_port(each.address.text(), each.port));
  }
  auto text = fmt::format("{}", fmt::join(named, ", "));
  if (missing.size() > named.size()) {
    text += fmt::format(" and {} more", missing.size() - named.size());
  }
  return text;
}

std::string endpoints_reason(const char* clients, const EndpointSet& kube_proxy, const EndpointSet& sluice) {
  std::vector<std::string> sides;
  if (auto text = lacking(kube_proxy, sluice); !text.empty()) {
    sides.push_back("only kube-proxy has " + text);
  }
  if (auto text = lacking(sluice, kube_proxy); !text.empty()) {
    sides.push_back("only Sluice has " + text);
  }
  return fmt::format("endpoints{}: {}", clients, fmt::join(sides, "; "));
}

const char* verdict_text(EmptyVerdict verdict) { return verdict == EmptyVerdict::drop ? "drops" : "rejects"; }

std::string seconds_text(std::uint32_t seconds) {
  return seconds == 0 ? std::string("none") : fmt::format("{} s", seconds);
}

const char* clients_text(Clients clients) {
  return clients == Clients::limited ? "some clients" : "all clients";
}

class Comparison {
 public:
  explicit Comparison(Detail detail) : detail_(detail) {}

  void one_side(DifferenceKind kind, const FrontendId& id, const ServedFrontend& frontend) {
    add(kind, id, frontend.service,
        kind == DifferenceKind::only_sluice ? "kube-proxy does not serve it" : "Sluice does not serve it");
  }

  void both(const FrontendId& id, const ServedFrontend& kube_proxy, const ServedFrontend& sluice) {
    service_ = sluice.service;
    sets(id, kube_proxy, sluice);
    if (kube_proxy.affinity_seconds != sluice.affinity_seconds && serves(kube_proxy) && serves(sluice)) {
      add(DifferenceKind::affinity, id, service_,
          fmt::format("session affinity: kube-proxy {}, Sluice {}", seconds_text(kube_proxy.affinity_seconds),
                      seconds_text(sluice.affinity_seconds)));
    }
    if (detail_ == Detail::all && kube_proxy.clients != sluice.clients && serves(kube_proxy) &&
        serves(sluice)) {
      add(DifferenceKind::source_ranges, id, service_,
          fmt::format("source ranges: kube-proxy lets in {}, Sluice {}", clients_text(kube_proxy.clients),
                      clients_text(sluice.clients)));
    }
  }

  std::vector<Difference> take() { return std::move(found_); }

 private:
  void sets(const FrontendId& id, const ServedFrontend& kube_proxy, const ServedFrontend& sluice) {
    // Where the external policy Local allows none, IPVS has the endpoints for the node's own clients: replies
    // to clients outside are lost.
    const bool own_only = detail_ == Detail::one_set && sluice.outside.endpoints.empty();
    set(DifferenceKind::endpoints, id, "", kube_proxy.outside, own_only ? sluice.inside : sluice.outside);
    const bool same_outside = kube_proxy.inside == kube_proxy.outside && sluice.inside == sluice.outside;
    if (detail_ == Detail::all && !same_outside) {
      set(DifferenceKind::endpoints_inside, id, " of the node's own clients", kube_proxy.inside,
          sluice.inside);
    }
  }

  void set(DifferenceKind kind, const FrontendId& id, const char* clients, const EndpointSet& kube_proxy,
           const EndpointSet& sluice) {
    if (kube_proxy.endpoints != sluice.endpoints) {
      add(kind, id, service_, endpoints_reason(clients, kube_proxy, sluice));
    } else if (kube_proxy.endpoints.empty() && kube_proxy.verdict_if_empty != sluice.verdict_if_empty &&
               detail_ == Detail::all) {
      add(DifferenceKind::no_endpoints, id, service_,
          fmt::format("without endpoints{}: kube-proxy {}, Sluice {}", clients,
                      verdict_text(kube_proxy.verdict_if_empty), verdict_text(sluice.verdict_if_empty)));
    }
  }

  void add(DifferenceKind kind, const FrontendId& id, const std::string& service, std::string reason) {
    found_.push_back({kind, service.empty() ? "-" : service, id, std::move(reason)});
  }

  Detail detail_;
  std::string service_;
  std::vector<Difference> found_;
};

}  // namespace

const char* kind_name(DifferenceKind kind) {
  constexpr std::array names = {"only-kube-proxy", "only-sluice", "endpoints",    "endpoints-inside",
                                "no-endpoints",    "affinity",    "source-ranges"};
  return names.at(static_cast<std::size_t>(kind));
}

std::vector<Difference> compare_services(const ServedFrontends& kube_proxy, const ServedFrontends& sluice,
                                         Detail detail) {
  Comparison comparison(detail);
  auto theirs = kube_proxy.begin();
  auto ours = sluice.begin();
  while (theirs != kube_proxy.end() || ours != sluice.end()) {
    if (ours == sluice.end() || (theirs != kube_proxy.end() && theirs->first < ours->first)) {
      comparison.one_side(DifferenceKind::only_kube_proxy, theirs->first, theirs->second);
      ++theirs;
    } else if (theirs == kube_proxy.end() || ours->first < theirs->first) {
      comparison.one_side(DifferenceKind::only_sluice, ours->first, ours->second);
      ++ours;
    } else {
      comparison.both(ours->first, theirs->second, ours->second);
      ++theirs;
      ++ours;
    }
  }
  return comparison.take();
}

std::vector<Difference> unserved_by(const ServedFrontends& kube_proxy, const ServedFrontends& sluice) {
  std::vector<Difference> unserved;
  for (const auto& [id, frontend] : sluice) {
    const auto theirs = kube_proxy.find(id);
    if (serves(frontend) && (theirs == kube_proxy.end() || !serves(theirs->second))) {
      unserved.push_back({DifferenceKind::only_sluice, frontend.service, id, "kube-proxy does not serve it"});
    }
  }
  return unserved;
}

std::string frontend_text(const FrontendId& frontend) {
  const bool is_ipv4 = frontend.address.family() == k8s::Family::ipv4;
  const bool is_node_port = frontend.address.unspecified();
  return is_node_port && is_ipv4 ? fmt::format("*:{}", frontend.port)
                                 : k8s::host_port(frontend.address.text(), frontend.port);
}

}  // namespace lb::agent
