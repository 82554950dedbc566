/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The device by which a packet leaves, and its source address: the FIB's result, and when it must not be
 * used.
 */
#ifndef SLUICE_BPF_ROUTE_H
#define SLUICE_BPF_ROUTE_H

#include <linux/bpf.h>

#include "bpf/flow/flow.h"
#include "bpf/flow/scratch.h"
#include "bpf/packet/kernel.h"
#include "bpf/packet/packet.h"
#include "bpf/packet/stats.h"
#include "bpf/select/service.h"
#include "maps/abi/checks.h"
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

/*
 * Look up with the source that the entry writes; with a source from the FIB; with the client's, as the kernel
 * routes before it changes the source; or only whether a route by the entry's device exists.
 */
enum lb_ask { LB_KEEP_SOURCE, LB_ASK_SOURCE, LB_CLIENT_SOURCE, LB_ASK_DEVICE };

static __always_inline __u32 lb_route_flags(enum lb_ask ask)
{
	if (ask == LB_ASK_DEVICE)
		return BPF_FIB_LOOKUP_OUTPUT;
	return ask == LB_ASK_SOURCE && lb_config.fib_source ? BPF_FIB_LOOKUP_SRC : 0;
}

/*
 * Looks up the route for the packet's entry in `scratch->fib`; on request with a source address. XDP gets no
 * device for a packet of more than the route's MTU: `length` is the packet's, 0: any.
 */
static __always_inline long lb_route_of(void *ctx, struct lb_scratch *scratch, enum lb_ask ask, __u16 length)
{
	const struct lb_tuple *leaving = &scratch->flow.leaving;
	const union lb_ip *source =
		ask == LB_CLIENT_SOURCE ? &scratch->packet.tuple.source : &leaving->source;
	struct bpf_fib_lookup *fib = &scratch->fib;
	__u32 flags = lb_route_flags(ask);

	__builtin_memset(fib, 0, sizeof(*fib));
	if (lb_config.fib_mark) {
		flags |= BPF_FIB_LOOKUP_MARK;
		fib->mark = scratch->mark;
	}
	fib->l4_protocol = leaving->protocol;
	fib->ifindex = ask == LB_ASK_DEVICE ? scratch->flow.track.device : scratch->device;
	fib->tot_len = length;
	if (leaving->family == LB_IPV4) {
		fib->family = LB_AF_INET;
		fib->ipv4_src = source->words[3];
		fib->ipv4_dst = leaving->destination.words[3];
	} else {
		fib->family = LB_AF_INET6;
		*(union lb_ip *)fib->ipv6_src = *source;
		*(union lb_ip *)fib->ipv6_dst = leaving->destination;
	}
	return bpf_fib_lookup(ctx, fib, sizeof(*fib), flags);
}

static __always_inline long lb_route(void *ctx, struct lb_scratch *scratch, enum lb_ask ask)
{
	return lb_route_of(ctx, scratch, ask, scratch->hook == LB_HOOK_XDP ? scratch->packet.length : 0);
}

/* Whether the FIB result has a device. In tc it does also for a packet that is too big. */
static __always_inline int lb_names_device(const struct lb_scratch *scratch, long result)
{
	return result == BPF_FIB_LKUP_RET_SUCCESS || result == BPF_FIB_LKUP_RET_NO_NEIGH ||
	       (result == BPF_FIB_LKUP_RET_FRAG_NEEDED && scratch->hook != LB_HOOK_XDP);
}

/*
 * Whether the route adds its own headers (MPLS, segments, a tunnel's). Only the stack can send by it: a
 * redirect would omit them.
 */
static __always_inline int lb_is_encapsulated(long result)
{
	return result == BPF_FIB_LKUP_RET_UNSUPP_LWT;
}

/*
 * Replies leave by the uplink on which their flow arrived, if a route leads to the client there: with
 * asymmetric routes (rp_filter 0 or 2) there may be none.
 */
static __always_inline int lb_leads_back(void *ctx, struct lb_scratch *scratch)
{
	long result = lb_route_of(ctx, scratch, LB_ASK_DEVICE, 0);

	/* For IPv6 the FIB returns the best route's device, even if another route leads there by this one. */
	return lb_names_device(scratch, result) &&
	       (scratch->fib.ifindex == scratch->flow.track.device || !lb_is_uplink(scratch->fib.ifindex));
}

/* Writes the device by which the entry's packets leave into the entry, in whichever table it is now. */
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
 * Whether the entry's device must be checked: by the first packet of each second, because routes move and
 * devices are made again, and by every reply of a flow that is not assured. `seen` is still the time of the
 * packet before.
 */
static __always_inline int lb_checks_device(const struct lb_scratch *scratch)
{
	const struct lb_track *track = &scratch->flow.track;

	return track->seen != lb_clock() || (scratch->unassured == LB_YES && track->direction == LB_REPLY);
}

/*
 * Whether packets of the other direction pass our programs if this direction leaves by the device. Those of a
 * hairpin do so at the pod's own device, whatever device leads to the pod: it may be a bridge. An uplink is
 * the default route's: the pod has no route at the moment.
 */
static __always_inline int lb_may_leave_by(const struct lb_scratch *scratch, __u32 device)
{
	const struct lb_track *track = &scratch->flow.track;

	if (device == track->device)
		return 1;
	if (track->side == LB_POD_INGRESS)
		return !lb_is_uplink(device);
	return lb_device_kind_of(device) == (track->other_side == LB_POD_INGRESS ? LB_POD : LB_UPLINK);
}

/*
 * Finds the device by which the packet leaves: its entry's, or the one that the FIB names now. Without a
 * route the entry has no device until there is one again. Replies to a client behind a route that adds
 * headers are passed to the stack.
 */
static __always_inline enum lb_next_hop lb_find_next_hop(void *ctx, struct lb_scratch *scratch)
{
	const struct lb_track *track = &scratch->flow.track;
	int reply = track->direction == LB_REPLY;
	long result;

	if (track->device && (!lb_checks_device(scratch) || (reply && lb_leads_back(ctx, scratch))))
		return LB_NEXT_HOP_REDIRECT;
	result = lb_route_of(ctx, scratch, reply ? LB_KEEP_SOURCE : LB_CLIENT_SOURCE, 0);
	if (lb_is_encapsulated(result) && reply) {
		lb_set_device(scratch, LB_STACK_DEVICE);
		return LB_NEXT_HOP_STACK;
	}
	if (!lb_names_device(scratch, result) || !lb_may_leave_by(scratch, scratch->fib.ifindex)) {
		if (track->device)
			lb_set_device(scratch, 0);
		return LB_NO_NEXT_HOP;
	}
	if (scratch->fib.ifindex != track->device)
		lb_set_device(scratch, scratch->fib.ifindex);
	return LB_NEXT_HOP_REDIRECT;
}

/*
 * Whether a reply leaves by another uplink than the one on which its flow arrived, although routes lead to
 * the client by that one for the service's own packets. The stack chose before the service's address was
 * restored, which source-based rules use.
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

/* If the FIB has no source address, uses the one that the agent chose for this node. */
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
