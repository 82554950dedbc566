/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The ports of later fragments, remembered from the first one. */
#ifndef SLUICE_BPF_FRAGMENT_H
#define SLUICE_BPF_FRAGMENT_H

#include "bpf/flow/flow.h"
#include "bpf/packet/packet.h"
#include "bpf/packet/stats.h"
#include "bpf/select/service.h"
#include "maps/abi/maps.bpf.h"

/* Lifetime of an entry in seconds of lb_clock: ids wrap soon (RFC 4963), and fragments arrive together. */
#define LB_FRAGMENT_SECONDS 1

static __always_inline void lb_fragment_key_of(const struct lb_packet *packet, struct lb_fragment_key *key)
{
	__builtin_memset(key, 0, sizeof(*key));
	*(union lb_ip *)key->source = packet->tuple.source;
	*(union lb_ip *)key->destination = packet->tuple.destination;
	key->id = packet->id;
	key->protocol = packet->tuple.protocol;
}

static __always_inline __u32 lb_fragment_check(const struct lb_fragment_key *key, __u64 word)
{
	const __u64 *k = (const __u64 *)key;

	return (__u32)((k[0] * LB_ODD_0 + k[1] * LB_ODD_1 + k[2] * LB_ODD_2 + k[3] * LB_ODD_3 +
			k[4] * LB_ODD_4 + word * LB_ODD_5) >>
		       32);
}

/* Updates in place if the id is reused: a reader sees the old ports, the new ones, or a wrong check. */
LB_FUNCTION int lb_fragment_remember(const struct lb_packet *packet)
{
	struct lb_fragment_key key;
	struct lb_fragment value = {};
	struct lb_fragment *there;

	if (!packet)
		return 0;
	value.source_port = packet->tuple.source_port;
	value.destination_port = packet->tuple.destination_port;
	value.seen = lb_clock();
	lb_fragment_key_of(packet, &key);
	value.check = lb_fragment_check(&key, lb_load(&value));
	there = bpf_map_lookup_elem(&lb_fragments, &key);
	if (!there)
		return !bpf_map_update_elem(&lb_fragments, &key, &value, BPF_ANY);
	*(volatile __u64 *)there = lb_load(&value);
	*(volatile __u32 *)&there->check = value.check;
	return 1;
}

/* Gives a later fragment its ports; 0 if its first fragment is unknown or too old. */
LB_FUNCTION int lb_fragment_find(struct lb_packet *packet)
{
	struct lb_fragment_key key;
	struct lb_fragment *there, copy;
	__u64 word;

	if (!packet)
		return 0;

	lb_fragment_key_of(packet, &key);
	there = bpf_map_lookup_elem(&lb_fragments, &key);
	if (!there)
		return 0;
	word = lb_load(there);
	__builtin_memcpy(&copy, &word, sizeof(word));
	if (*(volatile __u32 *)&there->check != lb_fragment_check(&key, word)) {
		lb_count(LB_OUTCOME_check_failed);
		return 0;
	}
	if (lb_clock() - copy.seen > LB_FRAGMENT_SECONDS)
		return 0;
	packet->tuple.source_port = copy.source_port;
	packet->tuple.destination_port = copy.destination_port;
	return 1;
}

#endif
