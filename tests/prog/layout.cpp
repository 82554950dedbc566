// SPDX-License-Identifier: Apache-2.0
// The map contract in both languages: every struct of abi.h has the same layout in C++ as in the built
// object's BTF, and every loaded map has BTF for its key and value.
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "maps/abi/abi.h"
#include "maps/abi/choices.h"
#include "tests/lib/paths.hpp"

namespace {

struct Member {
  const char* name;
  std::size_t offset;
  std::size_t size;
};

struct Struct {
  const char* name;
  std::size_t size;
  std::vector<Member> members;
};

#define MEMBER(type, member) \
  Member { #member, offsetof(type, member), sizeof(type::member) }
#define COUNTER(name, action, meaning) MEMBER(lb_stats, name),
#define STRUCT(type, ...)                \
  Struct {                               \
    #type, sizeof(type), { __VA_ARGS__ } \
  }

std::vector<Struct> structs() {
  return {
      STRUCT(lb_frontend_key, MEMBER(lb_frontend_key, address), MEMBER(lb_frontend_key, port),
             MEMBER(lb_frontend_key, protocol), MEMBER(lb_frontend_key, pad)),
      STRUCT(lb_frontend, MEMBER(lb_frontend, service), MEMBER(lb_frontend, kind), MEMBER(lb_frontend, pad),
             MEMBER(lb_frontend, check)),
      STRUCT(lb_address_key, MEMBER(lb_address_key, address)),
      STRUCT(lb_address, MEMBER(lb_address, kind), MEMBER(lb_address, pad), MEMBER(lb_address, check)),
      STRUCT(lb_device, MEMBER(lb_device, kind), MEMBER(lb_device, pad), MEMBER(lb_device, check)),
      STRUCT(lb_slots_pair, MEMBER(lb_slots_pair, ids)),
      STRUCT(lb_set, MEMBER(lb_set, first), MEMBER(lb_set, count)),
      STRUCT(lb_policy, MEMBER(lb_policy, internal), MEMBER(lb_policy, external),
             MEMBER(lb_policy, cluster_empty), MEMBER(lb_policy, local_empty),
             MEMBER(lb_policy, source_ranges), MEMBER(lb_policy, packet_path), MEMBER(lb_policy, selection),
             MEMBER(lb_policy, weight_error)),
      STRUCT(lb_service, MEMBER(lb_service, cluster), MEMBER(lb_service, local), MEMBER(lb_service, policy),
             MEMBER(lb_service, affinity_seconds), MEMBER(lb_service, pad)),
      STRUCT(lb_name, MEMBER(lb_name, service), MEMBER(lb_name, protocol), MEMBER(lb_name, family),
             MEMBER(lb_name, retired), MEMBER(lb_name, pad)),
      STRUCT(lb_backend, MEMBER(lb_backend, address), MEMBER(lb_backend, service),
             MEMBER(lb_backend, locality), MEMBER(lb_backend, in_cluster), MEMBER(lb_backend, in_local),
             MEMBER(lb_backend, serving), MEMBER(lb_backend, port), MEMBER(lb_backend, weight),
             MEMBER(lb_backend, pad)),
      STRUCT(lb_flow4_key, MEMBER(lb_flow4_key, source), MEMBER(lb_flow4_key, destination),
             MEMBER(lb_flow4_key, source_port), MEMBER(lb_flow4_key, destination_port),
             MEMBER(lb_flow4_key, protocol), MEMBER(lb_flow4_key, pad)),
      STRUCT(lb_flow6_key, MEMBER(lb_flow6_key, source), MEMBER(lb_flow6_key, destination),
             MEMBER(lb_flow6_key, source_port), MEMBER(lb_flow6_key, destination_port),
             MEMBER(lb_flow6_key, protocol), MEMBER(lb_flow6_key, family), MEMBER(lb_flow6_key, pad)),
      STRUCT(lb_end4, MEMBER(lb_end4, address), MEMBER(lb_end4, port), MEMBER(lb_end4, check)),
      STRUCT(lb_track, MEMBER(lb_track, backend), MEMBER(lb_track, service), MEMBER(lb_track, device),
             MEMBER(lb_track, seen), MEMBER(lb_track, opened), MEMBER(lb_track, number),
             MEMBER(lb_track, side), MEMBER(lb_track, other_side), MEMBER(lb_track, direction),
             MEMBER(lb_track, path), MEMBER(lb_track, state), MEMBER(lb_track, source_nat),
             MEMBER(lb_track, fast_open), MEMBER(lb_track, forwarded)),
      STRUCT(lb_flow4, MEMBER(lb_flow4, source), MEMBER(lb_flow4, destination), MEMBER(lb_flow4, track)),
      STRUCT(lb_flow6, MEMBER(lb_flow6, source), MEMBER(lb_flow6, destination), MEMBER(lb_flow6, source_port),
             MEMBER(lb_flow6, destination_port), MEMBER(lb_flow6, check), MEMBER(lb_flow6, track)),
      STRUCT(lb_affinity_key, MEMBER(lb_affinity_key, client), MEMBER(lb_affinity_key, service),
             MEMBER(lb_affinity_key, pad)),
      STRUCT(lb_affinity, MEMBER(lb_affinity, backend), MEMBER(lb_affinity, used), MEMBER(lb_affinity, check),
             MEMBER(lb_affinity, pad)),
      STRUCT(lb_range_key, MEMBER(lb_range_key, prefix), MEMBER(lb_range_key, service),
             MEMBER(lb_range_key, address)),
      STRUCT(lb_range, MEMBER(lb_range, service)),
      STRUCT(lb_fragment_key, MEMBER(lb_fragment_key, source), MEMBER(lb_fragment_key, destination),
             MEMBER(lb_fragment_key, id), MEMBER(lb_fragment_key, protocol), MEMBER(lb_fragment_key, pad)),
      STRUCT(lb_fragment, MEMBER(lb_fragment, source_port), MEMBER(lb_fragment, destination_port),
             MEMBER(lb_fragment, seen), MEMBER(lb_fragment, check), MEMBER(lb_fragment, pad)),
      STRUCT(lb_pair, MEMBER(lb_pair, address), MEMBER(lb_pair, backend_address), MEMBER(lb_pair, port),
             MEMBER(lb_pair, backend_port), MEMBER(lb_pair, backend), MEMBER(lb_pair, service),
             MEMBER(lb_pair, protocol), MEMBER(lb_pair, used), MEMBER(lb_pair, direct),
             MEMBER(lb_pair, sent)),
      STRUCT(lb_direct_peers, MEMBER(lb_direct_peers, recent), MEMBER(lb_direct_peers, before),
             MEMBER(lb_direct_peers, begun), MEMBER(lb_direct_peers, pad)),
      STRUCT(lb_socket, MEMBER(lb_socket, pairs), MEMBER(lb_socket, direct), MEMBER(lb_socket, sharing),
             MEMBER(lb_socket, pad)),
      STRUCT(lb_socket_use, MEMBER(lb_socket_use, made), MEMBER(lb_socket_use, most),
             MEMBER(lb_socket_use, counted)),
      STRUCT(lb_peer_key, MEMBER(lb_peer_key, netns), MEMBER(lb_peer_key, address), MEMBER(lb_peer_key, port),
             MEMBER(lb_peer_key, local_port), MEMBER(lb_peer_key, pad)),
      STRUCT(lb_shared_peer, MEMBER(lb_shared_peer, address), MEMBER(lb_shared_peer, port),
             MEMBER(lb_shared_peer, pad), MEMBER(lb_shared_peer, check)),
      STRUCT(lb_port_key, MEMBER(lb_port_key, netns), MEMBER(lb_port_key, port), MEMBER(lb_port_key, pad)),
      STRUCT(lb_node_policy, MEMBER(lb_node_policy, local_detection4),
             MEMBER(lb_node_policy, local_detection6), MEMBER(lb_node_policy, masquerade_all),
             MEMBER(lb_node_policy, drop_unallocated), MEMBER(lb_node_policy, xfrm),
             MEMBER(lb_node_policy, conntrack_nat), MEMBER(lb_node_policy, draining),
             MEMBER(lb_node_policy, pad)),
      STRUCT(lb_node, MEMBER(lb_node, source4), MEMBER(lb_node, source6), MEMBER(lb_node, secret),
             MEMBER(lb_node, choice), MEMBER(lb_node, policy), MEMBER(lb_node, layout),
             MEMBER(lb_node, hertz), MEMBER(lb_node, lost_until), MEMBER(lb_node, heartbeat),
             MEMBER(lb_node, started), MEMBER(lb_node, version), MEMBER(lb_node, name), MEMBER(lb_node, zone),
             MEMBER(lb_node, sockets), MEMBER(lb_node, packets), MEMBER(lb_node, missing),
             MEMBER(lb_node, drain_started), MEMBER(lb_node, drain_deadline)),
      STRUCT(lb_config, MEMBER(lb_config, clock_factor), MEMBER(lb_config, unassured_seconds),
             MEMBER(lb_config, first_port), MEMBER(lb_config, last_port), MEMBER(lb_config, high_first_port),
             MEMBER(lb_config, high_last_port), MEMBER(lb_config, fib_source), MEMBER(lb_config, csum_ipv6),
             MEMBER(lb_config, ct_lookup), MEMBER(lb_config, skb_sums), MEMBER(lb_config, host_sockets),
             MEMBER(lb_config, fib_mark), MEMBER(lb_config, stack_forwards), MEMBER(lb_config, preemptible),
             MEMBER(lb_config, host_cookie_low), MEMBER(lb_config, host_cookie_high),
             MEMBER(lb_config, orphaned_after)),
      STRUCT(lb_choices, MEMBER(lb_choices, tc_fastpath), MEMBER(lb_choices, xdp_fastpath),
             MEMBER(lb_choices, egress_verdicts), MEMBER(lb_choices, pad)),
      STRUCT(lb_stats, LB_OUTCOMES(COUNTER)),
  };
}

/// State that programs keep between two of their own calls; the agent never reads it.
const std::set<std::string> scratch{"lb_scratch", "lb_fib_cache_entry", "lb_frag_queue", "lb_frag_index"};

/// Sizes of keys and values of the maps that are pinned with this layout. An agent adopts no map of another
/// size, so another size needs another LB_LAYOUT.
static_assert(LB_LAYOUT == 8);
const std::map<std::string, std::pair<std::uint32_t, std::uint32_t>> pinned_sizes{
    {"lb_addresses", {16, 8}},    {"lb_affinity", {24, 16}},     {"lb_backends", {4, 32}},
    {"lb_devices", {4, 8}},       {"lb_devmap", {4, 4}},         {"lb_fib_cache", {4, 64}},
    {"lb_flows4", {16, 48}},      {"lb_flows6", {40, 72}},       {"lb_frag_index", {4, 1032}},
    {"lb_frag_queue", {4, 1600}}, {"lb_fragments", {40, 16}},    {"lb_frontends", {20, 8}},
    {"lb_locks", {4, 8}},         {"lb_names", {4, 200}},        {"lb_node", {4, 872}},
    {"lb_ranges", {24, 4}},       {"lb_reserved", {4, 8}},       {"lb_services", {4, 32}},
    {"lb_slots", {4, 8}},         {"lb_sockets", {4, 432}},      {"lb_stats", {4, 496}},
    {"lb_unassured4", {16, 48}},  {"lb_unassured6", {40, 72}},   {"lb_tcp_sockets", {4, 48}},
    {"lb_socket_use", {4, 24}},   {"lb_shared_peers", {32, 24}}, {"lb_shared_ports", {16, 232}},
    {"lb_client_ports", {4, 8}},
};

/// The kernel keeps no BTF for these maps, so they are listed by name.
const std::set<std::string> without_btf{"lb_devmap"};

struct CloseObject {
  void operator()(bpf_object* object) const noexcept { bpf_object__close(object); }
};
using Object = std::unique_ptr<bpf_object, CloseObject>;

Object open_object() {
  Object object(bpf_object__open_file(lb::test::build_path("bpf/lb.o").c_str(), nullptr));
  REQUIRE(object != nullptr);
  return object;
}

}  // namespace

TEST_CASE("every struct of the contract has one layout on both sides") {
  const Object object = open_object();
  const btf* types = bpf_object__btf(object.get());
  for (const Struct& expected : structs()) {
    INFO(expected.name);
    const int id = btf__find_by_name_kind(types, expected.name, BTF_KIND_STRUCT);
    REQUIRE(id > 0);
    const btf_type* type = btf__type_by_id(types, static_cast<__u32>(id));
    CHECK(type->size == expected.size);
    REQUIRE(btf_vlen(type) == expected.members.size());
    std::uint32_t at = 0;
    for (const Member& member : expected.members) {
      INFO(member.name);
      const btf_member* found = btf_members(type) + at;
      CHECK(std::string(btf__name_by_offset(types, found->name_off)) == member.name);
      CHECK(btf_member_bit_offset(type, at) == member.offset * 8);
      CHECK(btf__resolve_size(types, found->type) == static_cast<__s64>(member.size));
      ++at;
    }
  }
}

TEST_CASE("every struct in a map is one of the contract's") {
  const Object object = open_object();
  const btf* types = bpf_object__btf(object.get());
  std::set<std::string> known = scratch;
  for (const Struct& expected : structs()) {
    known.insert(expected.name);
  }
  const bpf_map* map = nullptr;
  int seen = 0;
  bpf_object__for_each_map(map, object.get()) {
    for (const __u32 id : {bpf_map__btf_key_type_id(map), bpf_map__btf_value_type_id(map)}) {
      const btf_type* type = btf__type_by_id(types, id);
      if (id == 0 || type == nullptr || !btf_is_struct(type)) {
        continue;
      }
      INFO(bpf_map__name(map));
      CHECK(known.contains(btf__name_by_offset(types, type->name_off)));
      ++seen;
    }
  }
  CHECK(seen >= 20);
}

TEST_CASE("REL-41 maps keep the sizes of their layout, so that agents of two versions adopt them") {
  const Object object = open_object();
  std::map<std::string, std::pair<std::uint32_t, std::uint32_t>> sizes;
  const bpf_map* map = nullptr;
  bpf_object__for_each_map(map, object.get()) {
    const std::string name = bpf_map__name(map);
    if (bpf_map__is_internal(map) || name == "lb_scratch") {
      continue;
    }
    sizes[name] = {bpf_map__key_size(map), bpf_map__value_size(map)};
  }
  CHECK(sizes == pinned_sizes);
}

TEST_CASE("every loaded map has BTF for its key and its value, and a short name that says whose it is") {
  const Object object = open_object();
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, object.get()) bpf_program__set_autoload(program, false);
  REQUIRE(bpf_object__load(object.get()) == 0);
  const bpf_map* map = nullptr;
  std::set<std::string> bare;
  int maps = 0;
  bpf_object__for_each_map(map, object.get()) {
    bpf_map_info info{};
    __u32 length = sizeof(info);
    REQUIRE(bpf_map_get_info_by_fd(bpf_map__fd(map), &info, &length) == 0);
    const std::string name = static_cast<const char*>(info.name);
    INFO(name);
    ++maps;
    if (bpf_map__is_internal(map)) {
      continue;
    }
    CHECK(name == bpf_map__name(map));
    CHECK(name.starts_with("lb_"));
    if (info.btf_key_type_id == 0 || info.btf_value_type_id == 0) {
      bare.insert(name);
    }
  }
  CHECK(bare == without_btf);
  CHECK(maps >= 18);
}
