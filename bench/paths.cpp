// SPDX-License-Identifier: Apache-2.0
// For each path: the services, the packet that takes it, and the outcome that proves it.
#include "bench/paths.hpp"

#include <linux/pkt_cls.h>

#include <random>
#include <stdexcept>
#include <utility>

namespace lb::bench {

using namespace lb::test;

namespace {

constexpr std::uint8_t udp = 17;
constexpr std::uint32_t hour = 3600;
// For 15 rounds of single runs; the programs send at most a thousand replies a second.
constexpr std::uint32_t answers_per_round = 60;

Shape shape_of(const Place& place) { return {.slots = place.slots, .family = place.family}; }

/// A shape with enough ports for all new flows of a test.
Shape shape_of_new(const Place& place) {
  auto shape = shape_of(place);
  shape.first_port = 1024;
  shape.last_port = 65535;
  return shape;
}

lb_outcome known_outcome(Hook hook) {
  return hook == Hook::xdp ? LB_OUTCOME_flow_xdp : LB_OUTCOME_flow_redirect;
}

lb_outcome new_outcome(Hook hook) { return hook == Hook::xdp ? LB_OUTCOME_new_xdp : LB_OUTCOME_new_remote; }

/// Repeats the same packet each time, in runs of `hops`.
Case repeated(std::unique_ptr<Mirror> owned, Hook hook, Bytes packet, lb_outcome outcome,
              std::uint32_t hops = hops_per_batch) {
  auto& mirror = *owned;
  return {std::move(owned), [&mirror, hook, outcome, hops, packet = std::move(packet)] {
            return mirror.batch(hook, packet, outcome, hops);
          }};
}

Bytes request_of(const Mirror& mirror, int family, const Body& body) {
  return build(mirror.request(names_of(family).client, 0), body);
}

/// ---- Flows that are known. ----

/// Two flows, between which an established packet goes back and forth.
std::unique_ptr<Mirror> with_flows(const Place& place, const Shape& shape) {
  auto mirror = std::make_unique<Mirror>(shape, place.device);
  mirror->establish_pair(Hook::tc_in, Hook::tc_in);
  return mirror;
}

/// Every few seconds XDP leaves a flow to tc until tc has seen it; so tc sees it before each batch.
Case known(const Place& place, const Shape& shape) {
  auto owned = with_flows(place, shape);
  auto& mirror = *owned;
  return {std::move(owned),
          [&mirror, hook = place.hook, packet = request_of(mirror, place.family, {.hops = 255})] {
            mirror.run(Hook::tc_in, packet, 2);
            return mirror.batch(hook, packet, known_outcome(hook), hops_per_batch);
          }};
}

Case known_udp(const Place& place) {
  auto shape = shape_of(place);
  shape.protocol = udp;
  return known(place, shape);
}

/// Requests at `there` and replies at `back`; the place's hook sees one of them. Each run is of a new packet:
/// one that is passed to the stack is marked, so that no other hook translates it again.
Case by_stack(const Place& place, const Shape& shape, Hook there, Hook back) {
  auto mirror = std::make_unique<Mirror>(shape, place.device);
  mirror->establish_pair(there, back);
  auto tuple = mirror->request(names_of(place.family).client, 0);
  if (place.hook == back) {
    tuple = tuple.reversed();
  }
  return repeated(std::move(mirror), place.hook, build(tuple, {}), LB_OUTCOME_flow_stack, 1);
}

Case local(const Place& place) {
  auto shape = shape_of(place);
  shape.locality = LB_SAME_NODE;
  return by_stack(place, shape, Hook::tc_in, Hook::tc_out);
}

Case from_pod(const Place& place) {
  auto shape = shape_of(place);
  shape.device = LB_POD;
  return by_stack(place, shape, Hook::pod_in, Hook::pod_out);
}

/// The fragment of a datagram that begins at `units` times 8 bytes; for IPv6 its options header becomes the
/// fragment header.
Bytes fragment_of(const Tuple& tuple, std::uint16_t units) {
  constexpr std::size_t header = 8;
  Body body{.hops = 255, .options = tuple.family == 6 ? header : 0, .payload = Bytes(16)};
  auto packet = build(tuple, body);
  const auto layout = layout_of(packet).value();
  const bool last = units > 0;
  if (tuple.family == 4) {
    write16(packet, layout.network + 6, static_cast<std::uint16_t>(units | (last ? 0 : 0x2000)));
    write16(packet, layout.network + 10, header_sum(packet, layout));
    return packet;
  }
  const auto extension = layout.transport - header;
  packet[layout.network + 6] = 44;
  write16(packet, extension + 2, static_cast<std::uint16_t>(units << 3 | (last ? 0 : 1)));
  write16(packet, extension + 6, 0x1234);
  return packet;
}

/// The first fragment is remembered for a second, so each batch begins with it, back and forth.
Case later_fragment(const Place& place) {
  auto shape = shape_of(place);
  shape.protocol = udp;
  auto owned = with_flows(place, shape);
  auto& mirror = *owned;
  const auto tuple = mirror.request(names_of(place.family).client, 0);
  return {std::move(owned),
          [&mirror, hook = place.hook, first = fragment_of(tuple, 0), later = fragment_of(tuple, 3)] {
            mirror.run(hook, first, 2);
            return mirror.batch(hook, later, LB_OUTCOME_flow_redirect, hops_per_batch);
          }};
}

/// ---- Flows that are new. ----

/// A request from the client with this number.
Tuple request_from(const Mirror& mirror, int family, std::uint32_t number) {
  auto tuple = mirror.request(names_of(family).client, 0);
  for (const std::size_t at : {15U, 14U, 13U}) {
    tuple.source.address.at(at) = static_cast<std::uint8_t>(number & 0xff);
    number >>= 8;
  }
  return tuple;
}

/// Each batch uses another client, because a datagram's flow has an entry in its own direction at once.
Case opened(const Place& place, const Shape& shape, const Body& body) {
  auto owned = std::make_unique<Mirror>(shape, place.device);
  auto& mirror = *owned;
  return {std::move(owned), [&mirror, place, body, random = std::mt19937_64(place.slots)]() mutable {
            mirror.renew(random());
            const auto tuple = request_from(mirror, place.family, static_cast<std::uint32_t>(random()));
            return mirror.batch(place.hook, build(tuple, body), new_outcome(place.hook), new_per_batch);
          }};
}

const Body first_segment{.hops = 255, .flags = syn};

Case opened_udp(const Place& place) {
  auto shape = shape_of_new(place);
  shape.protocol = udp;
  return opened(place, shape, {.hops = 255});
}

Case opened_consistent(const Place& place) {
  auto shape = shape_of_new(place);
  shape.policy.selection = LB_CONSISTENT;
  return opened(place, shape, first_segment);
}

Case opened_in_range(const Place& place) {
  auto shape = shape_of_new(place);
  shape.policy.source_ranges = LB_YES;
  auto made = opened(place, shape, first_segment);
  made.mirror->allow(place.family == 4 ? "0.0.0.0" : "::", 0);
  return made;
}

/// A batch's first packets come from addresses without an affinity entry; so some others are sent before.
Case opened_affine(const Place& place) {
  auto shape = shape_of_new(place);
  shape.affinity_seconds = hour;
  auto owned = std::make_unique<Mirror>(shape, place.device);
  auto& mirror = *owned;
  return {std::move(owned),
          [&mirror, hook = place.hook, packet = request_of(mirror, place.family, first_segment),
           random = std::mt19937_64(place.slots)]() mutable {
            mirror.renew(random());
            mirror.run(hook, packet, 3);
            mirror.set_secret(random());
            return mirror.batch(hook, packet, new_outcome(hook), new_per_batch);
          }};
}

// Beyond the clients with other roles here.
constexpr std::uint32_t first_client = 0x10000;

/// Each packet comes from another client.
Case opened_singly(const Place& place, const Shape& shape, lb_outcome outcome) {
  auto owned = std::make_unique<Mirror>(shape, place.device);
  auto& mirror = *owned;
  mirror.renew(1);
  return {std::move(owned), [&mirror, place, outcome, number = first_client]() mutable {
            const auto tuple = request_from(mirror, place.family, ++number);
            return mirror.batch(place.hook, build(tuple, first_segment), outcome, 1);
          }};
}

Case opened_local(const Place& place) {
  auto shape = shape_of_new(place);
  shape.locality = LB_SAME_NODE;
  return opened_singly(place, shape, LB_OUTCOME_new_local);
}

Case opened_from_pod(const Place& place) {
  auto shape = shape_of_new(place);
  shape.device = LB_POD;
  return opened_singly(place, shape, LB_OUTCOME_new_from_pod);
}

Case opened_unknown_client(const Place& place) {
  auto shape = shape_of_new(place);
  shape.affinity_seconds = hour;
  return opened_singly(place, shape, LB_OUTCOME_new_remote);
}

/// ---- Packets that are refused. ----

Case out_of_range(const Place& place) {
  auto shape = shape_of(place);
  shape.policy.source_ranges = LB_YES;
  auto mirror = std::make_unique<Mirror>(shape, place.device);
  mirror->allow(names_of(place.family).node, place.family == 4 ? 32 : 128);
  auto packet = request_of(*mirror, place.family, first_segment);
  return repeated(std::move(mirror), place.hook, std::move(packet), LB_OUTCOME_range_denied);
}

/// A reply leaves by the device that the packet came by.
Case answered(const Place& place) {
  auto shape = shape_of(place);
  shape.empty = true;
  shape.device = place.hook == Hook::pod_in ? LB_POD : LB_UPLINK;
  auto owned = std::make_unique<Mirror>(shape, place.device);
  auto& mirror = *owned;
  auto packet = request_of(mirror, place.family, first_segment);
  set_macs(packet, {2, 1, 0, 0, 0, 1}, device_mac);
  return {std::move(owned),
          [&mirror, hook = place.hook, packet] {
            const auto verdict = mirror.run(hook, packet, 1);
            const bool sent =
                verdict.counts[LB_OUTCOME_no_backend_reject] == 1 && verdict.code == TC_ACT_REDIRECT;
            return sent ? verdict.nanoseconds : 0.0;
          },
          answers_per_round};
}

/// ---- Packets that are for no service. ----

/// A mid-connection packet to a destination that no service has.
Case foreign(const Place& place, const Endpoint& destination) {
  auto shape = shape_of(place);
  shape.device = place.hook == Hook::pod_in || place.hook == Hook::pod_out ? LB_POD : LB_UPLINK;
  auto mirror = std::make_unique<Mirror>(shape, place.device);
  auto tuple = mirror->request(names_of(place.family).client, 0);
  tuple.destination = destination;
  const auto outcome = place.hook == Hook::xdp ? LB_OUTCOME_left_to_tc : LB_OUTCOME_unrelated;
  return repeated(std::move(mirror), place.hook, build(tuple, {.hops = 255}), outcome);
}

Case unrelated_at_service(const Place& place) {
  return foreign(place, {address(names_of(place.family).frontends[0]), service_port + 1});
}

}  // namespace

Case established(const Place& place) { return known(place, shape_of(place)); }

Case looked_after(const Place& place) {
  auto shape = shape_of(place);
  shape.protocol = udp;
  auto owned = with_flows(place, shape);
  auto& mirror = *owned;
  return {std::move(owned), [&mirror, hook = place.hook, age = mirror.aging(),
                             packet = request_of(mirror, place.family, {.hops = 255})] {
            age();
            return mirror.batch(hook, packet, known_outcome(hook), 1);
          }};
}

Case new_flows(const Place& place) { return opened(place, shape_of_new(place), first_segment); }

Case unrelated(const Place& place) {
  return foreign(place, {address(place.family == 4 ? "192.0.2.99" : "2001:db8:1::99"), service_port});
}

const char* name_of(Hook hook) {
  switch (hook) {
    case Hook::tc_in:
      return "tc ingress";
    case Hook::tc_out:
      return "tc egress";
    case Hook::xdp:
      return "XDP";
    case Hook::pod_in:
      return "pod ingress";
    case Hook::pod_out:
      return "pod egress";
  }
  throw std::logic_error("no such hook");
}

const std::vector<Path>& paths() {
  static const std::vector<Path> all = {
      {"established UDP", Hook::xdp, known_udp},
      {"established UDP", Hook::tc_in, known_udp},
      {"established, to a local backend by the stack; single runs", Hook::tc_in, local},
      {"established, reply of a local backend; single runs", Hook::tc_out, local},
      {"established, from a pod; single runs", Hook::pod_in, from_pod},
      {"established, reply to a pod; single runs", Hook::pod_out, from_pod},
      {"fragment that is not the first, of an established UDP flow", Hook::tc_in, later_fragment},
      {"unrelated, to another port of a service's address", Hook::xdp, unrelated_at_service},
      {"unrelated, to another port of a service's address", Hook::tc_in, unrelated_at_service},
      {"unrelated", Hook::tc_out, unrelated},
      {"unrelated", Hook::pod_in, unrelated},
      {"unrelated", Hook::pod_out, unrelated},
      {"new UDP flow (two inserts), source NAT", Hook::xdp, opened_udp},
      {"new UDP flow (two inserts), source NAT", Hook::tc_in, opened_udp},
      {"new flow (SYN), session affinity, client known", Hook::xdp, opened_affine},
      {"new flow (SYN), session affinity, client known", Hook::tc_in, opened_affine},
      {"new flow (SYN), consistent", Hook::xdp, opened_consistent},
      {"new flow (SYN), consistent", Hook::tc_in, opened_consistent},
      {"new flow (SYN), client in a source range", Hook::xdp, opened_in_range},
      {"new flow (SYN), client in a source range", Hook::tc_in, opened_in_range},
      {"refused: client in no source range", Hook::tc_in, out_of_range},
      {"new flow (SYN), session affinity, client unknown; single runs", Hook::tc_in, opened_unknown_client},
      {"new flow (SYN) to a local backend; single runs", Hook::tc_in, opened_local},
      {"new flow (SYN) from a pod; single runs", Hook::pod_in, opened_from_pod},
      {"refused by ICMP: no endpoints; single runs", Hook::tc_in, answered},
      {"refused by a reset: no endpoints; single runs", Hook::pod_in, answered},
  };
  return all;
}

}  // namespace lb::bench
