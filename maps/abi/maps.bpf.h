/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The map definitions. Included by the programs only, once per object; __weak makes them one set when
 * the objects are linked. Sizes here are the defaults of abi.h; the agent sets its own before load.
 */
#ifndef SLUICE_MAPS_BPF_H
#define SLUICE_MAPS_BPF_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "maps/abi/abi.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, LB_MAX_FRONTENDS);
	__type(key, struct lb_frontend_key);
	__type(value, struct lb_frontend);
} lb_frontends SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, LB_MAX_ADDRESSES);
	__type(key, struct lb_address_key);
	__type(value, struct lb_address);
} lb_addresses SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, LB_MAX_DEVICES);
	__type(key, __u32);
	__type(value, struct lb_device);
} lb_devices SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, LB_MAX_SERVICES);
	__type(key, __u32);
	__type(value, struct lb_service);
} lb_services SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, LB_MAX_SLOTS / LB_SLOTS_A_PAIR);
	__type(key, __u32);
	__type(value, struct lb_slots_pair);
} lb_slots SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, LB_MAX_BACKENDS);
	__type(key, __u32);
	__type(value, struct lb_backend);
} lb_backends SEC(".maps") __weak;

/* Read by people and by the agent, never by programs. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, LB_MAX_SERVICES);
	__type(key, __u32);
	__type(value, struct lb_name);
} lb_names SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lb_node);
} lb_node SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, LB_RESERVED_WORDS);
	__type(key, __u32);
	__type(value, __u64);
} lb_reserved SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, LB_MAX_FLOWS);
	__type(key, struct lb_flow4_key);
	__type(value, struct lb_flow4);
} lb_flows4 SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, LB_MAX_FLOWS);
	__type(key, struct lb_flow6_key);
	__type(value, struct lb_flow6);
} lb_flows6 SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, LB_MAX_UNASSURED);
	__type(key, struct lb_flow4_key);
	__type(value, struct lb_flow4);
} lb_unassured4 SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, LB_MAX_UNASSURED);
	__type(key, struct lb_flow6_key);
	__type(value, struct lb_flow6);
} lb_unassured6 SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, LB_MAX_AFFINITY);
	__type(key, struct lb_affinity_key);
	__type(value, struct lb_affinity);
} lb_affinity SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, LB_MAX_RANGES);
	__type(key, struct lb_range_key);
	__type(value, struct lb_range);
} lb_ranges SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, LB_MAX_FRAGMENTS);
	__type(key, struct lb_fragment_key);
	__type(value, struct lb_fragment);
} lb_fragments SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct lb_socket);
} lb_sockets SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct lb_pair);
} lb_tcp_sockets SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lb_socket_use);
} lb_socket_use SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, LB_MAX_SHARED_PEERS);
	__type(key, struct lb_peer_key);
	__type(value, struct lb_shared_peer);
} lb_shared_peers SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, LB_MAX_SHARED_PORTS);
	__type(key, struct lb_port_key);
	__type(value, struct lb_direct_peers);
} lb_shared_ports SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lb_stats);
} lb_stats SEC(".maps") __weak;

/* Where XDP may send: interface index to interface index. The kernel gives this type no BTF. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
	__uint(max_entries, LB_MAX_DEVICES);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} lb_devmap SEC(".maps") __weak;

#endif
