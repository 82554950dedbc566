/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* By which device a packet leaves, and with which source address: what the FIB says, and where it may not be believed. */
#ifndef SLUICE_BPF_ROUTE_H
#define SLUICE_BPF_ROUTE_H

#include "young.h"

#define LB_AF_INET 2
#define LB_AF_INET6 10

static __always_inline enum lb_device_kind lb_device_kind_of(__u32 index)
{
	const struct lb_device *value = bpf_map_lookup_elem(&lb_devices, &index);
	struct lb_device found;
	__u64 word;

	if (!value)
		return LB_NO_DEVICE;
	word = lb_load(value);
	__builtin_memcpy(&found, &word, sizeof(word));
	return found.check == lb_device_check(index) ? found.kind : LB_NO_DEVICE;
}

static __always_inline int lb_outward(__u32 index)
{
	return lb_device_kind_of(index) == LB_OUTWARD;
}

enum lb_ask { LB_KEEP_SOURCE, LB_ASK_SOURCE };

/* The way that the packet's entry takes, into `work->fib`; on request with the source address for it. */
static __always_inline long lb_route(void *ctx, struct lb_work *work, enum lb_ask ask)
{
	const struct lb_tuple *leaving = &work->flow.leaving;
	struct bpf_fib_lookup *fib = &work->fib;
	__u32 flags = ask == LB_ASK_SOURCE && lb_config.fib_source ? BPF_FIB_LOOKUP_SRC : 0;

	__builtin_memset(fib, 0, sizeof(*fib));
	if (lb_config.fib_mark) {
		flags |= BPF_FIB_LOOKUP_MARK;
		fib->mark = work->mark;
	}
	fib->l4_protocol = leaving->protocol;
	fib->ifindex = work->device;
	fib->tot_len = work->hook == LB_HOOK_XDP ? work->packet.length : 0;
	if (leaving->family == LB_IPV4) {
		fib->family = LB_AF_INET;
		fib->ipv4_src = leaving->source.words[3];
		fib->ipv4_dst = leaving->destination.words[3];
	} else {
		fib->family = LB_AF_INET6;
		*(union lb_ip *)fib->ipv6_src = leaving->source;
		*(union lb_ip *)fib->ipv6_dst = leaving->destination;
	}
	return bpf_fib_lookup(ctx, fib, sizeof(*fib), flags);
}

/* Does the FIB's answer name a device? To tc it does for a packet that is too big, too. */
static __always_inline int lb_names_device(const struct lb_work *work, long way)
{
	return way == BPF_FIB_LKUP_RET_SUCCESS || way == BPF_FIB_LKUP_RET_NO_NEIGH ||
	       (way == BPF_FIB_LKUP_RET_FRAG_NEEDED && work->hook != LB_HOOK_XDP);
}

/* Knows the packet's entry by which device its packets leave? If not, that is found out once. */
static __always_inline int lb_leaves(void *ctx, struct lb_work *work)
{
	struct lb_track *live;
	long way;

	if (work->flow.track.device)
		return 1;
	way = lb_route(ctx, work, LB_KEEP_SOURCE);
	if (!lb_names_device(work, way) || !lb_outward(work->fib.ifindex))
		return 0;
	work->flow.track.device = work->fib.ifindex;
	live = lb_flow_find(LB_FLOWS, &work->packet.tuple, &work->there);
	if (live)
		live->device = work->fib.ifindex;
	return 1;
}

/*
 * Does a reply leave by another uplink than its flow came by, though routes lead the service's own packets to the client
 * by that one? The stack chose before the service's address was back in its place, which rules by source look at.
 */
static __always_inline int lb_strays(void *ctx, struct lb_work *work)
{
	__u32 came_by = work->flow.track.device;
	long way;

	if (work->hook != LB_HOOK_TC_EGRESS || !came_by || came_by == work->device)
		return 0;
	way = lb_route(ctx, work, LB_KEEP_SOURCE);
	return lb_names_device(work, way) && work->fib.ifindex == came_by;
}

/* Where the FIB cannot say the source address, the agent's choice for this node stands in. */
static __always_inline void lb_take_source(struct lb_work *work)
{
	struct lb_tuple *leaving = &work->flow.leaving;
	const __u8 *source;

	if (lb_config.fib_source) {
		if (leaving->family == LB_IPV4)
			lb_mapped(&leaving->source, work->fib.ipv4_src);
		else
			leaving->source = *(const union lb_ip *)work->fib.ipv6_src;
		return;
	}
	source = lb_node_source(leaving->family == LB_IPV4);
	if (source)
		leaving->source = *(const union lb_ip *)source;
}

#endif
