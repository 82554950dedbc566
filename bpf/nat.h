/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Claiming the reply's tuple for a new flow, with another source port where it is taken. */
#ifndef SLUICE_BPF_NAT_H
#define SLUICE_BPF_NAT_H

#include "work.h"

#define LB_PROBES 16
#define LB_PROBE_STEP 7919 /* a prime, so that probes of one flow spread over the ranges */

enum lb_claim { LB_CLAIMED, LB_CLAIM_TAKEN, LB_CLAIM_REFUSED };

/* Keyed, so that nobody outside can aim at a backend or at a port. */
static __always_inline __u64 lb_hash(const struct lb_tuple *tuple)
{
	const __u64 *words = (const __u64 *)tuple;
	__u32 zero = 0;
	const struct lb_node *node = bpf_map_lookup_elem(&lb_node, &zero);
	__u64 state = node ? node->secret[0] : 0;

	for (int i = 0; i < 5; i++)
		state = lb_mix(state, words[i]);
	return lb_mix(state, node ? node->secret[1] : 0);
}

/* The port of a probe: both ranges in a row, from a place that the hash decides. 0: no range at all. */
static __always_inline __u16 lb_source_port(__u64 hash, __u32 probe)
{
	__u32 low = lb_config.first_port ? lb_config.last_port - lb_config.first_port + 1 : 0;
	__u32 high = lb_config.high_first_port ? lb_config.high_last_port - lb_config.high_first_port + 1 : 0;
	__u32 all = low + high;
	__u32 place = (__u32)((hash >> 32) * all >> 32) + probe * LB_PROBE_STEP;

	if (!all)
		return 0;
	place %= all;
	return (__u16)(place < low ? lb_config.first_port + place : lb_config.high_first_port + place - low);
}

/*
 * Claims `work->other` for the flow whose reply entry is `work->half`; a retransmission finds its own
 * claim. One that lost the race to lb_flows stays behind as a young entry, which lb_flows hides.
 */
LB_FUNCTION int lb_claim_tuple(struct lb_work *work)
{
	struct lb_track *live;
	long error;

	if (!work)
		return LB_CLAIM_REFUSED;
	error = lb_flow_insert(LB_YOUNG, &work->other, &work->half, BPF_NOEXIST);
	if (error && error != -EEXIST)
		return LB_CLAIM_REFUSED;
	if (lb_flow_find(LB_FLOWS, &work->other, &work->there))
		return lb_same_tuple(&work->there.leaving, &work->half.leaving) ? LB_CLAIMED : LB_CLAIM_TAKEN;
	if (!error)
		return LB_CLAIMED;
	live = lb_young_find(&work->other, &work->there);
	if (live && !lb_same_tuple(&work->there.leaving, &work->half.leaving))
		return LB_CLAIM_TAKEN;
	if (live) {
		lb_flow_touch(live, &work->there.track, work->half.track.seen);
		return LB_CLAIMED;
	}
	/* Too old to count: taken over, unless somebody else was faster. */
	if (lb_flow_insert(LB_YOUNG, &work->other, &work->half, BPF_ANY))
		return LB_CLAIM_REFUSED;
	live = lb_young_find(&work->other, &work->there);
	return live && lb_same_tuple(&work->there.leaving, &work->half.leaving) ? LB_CLAIMED : LB_CLAIM_TAKEN;
}

/* A node port as a source port would make the reply look like a client. */
static __always_inline int lb_port_usable(__u16 port, enum lb_protocol protocol)
{
	struct lb_frontend_key key = {.port = port, .protocol = protocol};
	struct lb_frontend frontend;

	return port && !lb_node_port_load(&key, &frontend);
}

/* Does a TCP socket of this host, other than a listener, hold the tuple, as a packet that arrives here? */
LB_FUNCTION int lb_socket_holds(void *ctx __arg_ctx, const struct lb_tuple *tuple)
{
	struct bpf_sock_tuple asked = {};
	struct bpf_sock *found;
	__u32 state;

	if (!tuple || tuple->protocol != LB_TCP)
		return 0;
	if (tuple->family == LB_IPV4) {
		asked.ipv4.saddr = tuple->source.words[3];
		asked.ipv4.daddr = tuple->destination.words[3];
		asked.ipv4.sport = bpf_htons(tuple->source_port);
		asked.ipv4.dport = bpf_htons(tuple->destination_port);
		found = bpf_skc_lookup_tcp(ctx, &asked, sizeof(asked.ipv4), BPF_F_CURRENT_NETNS, 0);
	} else {
		__builtin_memcpy(asked.ipv6.saddr, &tuple->source, 16);
		__builtin_memcpy(asked.ipv6.daddr, &tuple->destination, 16);
		asked.ipv6.sport = bpf_htons(tuple->source_port);
		asked.ipv6.dport = bpf_htons(tuple->destination_port);
		found = bpf_skc_lookup_tcp(ctx, &asked, sizeof(asked.ipv6), BPF_F_CURRENT_NETNS, 0);
	}
	if (!found)
		return 0;
	state = found->state;
	bpf_sk_release(found);
	return state != BPF_TCP_LISTEN;
}

/*
 * Claims a source port for `work->flow`, whose reply's track stands in `work->half`. The client's own port
 * comes first where only the destination changes. LB_FINE, or the outcome that ends the packet.
 */
LB_FUNCTION enum lb_outcome lb_claim(void *ctx __arg_ctx, struct lb_work *work)
{
	if (!work)
		return LB_OUTCOME_flow_table_full;
	lb_reverse(&work->packet.tuple, &work->half.leaving);
	for (__u32 probe = 0; probe < LB_PROBES; probe++) {
		int own = !probe && work->flow.track.source_nat == LB_NO;
		int claim = LB_CLAIM_TAKEN;

		if (!own)
			work->flow.leaving.source_port = lb_source_port(work->hash, probe);
		lb_reverse(&work->flow.leaving, &work->other);
		if (own || (lb_port_usable(work->flow.leaving.source_port, work->packet.tuple.protocol) &&
			    !lb_socket_holds(ctx, &work->other)))
			claim = lb_claim_tuple(work);
		if (claim == LB_CLAIMED)
			return LB_FINE;
		if (claim == LB_CLAIM_REFUSED)
			return LB_OUTCOME_flow_table_full;
		lb_count(LB_OUTCOME_port_collision);
	}
	return LB_OUTCOME_ports_exhausted;
}

#endif
