/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The device by which a packet leaves, and its source address: the FIB's result, and when it must not be used. */
#ifndef SLUICE_BPF_ROUTE_H
#define SLUICE_BPF_ROUTE_H

#include <linux/bpf.h>

#include "bpf/flow/flow.h"
#include "bpf/flow/scratch.h"
#include "bpf/packet/kernel.h"
#include "bpf/packet/packet.h"
#include "bpf/packet/stats.h"
#include "bpf/select/service.h"
#include "maps/abi/maps.bpf.h"

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

static __always_inline int lb_is_uplink(__u32 index)
{
	return lb_device_kind_of(index) == LB_UPLINK;
}

/* With the source that the packet has; with one that the FIB says; or whether its entry's device leads there. */
enum lb_ask { LB_KEEP_SOURCE, LB_ASK_SOURCE, LB_ASK_DEVICE };

static __always_inline __u32 lb_route_flags(enum lb_ask ask)
{
	if (ask == LB_ASK_DEVICE)
		return BPF_FIB_LOOKUP_OUTPUT;
	return ask == LB_ASK_SOURCE && lb_config.fib_source ? BPF_FIB_LOOKUP_SRC : 0;
}

/* The way that the packet's entry takes, into `scratch->fib`; on request with the source address for it. */
static __always_inline long lb_route(void *ctx, struct lb_scratch *scratch, enum lb_ask ask)
{
	const struct lb_tuple *leaving = &scratch->flow.leaving;
	struct bpf_fib_lookup *fib = &scratch->fib;
	__u32 flags = lb_route_flags(ask);

	__builtin_memset(fib, 0, sizeof(*fib));
	if (lb_config.fib_mark) {
		flags |= BPF_FIB_LOOKUP_MARK;
		fib->mark = scratch->mark;
	}
	fib->l4_protocol = leaving->protocol;
	fib->ifindex = ask == LB_ASK_DEVICE ? scratch->flow.track.device : scratch->device;
	fib->tot_len = scratch->hook == LB_HOOK_XDP ? scratch->packet.length : 0;
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
static __always_inline int lb_names_device(const struct lb_scratch *scratch, long result)
{
	return result == BPF_FIB_LKUP_RET_SUCCESS || result == BPF_FIB_LKUP_RET_NO_NEIGH ||
	       (result == BPF_FIB_LKUP_RET_FRAG_NEEDED && scratch->hook != LB_HOOK_XDP);
}

/* Does a route add headers of its own (MPLS, segments, a tunnel's)? Only the stack sends by it: a redirect would leave them out. */
static __always_inline int lb_is_encapsulated(long result)
{
	return result == BPF_FIB_LKUP_RET_UNSUPP_LWT;
}

/*
 * Replies go back by the uplink that their flow came by, if a route leads to the client there: where a client's packets and those to
 * it take different ways (rp_filter 0 or 2) there may be none. Asked of replies until their flow is proven.
 */
static __always_inline int lb_leads_back(void *ctx, struct lb_scratch *scratch)
{
	if (scratch->unassured == LB_NO || scratch->flow.track.direction != LB_REPLY)
		return 1;
	/* Of IPv6 the FIB names the best route's device, by whatever route that one leads there, too. */
	return lb_names_device(scratch, lb_route(ctx, scratch, LB_ASK_DEVICE)) &&
	       (scratch->fib.ifindex == scratch->flow.track.device || !lb_is_uplink(scratch->fib.ifindex));
}

/* By which device do the packets of the entry leave? Written into the entry, wherever it is by now. */
static __always_inline void lb_set_device(struct lb_scratch *scratch, __u32 device)
{
	struct lb_track *live;

	scratch->flow.track.device = device;
	live = lb_flow_find(LB_ASSURED, &scratch->packet.tuple, &scratch->existing);
	if (live)
		live->device = device;
	if (scratch->unassured == LB_NO)
		return;
	live = lb_unassured_find(&scratch->packet.tuple, &scratch->existing);
	if (live)
		live->device = device;
}

enum lb_next_hop { LB_NO_NEXT_HOP, LB_NEXT_HOP_REDIRECT, LB_NEXT_HOP_STACK };

/*
 * Knows the packet's entry by which device its packets leave? If not, that is found out once. Replies to a client behind a route that
 * adds headers are for the stack.
 */
static __always_inline enum lb_next_hop lb_find_next_hop(void *ctx, struct lb_scratch *scratch)
{
	long result;

	if (scratch->flow.track.device && lb_leads_back(ctx, scratch))
		return LB_NEXT_HOP_REDIRECT;
	result = lb_route(ctx, scratch, LB_KEEP_SOURCE);
	if (lb_is_encapsulated(result) && scratch->flow.track.direction == LB_REPLY) {
		lb_set_device(scratch, LB_STACK_DEVICE);
		return LB_NEXT_HOP_STACK;
	}
	if (!lb_names_device(scratch, result) || !lb_is_uplink(scratch->fib.ifindex))
		return LB_NO_NEXT_HOP;
	lb_set_device(scratch, scratch->fib.ifindex);
	return LB_NEXT_HOP_REDIRECT;
}

/*
 * Does a reply leave by another uplink than its flow came by, though routes lead the service's own packets to the client
 * by that one? The stack chose before the service's address was back in its place, which rules by source look at.
 */
static __always_inline int lb_leaves_by_other_uplink(void *ctx, struct lb_scratch *scratch)
{
	__u32 came_by = scratch->flow.track.device;
	long result;

	if (scratch->hook != LB_HOOK_TC_EGRESS || !came_by || came_by == scratch->device)
		return 0;
	result = lb_route(ctx, scratch, LB_KEEP_SOURCE);
	return lb_names_device(scratch, result) && scratch->fib.ifindex == came_by;
}

/* Where the FIB cannot say the source address, the agent's choice for this node stands in. */
static __always_inline void lb_take_source(struct lb_scratch *scratch)
{
	struct lb_tuple *leaving = &scratch->flow.leaving;
	const __u8 *source;

	if (lb_config.fib_source) {
		if (leaving->family == LB_IPV4)
			lb_mapped(&leaving->source, scratch->fib.ipv4_src);
		else
			leaving->source = *(const union lb_ip *)scratch->fib.ipv6_src;
		return;
	}
	source = lb_node_source(leaving->family == LB_IPV4);
	if (source)
		leaving->source = *(const union lb_ip *)source;
}

#endif
