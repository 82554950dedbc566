/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds the service for a destination and a backend for a service: one hash lookup and three array accesses.
 * Shared by the socket and the packet programs; depends on neither.
 */
#ifndef SLUICE_BPF_SERVICE_H
#define SLUICE_BPF_SERVICE_H

#include "bpf/packet/packet.h"
#include "bpf/packet/stats.h"
#include "maps/abi/checks.h"
#include "maps/abi/maps.bpf.h"

/* Bytes 8 to 11 of ::ffff:a.b.c.d as a little-endian word. */
#define LB_IPV4_PREFIX 0xffff0000u

/* Bytes 12 to 15 of ::1 as a little-endian word. */
#define LB_IPV6_LOOPBACK_END 0x01000000u

enum lb_picked { LB_PICKED, LB_PICKED_NONE, LB_PICKED_STALE };

/* The agent changes the shared arrays by 64-bit stores, so they are read by 64-bit loads. */
static __always_inline __u64 lb_load(const void *address)
{
	return *(const volatile __u64 *)address;
}

/*
 * Makes `address` depend on `word`, so that memory at the result is read after `word`, also by CPUs that
 * reorder loads (arm64 keeps the order if a load's address depends on another's value, but not after a
 * comparison). Everything before the agent's release store of `word` is then visible. BPF's own acquire loads
 * are newer than the supported kernels.
 */
static __always_inline const void *lb_after(const void *address, __u64 word)
{
	asm volatile("%0 &= 0" : "+r"(word));
	return (const __u8 *)address + word;
}

/*
 * A hash may return another key's value; after a wrong check it is looked up once more, and then counts as a
 * miss.
 */
static __always_inline int lb_frontend_load(const struct lb_frontend_key *key, struct lb_frontend *frontend)
{
	for (int try = 0; try < 2; try++) {
		const struct lb_frontend *value = bpf_map_lookup_elem(&lb_frontends, key);
		__u64 word;

		if (!value)
			return 0;
		word = lb_load(value);
		__builtin_memcpy(frontend, &word, sizeof(word));
		if (frontend->check == lb_frontend_check(key))
			return 1;
		lb_count_call(LB_OUTCOME_check_failed);
	}
	return 0;
}

static __always_inline enum lb_address_kind lb_address_kind_of(const __u8 *address)
{
	struct lb_address_key key;
	const struct lb_address *value;
	struct lb_address found;
	__u64 word;

	__builtin_memcpy(key.address, address, sizeof(key.address));
	value = bpf_map_lookup_elem(&lb_addresses, &key);
	if (!value)
		return LB_NO_ADDRESS;
	word = lb_load(value);
	__builtin_memcpy(&found, &word, sizeof(word));
	return found.check == lb_address_check(&key) ? found.kind : LB_NO_ADDRESS;
}

static __always_inline int lb_is_ipv4(const __u8 *address)
{
	return !lb_word(address) && lb_word32(address + 8) == LB_IPV4_PREFIX;
}

/* The node port with that number, on any address. Overwrites the key's address with zero. */
static __always_inline int lb_node_port_load(struct lb_frontend_key *key, struct lb_frontend *frontend)
{
	__u32 middle = lb_is_ipv4(key->address) ? LB_IPV4_PREFIX : 0;

	__builtin_memset(key->address, 0, sizeof(key->address));
	__builtin_memcpy(key->address + 8, &middle, sizeof(middle));
	return lb_frontend_load(key, frontend);
}

static __always_inline const struct lb_service *lb_service_of(__u32 number)
{
	return bpf_map_lookup_elem(&lb_services, &number);
}

static __always_inline const struct lb_node *lb_this_node(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&lb_node, &zero);
}

/* Whether the flow tables were created empty a short while ago, although their flows continue. */
static __always_inline int lb_tables_lost(void)
{
	const struct lb_node *node = lb_this_node();

	return node && lb_clock() < *(const volatile __u32 *)&node->lost_until;
}

/* The source address that the agent chose for this node, 16 bytes; NULL: there is no node page yet. */
static __always_inline const __u8 *lb_node_source(int ipv4)
{
	const struct lb_node *node = lb_this_node();

	if (!node)
		return NULL;
	return ipv4 ? node->source4 : node->source6;
}

static __always_inline struct lb_policy lb_policy_load(const struct lb_service *service)
{
	__u64 word = lb_load(&service->policy);
	struct lb_policy policy;

	__builtin_memcpy(&policy, &word, sizeof(word));
	return policy;
}

static __always_inline struct lb_set lb_set_load(const struct lb_service *service, enum lb_scope scope)
{
	__u64 word = lb_load(scope == LB_LOCAL ? &service->local : &service->cluster);
	struct lb_set set;

	__builtin_memcpy(&set, &word, sizeof(word));
	return set;
}

static __always_inline enum lb_verdict lb_empty_verdict(struct lb_policy policy, enum lb_scope scope)
{
	return scope == LB_LOCAL ? policy.local_empty : policy.cluster_empty;
}

/*
 * Copies a backend if the id still belongs to the service. The id may come from an affinity entry, a flow or
 * a socket, and may have had another owner and address since, so the rest is read after the word with the
 * owner.
 */
static __always_inline int lb_backend_load(__u32 id, __u32 service, struct lb_backend *backend)
{
	const struct lb_backend *value = bpf_map_lookup_elem(&lb_backends, &id);
	__u64 word;

	if (!value)
		return 0;
	word = lb_load(&value->service);
	__builtin_memcpy(&backend->service, &word, sizeof(word));
	if (backend->service != service)
		return 0;
	value = lb_after(value, word);
	__builtin_memcpy(backend->address, value->address, sizeof(backend->address));
	backend->port = value->port;
	return 1;
}

/*
 * Every slot of the set is equally likely for an evenly distributed `random`. The agent writes backends, then
 * slots, then the set's word: here each load's address depends on the previous one (set, slot, id), which
 * keeps that order.
 */
static __always_inline enum lb_picked lb_pick(struct lb_set set, __u32 service, __u32 random, __u32 *id,
					      struct lb_backend *backend)
{
	__u32 slot = set.first + (__u32)((__u64)random * set.count >> 32);
	__u32 element = slot / LB_SLOTS_A_PAIR;
	const struct lb_slots_pair *pair;

	if (!set.count)
		return LB_PICKED_NONE;
	pair = bpf_map_lookup_elem(&lb_slots, &element);
	if (!pair)
		return LB_PICKED_STALE;
	*id = *(const volatile __u32 *)&pair->ids[slot % LB_SLOTS_A_PAIR];
	return lb_backend_load(*id, service, backend) ? LB_PICKED : LB_PICKED_STALE;
}

static __always_inline struct lb_frontend_key lb_frontend_at(const union lb_ip *address, __u16 port,
							     enum lb_protocol protocol)
{
	struct lb_frontend_key key = {.port = port, .protocol = protocol};

	__builtin_memcpy(key.address, address, sizeof(key.address));
	return key;
}

#endif
