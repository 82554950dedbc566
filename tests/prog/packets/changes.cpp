// SPDX-License-Identifier: Apache-2.0
// The changes that a table may make: services, backends and frontends, and the effects of time and faults on
// flows.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "agent/base/clock.hpp"
#include "agent/programs/features.hpp"
#include "agent/tables/expiry.hpp"
#include "maps/abi/checks.h"
#include "maps/text.hpp"
#include "tests/prog/packets/maps.hpp"
#include "tests/prog/packets/world.hpp"

namespace lb::test {
namespace {

const Names<lb_kind> kinds = {{"cluster_ip", LB_CLUSTER_IP},
                              {"node_port", LB_NODE_PORT},
                              {"external_ip", LB_EXTERNAL_IP},
                              {"load_balancer", LB_LOAD_BALANCER}};
const Names<lb_protocol> protocols = {{"tcp", LB_TCP}, {"udp", LB_UDP}, {"sctp", LB_SCTP}};
const Names<lb_scope> scopes = {{"cluster", LB_CLUSTER}, {"local", LB_LOCAL}};
const Names<lb_verdict> verdicts = {{"reject", LB_REJECT}, {"drop", LB_DROP}};
const Names<lb_locality> places = {{"elsewhere", LB_ELSEWHERE},
                                   {"same_zone", LB_SAME_ZONE},
                                   {"same_node", LB_SAME_NODE},
                                   {"same_node_by_uplink", LB_SAME_NODE_BY_UPLINK}};
const Names<lb_address_kind> address_kinds = {
    {"node", LB_NODE_ADDRESS}, {"node_port", LB_NODE_PORT_ADDRESS}, {"loopback", LB_LOOPBACK_ADDRESS}};

const Names<lb_local_detection> detectors = {
    {"none", LB_DETECT_NONE}, {"range", LB_DETECT_BY_RANGE}, {"device", LB_DETECT_BY_DEVICE}};

std::uint16_t port_of(const std::string& text) { return static_cast<std::uint16_t>(std::stoul(text)); }

}  // namespace

void World::change(const Words& words) {
  static const Names<Step> steps = {{"address", &World::add_address},
                                    {"policy", &World::add_policy},
                                    {"backend", &World::add_backend},
                                    {"frontend", &World::add_frontend},
                                    {"cluster", &World::set_slots},
                                    {"local", &World::set_slots},
                                    {"source", &World::set_source},
                                    {"node_policy", &World::set_node_policy},
                                    {"selection", &World::set_selection},
                                    {"internal", &World::set_internal},
                                    {"external", &World::set_external},
                                    {"cluster_address", &World::add_cluster_address},
                                    {"pods", &World::add_list},
                                    {"cluster_ips", &World::add_list},
                                    {"xfrm", &World::add_list},
                                    {"tables_lost", &World::lose_tables},
                                    {"heartbeat", &World::set_heartbeat},
                                    {"reserve", &World::reserve},
                                    {"unreserve", &World::unreserve},
                                    {"track", &World::track},
                                    {"states", &World::check_states},
                                    {"midstream", &World::check_midstream},
                                    {"retire", &World::retire},
                                    {"age", &World::age},
                                    {"evict", &World::evict},
                                    {"corrupt", &World::corrupt},
                                    {"forget", &World::forget},
                                    {"expire", &World::expire},
                                    {"remove", &World::remove_frontends},
                                    {"hold", &World::hold},
                                    {"affinity", &World::set_affinity},
                                    {"range", &World::add_range},
                                    {"age_memory", &World::age_memory},
                                    {"sleep", &World::sleep}};
  (this->*named(steps, words.at(0)))(words);
}

/// address DEVICE ADDRESS/PREFIX KIND
void World::add_address(const Words& words) {
  lb_address_key key{};
  const auto bytes = address_of(words.at(2).substr(0, words.at(2).find('/')));
  std::memcpy(key.address, bytes.data(), bytes.size());
  must(put(programs_.addresses, key,
           {.kind = named(address_kinds, words.at(3)), .pad = {}, .check = lb_address_check(&key)},
           maps::Put::any));
}

/// policy SERVICE INTERNAL EXTERNAL CLUSTER-EMPTY LOCAL-EMPTY: the first line about a service
void World::add_policy(const Words& words) {
  const auto number = static_cast<std::uint32_t>(services_.size() + 1);
  lb_service service{};
  service.policy.internal = named(scopes, words.at(2));
  service.policy.external = named(scopes, words.at(3));
  service.policy.cluster_empty = named(verdicts, words.at(4));
  service.policy.local_empty = named(verdicts, words.at(5));
  services_[words.at(1)] = number;
  programs_.services.store(number, service);
}

/// backend NAME SERVICE PLACE ADDRESS PORT
void World::add_backend(const Words& words) {
  const auto id = static_cast<std::uint32_t>(backends_.size() + 1);
  lb_backend backend{};
  const auto bytes = address_of(words.at(4));
  std::memcpy(backend.address, bytes.data(), bytes.size());
  backend.service = service(words.at(2));
  backend.locality = named(places, words.at(3));
  backend.in_cluster = backend.serving = LB_YES;
  backend.in_local = backend.locality == LB_SAME_NODE ? LB_YES : LB_NO;
  backend.port = port_of(words.at(5));
  backend.weight = 1;
  backends_[words.at(1)] = id;
  programs_.backends.store(id, backend);
}

/// frontend SERVICE KIND PROTOCOL ADDRESS PORT
void World::add_frontend(const Words& words) {
  lb_frontend_key key{};
  const auto bytes = address_of(words.at(4));
  std::memcpy(key.address, bytes.data(), bytes.size());
  key.protocol = named(protocols, words.at(3));
  key.port = port_of(words.at(5));
  const lb_frontend frontend{.service = service(words.at(1)),
                             .kind = named(kinds, words.at(2)),
                             .pad = 0,
                             .check = lb_frontend_check(&key)};
  must(put(programs_.frontends, key, frontend, maps::Put::create));
  if (frontend.kind == LB_NODE_PORT) {
    keep_port(key.port);
  } else {
    add_address_of(bytes, LB_SERVICE_ADDRESS, maps::Put::create);
  }
}

void World::keep_port(std::uint16_t port) {
  programs_.reserved.store(port / 64, programs_.reserved.load(port / 64) | std::uint64_t{1} << port % 64);
}

/// Adds the address; an existing one keeps its kind, unless `mode` replaces it.
void World::add_address_of(const std::array<std::uint8_t, 16>& bytes, lb_address_kind kind, maps::Put mode) {
  lb_address_key key{};
  std::memcpy(key.address, bytes.data(), bytes.size());
  const auto error =
      put(programs_.addresses, key, {.kind = kind, .pad = {}, .check = lb_address_check(&key)}, mode);
  if (mode != maps::Put::create || error.value() != EEXIST) {
    must(error);
  }
}

/// cluster|local SERVICE BACKEND...: writes a new extent, then one store; a number is an id of no backend
void World::set_slots(const Words& words) {
  auto& set_owner = programs_.services;
  const auto number = service(words.at(1));
  const lb_set set{.first = next_slot_, .count = static_cast<std::uint32_t>(words.size() - 2)};
  for (std::size_t at = 2; at < words.size(); ++at) {
    const bool is_number = words[at].find_first_not_of("0123456789") == std::string::npos;
    programs_.slots.store(next_slot_++,
                          is_number ? static_cast<std::uint32_t>(std::stoul(words[at])) : backend(words[at]));
  }
  auto element = set_owner.load(number);
  (named(scopes, words.at(0)) == LB_CLUSTER ? element.cluster : element.local) = set;
  set_owner.store(number, element);
}

/// source ADDRESS: the source address towards remote backends when the FIB gives none
void World::set_source(const Words& words) {
  auto node = programs_.node.load(0);
  const auto bytes = address_of(words.at(1));
  const bool four = words.at(1).find(':') == std::string::npos;
  std::memcpy(four ? node.source4 : node.source6, bytes.data(), bytes.size());
  programs_.node.store(0, node);
}

/// node_policy DETECTOR4 DETECTOR6 [masquerade_all] [drop_unallocated] [xfrm | xfrm_all] [conntrack_nat]
/// [draining]
void World::set_node_policy(const Words& words) {
  auto node = programs_.node.load(0);
  const auto has = [&](const char* word) {
    return std::find(words.begin() + 3, words.end(), word) != words.end() ? LB_YES : LB_NO;
  };
  node.policy = {.local_detection4 = named(detectors, words.at(1)),
                 .local_detection6 = named(detectors, words.at(2)),
                 .masquerade_all = has("masquerade_all"),
                 .drop_unallocated = has("drop_unallocated"),
                 .xfrm = has("xfrm_all") == LB_YES ? LB_XFRM_ALL
                         : has("xfrm") == LB_YES   ? LB_XFRM_LISTED
                                                   : LB_XFRM_NONE,
                 .conntrack_nat = has("conntrack_nat"),
                 .draining = has("draining"),
                 .pad = 0};
  programs_.node.store(0, node);
}

/// tables_lost SECONDS: for that time the flow tables may lack live flows
void World::lose_tables(const Words& words) {
  static const std::uint32_t hertz = agent::measure_hertz();
  auto node = programs_.node.load(0);
  node.lost_until = agent::flow_clock_now(hertz) + static_cast<std::uint32_t>(std::stoul(words.at(1)));
  programs_.node.store(0, node);
}

/// heartbeat SECONDS: the age of the agent's last heartbeat
void World::set_heartbeat(const Words& words) {
  static const std::uint32_t hertz = agent::measure_hertz();
  auto node = programs_.node.load(0);
  node.heartbeat = agent::flow_clock_now(hertz) - static_cast<std::uint32_t>(std::stol(words.at(1)));
  programs_.node.store(0, node);
}

/// selection SERVICE random|consistent: which key selects the backend
void World::set_selection(const Words& words) {
  auto element = programs_.services.load(service(words.at(1)));
  element.policy.selection = words.at(2) == "consistent" ? LB_CONSISTENT : LB_RANDOM;
  programs_.services.store(service(words.at(1)), element);
}

/// internal SERVICE cluster|local: the policy for its ClusterIP's clients
void World::set_internal(const Words& words) {
  auto element = programs_.services.load(service(words.at(1)));
  element.policy.internal = named(scopes, words.at(2));
  programs_.services.store(service(words.at(1)), element);
}

/// external SERVICE cluster|local: the policy for external clients
void World::set_external(const Words& words) {
  auto element = programs_.services.load(service(words.at(1)));
  element.policy.external = named(scopes, words.at(2));
  programs_.services.store(service(words.at(1)), element);
}

/// cluster_address ADDRESS: a ClusterIP whose other ports are refused
void World::add_cluster_address(const Words& words) {
  add_address_of(address_of(words.at(1)), LB_CLUSTER_ADDRESS, maps::Put::any);
}

/// pods|cluster_ips|xfrm ADDRESS/PREFIX: adds one range of that kind
void World::add_list(const Words& words) {
  static const Names<std::uint32_t> lists = {
      {"pods", LB_POD_RANGES}, {"cluster_ips", LB_CLUSTER_IP_RANGES}, {"xfrm", LB_XFRM_RANGES}};
  put_range(named(lists, words.at(0)), words.at(1));
}

/// reserve PORT...: ports that source NAT leaves to the kernel
void World::reserve(const Words& words) {
  for (std::size_t at = 1; at < words.size(); ++at) {
    keep_port(port_of(words[at]));
  }
}

/// unreserve PORT: the port is no longer reserved, for a node port neither
void World::unreserve(const Words& words) {
  const auto port = port_of(words.at(1));
  programs_.reserved.store(port / 64, programs_.reserved.load(port / 64) & ~(std::uint64_t{1} << port % 64));
}

/// retire BACKEND: its endpoint no longer replies
void World::retire(const Words& words) {
  auto element = programs_.backends.load(backend(words.at(1)));
  element.serving = element.in_cluster = element.in_local = LB_NO;
  programs_.backends.store(backend(words.at(1)), element);
}

/// remove SERVICE: removes its frontends
void World::remove_frontends(const Words& words) {
  const auto number = service(words.at(1));
  erase_if(programs_.frontends, [number](const lb_frontend& value) { return value.service == number; });
}

/// age SECONDS: makes all flows' opening and last packet that much older, and ends the programs' period of
/// midstream packets that much earlier
void World::age(const Words& words) {
  const auto seconds = static_cast<std::uint32_t>(std::stoul(words.at(1)));
  auto& until = programs_.midstream_until();
  until -= std::min(until, seconds);
  each_flow_map(programs_, [seconds](auto& map) {
    change_all(map, [seconds](auto& flow) {
      flow.track.seen -= seconds;
      flow.track.opened -= seconds;
    });
  });
}

/// age_memory SECONDS: makes all affinity entries that much older
void World::age_memory(const Words& words) {
  const auto seconds = static_cast<std::uint32_t>(std::stoul(words.at(1)));
  change_all(programs_.affinity, [seconds](auto& value) { value.used -= seconds; });
}

/// sleep MILLISECONDS: for timestamps that are under a check and cannot be changed
void World::sleep(const Words& words) {
  std::this_thread::sleep_for(std::chrono::milliseconds(std::stoul(words.at(1))));
}

/// affinity SERVICE SECONDS
void World::set_affinity(const Words& words) {
  auto element = programs_.services.load(service(words.at(1)));
  element.affinity_seconds = static_cast<std::uint32_t>(std::stoul(words.at(2)));
  programs_.services.store(service(words.at(1)), element);
}

void World::put_range(std::uint32_t number, const std::string& prefix) {
  const auto slash = prefix.find('/');
  const auto text = prefix.substr(0, slash);
  const auto mapped = text.find(':') == std::string::npos ? 96U : 0U;
  lb_range_key key{};
  key.prefix = 32U + mapped + static_cast<std::uint32_t>(std::stoul(prefix.substr(slash + 1)));
  key.service = number;
  const auto bytes = address_of(text);
  std::memcpy(key.address, bytes.data(), bytes.size());
  must(put(programs_.ranges, key, {.service = number}, maps::Put::any));
}

/// range SERVICE ADDRESS/PREFIX: admits only these clients to its load-balancer addresses
void World::add_range(const Words& words) {
  const auto number = service(words.at(1));
  put_range(number, words.at(2));
  auto element = programs_.services.load(number);
  element.policy.source_ranges = LB_YES;
  programs_.services.store(number, element);
}

/// states FORWARD REPLY: checks the states of the one flow in lb_flows; throws if they differ
void World::check_states(const Words& words) {
  const auto check = [&](const auto& map) {
    must(map.for_each([&](const auto&, const auto& flow) {
      const auto& expected = words.at(flow.track.direction == LB_FORWARD ? 1 : 2);
      if (maps::word(flow.track.state) != expected) {
        throw std::runtime_error(
            fmt::format("expected the state {}, found {}", expected, maps::word(flow.track.state)));
      }
    }));
  };
  check(programs_.flows4);
  check(programs_.flows6);
}

/// midstream expected|unexpected: checks whether the programs look up midstream packets among unassured flows
void World::check_midstream(const Words& words) {
  static const std::uint32_t hertz = agent::measure_hertz();
  const bool expected = programs_.midstream_until() > agent::flow_clock_now(hertz);
  if (expected != (words.at(1) == "expected")) {
    throw std::runtime_error(fmt::format("midstream packets are {}expected", expected ? "" : "un"));
  }
}

/// evict forward|reply: removes that entry of every unassured flow, as the LRU may do
void World::evict(const Words& words) {
  const auto direction = words.at(1) == "reply" ? LB_REPLY : LB_FORWARD;
  const auto condition = [direction](const auto& flow) { return flow.track.direction == direction; };
  erase_if(programs_.unassured4, condition);
  erase_if(programs_.unassured6, condition);
}

/// corrupt WHAT: makes every value's check in that table wrong, as if it were another key's
void World::corrupt(const Words& words) {
  const auto flip = [](auto& value) { value.check ^= 0x55; };
  if (words.at(1) == "affinity") {
    return change_all(programs_.affinity, flip);
  }
  if (words.at(1) == "fragments") {
    return change_all(programs_.fragments, flip);
  }
  if (words.at(1) == "ranges") {
    return change_all(programs_.ranges, [](lb_range& value) { value.service ^= 0x55; });
  }
  if (words.at(1) != "flows" && words.at(1) != "frontends" && words.at(1) != "addresses" &&
      words.at(1) != "devices") {
    throw std::runtime_error("nothing to corrupt: " + words.at(1));
  }
  if (words.at(1) == "frontends") {
    return change_all(programs_.frontends, flip);
  }
  if (words.at(1) == "addresses") {
    return change_all(programs_.addresses, flip);
  }
  if (words.at(1) == "devices") {
    return change_all(programs_.devices, flip);
  }
  change_all(programs_.flows4, [](auto& flow) { flow.source.check ^= 0x55; });
  change_all(programs_.unassured4, [](auto& flow) { flow.destination.check ^= 0x55; });
  change_all(programs_.flows6, flip);
  change_all(programs_.unassured6, flip);
}

/// forget established|all|everything: empties lb_flows, as if it had been lost; all flow tables; also the
/// programs' period of midstream packets
void World::forget(const Words& words) {
  if (words.at(1) == "everything") {
    programs_.midstream_until() = 0;
  }
  if (words.at(1) == "all" || words.at(1) == "everything") {
    return clear_flows();
  }
  if (words.at(1) != "established") {
    throw std::runtime_error("forgets established flows, all, or everything");
  }
  const auto all = [](const auto&) { return true; };
  erase_if(programs_.flows4, all);
  erase_if(programs_.flows6, all);
}

/// expire: one round of the agent's expiry, with its default timeouts
void World::expire(const Words& /*words*/) {
  static const std::uint32_t hertz = agent::measure_hertz();
  agent::FlowExpiry expiry(programs_.flows4, programs_.flows6, {},
                           {.now = [] { return agent::flow_clock_now(hertz); }});
  while (expiry.rounds() == 0) {
    if (const auto pause = expiry.step(); !pause) {
      must(pause.error());
    }
  }
}

}  // namespace lb::test
