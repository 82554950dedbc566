// SPDX-License-Identifier: Apache-2.0
// Fills the maps for two mirrored services, and opens their flows by handshakes.
#include "bench/mirror.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <net/if.h>

#include <cstring>
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bench/rounds.hpp"
#include "maps/abi/checks.h"

namespace lb::bench {

using namespace lb::test;

namespace {

constexpr std::uint32_t spare_slots = 64;

const Names names4 = {"192.0.2.10", "192.0.2.20", {"192.0.2.80", "192.0.2.81"}};
const Names names6 = {"2001:db8:1::10", "2001:db8:1::20", {"2001:db8:1::80", "2001:db8:1::81"}};

void must(const maps::error_code& error) {
  if (error) {
    throw std::runtime_error("a map refused: " + error.message());
  }
}

void demand_proven(const Verdict& last) {
  demand(last.counts[LB_OUTCOME_assured] == 1, "no established flow: " + counts_text(last.counts));
}

template <class Key, class Flow>
std::function<void()> aging_of(maps::HashMap<Key, Flow>& flows) {
  std::vector<Key> keys;
  must(flows.for_each([&](const Key& key, const Flow&) { keys.push_back(key); }));
  return [&flows, keys = std::move(keys)] {
    for (const auto& key : keys) {
      auto flow = flows.get(key).value();
      --flow.track.seen;
      must(flows.put(key, flow, maps::Put::any));
    }
  };
}

Settings settings_of(const Shape& shape) {
  Settings settings;
  settings.slots = settings.backends = shape.slots + spare_slots;
  settings.flows = LB_MAX_FLOWS;
  settings.unassured = LB_MAX_UNASSURED;
  settings.config.fib_source = LB_NO;
  settings.config.first_port = shape.first_port;
  settings.config.last_port = shape.last_port;
  settings.config.high_first_port = settings.config.high_last_port = 0;
  return settings;
}

}  // namespace

const Names& names_of(int family) { return family == 4 ? names4 : names6; }

Address address(const std::string& text) {
  Address bytes{};
  const auto mapped = text.find(':') == std::string::npos ? "::ffff:" + text : text;
  if (::inet_pton(AF_INET6, mapped.c_str(), bytes.data()) != 1) {
    throw std::runtime_error(text);
  }
  return bytes;
}

std::uint32_t make_network() {
  run_ip(
      "link add bench0 address 02:00:00:00:00:10 type veth peer name bench0p\nlink set bench0 up\n"
      "link set bench0p up\naddress add 192.0.2.1/24 dev bench0\naddress add 2001:db8:1::1/64 dev bench0 "
      "nodad\n");
  for (const auto* names : {&names4, &names6}) {
    for (const auto* text : {names->client, names->node, names->frontends[0], names->frontends[1]}) {
      // The device's own address: XDP's output frame is its next input frame.
      run_ip(fmt::format("neighbour replace {} lladdr 02:00:00:00:00:10 dev bench0 nud permanent\n", text));
    }
  }
  return ::if_nametoindex("bench0");
}

Mirror::Mirror(const Shape& shape, std::uint32_t device)
    : shape_(shape), programs_(settings_of(shape)), device_(device) {
  must(programs_.devices.put(device, {.kind = shape.device, .pad = {}, .check = lb_device_check(device)},
                             maps::Put::any));
  must(maps::raw::put(programs_.map("lb_devmap"), &device, &device, maps::Put::any));
  programs_.set_frame_address(device);
  attach();
  for (const int number : {0, 1}) {
    add_service(number);
  }
}

void Mirror::attach() { attach_xdp(device_, programs_.program(Hook::xdp)); }

void Mirror::add_service(int number) {
  const auto ours = static_cast<std::size_t>(number);
  const auto id = static_cast<std::uint32_t>(number) + 1;
  const auto& names = names_of(shape_.family);
  lb_backend backend{};
  const auto target = address(names.frontends[1 - ours]);
  std::memcpy(backend.address, target.data(), target.size());
  backend.service = id;
  backend.locality = shape_.locality;
  backend.in_cluster = backend.serving = LB_YES;
  backend.port = service_port;
  const std::uint32_t slots = shape_.slots / 2;
  const std::uint32_t first = (id - 1) * slots;
  for (std::uint32_t at = first; at < first + slots; ++at) {
    programs_.backends.store(at + 1, backend);
    programs_.slots.store(at, at + 1);
  }
  lb_service service{};
  service.cluster = {first, shape_.empty ? 0 : slots};
  service.policy = shape_.policy;
  service.affinity_seconds = shape_.affinity_seconds;
  programs_.services.store(id, service);
  add_frontend(id, address(names.frontends[ours]));
}

void Mirror::add_frontend(std::uint32_t service, const Address& at) {
  lb_frontend_key key{};
  std::memcpy(key.address, at.data(), at.size());
  key.port = service_port;
  key.protocol = static_cast<lb_protocol>(shape_.protocol);
  must(programs_.frontends.put(
      key, {.service = service, .kind = LB_LOAD_BALANCER, .pad = 0, .check = lb_frontend_check(&key)},
      maps::Put::any));
  lb_address_key address{};
  std::memcpy(address.address, at.data(), at.size());
  must(programs_.addresses.put(
      address, {.kind = LB_SERVICE_ADDRESS, .pad = {}, .check = lb_address_check(&address)}, maps::Put::any));
}

void Mirror::set_source(const std::string& text) {
  auto node = programs_.node.load(0);
  const auto bytes = address(text);
  std::memcpy(shape_.family == 4 ? node.source4 : node.source6, bytes.data(), bytes.size());
  programs_.node.store(0, node);
}

void Mirror::set_secret(std::uint64_t secret) {
  auto node = programs_.node.load(0);
  node.secret[0] = secret;
  programs_.node.store(0, node);
}

void Mirror::allow(const std::string& text, std::uint32_t bits) {
  constexpr std::uint32_t service_bits = 32;
  constexpr std::uint32_t mapped_bits = 96;
  for (const std::uint32_t service : {1U, 2U}) {
    lb_range_key key{};
    const auto bytes = address(text);
    key.prefix = service_bits + bits + (shape_.family == 4 ? mapped_bits : 0);
    key.service = service;
    std::memcpy(key.address, bytes.data(), bytes.size());
    must(programs_.ranges.put(key, {.service = service}, maps::Put::any));
  }
}

void Mirror::renew(std::uint64_t drawn) {
  set_secret(drawn);
  set_source(fmt::format(fmt::runtime(shape_.family == 4 ? "10.{}.{}.1" : "fd00::{:x}:{:x}"), drawn % 256,
                         drawn / 256 % 256));
}

std::function<void()> Mirror::aging() {
  return shape_.family == 4 ? aging_of(programs_.flows4) : aging_of(programs_.flows6);
}

Verdict Mirror::run(Hook hook, const Bytes& packet, std::uint32_t repeat) {
  return programs_.run({.hook = hook, .device = device_, .repeat = repeat}, packet);
}

double Mirror::batch(Hook hook, const Bytes& packet, lb_outcome outcome, std::uint32_t repeat) {
  const auto verdict = run(hook, packet, repeat);
  return verdict.counts[outcome] == repeat ? verdict.nanoseconds : 0;
}

Tuple Mirror::request(const char* client, int frontend) const {
  return {shape_.family,
          shape_.protocol,
          {address(client), client_port},
          {address(names_of(shape_.family).frontends[static_cast<std::size_t>(frontend)]), service_port}};
}

void Mirror::establish(const Tuple& request, Hook there, Hook back) {
  const auto first = run(there, build(request, {.flags = syn}), 1);
  const auto opened = first.counts[LB_OUTCOME_new_remote] + first.counts[LB_OUTCOME_new_local] +
                      first.counts[LB_OUTCOME_new_from_pod];
  demand(opened == 1, "no new flow: " + counts_text(first.counts));
  const auto answer = tuple_of(first.packet).reversed();
  const auto second = run(back, build(answer, {.flags = syn | ack, .sequence = 700, .acknowledged = 1}), 1);
  if (shape_.protocol == 17) {
    return demand_proven(second);
  }
  demand_proven(run(there, build(request, {.flags = ack, .acknowledged = 701}), 1));
}

void Mirror::establish_pair(Hook there, Hook back) {
  const auto& names = names_of(shape_.family);
  const bool source_nat = shape_.locality == LB_ELSEWHERE && shape_.device == LB_UPLINK;
  set_source(names.node);
  establish(request(names.client, 0), there, back);
  set_source(names.client);
  establish(request(source_nat ? names.node : names.client, 1), there, back);
}

}  // namespace lb::bench
