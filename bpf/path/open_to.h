/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Opens the flow to the selected backend: by a redirect, or through the stack; and records its forward entry
 * if no handshake will.
 */
#ifndef SLUICE_BPF_OPEN_TO_H
#define SLUICE_BPF_OPEN_TO_H

#include "bpf/flow/awaited.h"
#include "bpf/flow/flow.h"
#include "bpf/flow/handshake.h"
#include "bpf/flow/nat.h"
#include "bpf/flow/scratch.h"
#include "bpf/flow/track.h"
#include "bpf/packet/packet.h"
#include "bpf/packet/stats.h"
#include "bpf/path/route.h"
#include "bpf/select/ranges.h"
#include "bpf/select/service.h"
#include "maps/abi/abi.h"

/* To another node: both addresses are rewritten, and we redirect both directions. */
static __always_inline enum lb_outcome lb_open_remote(void *ctx, struct lb_scratch *scratch)
{
	struct lb_track *track = &scratch->flow.track;

	if (scratch->packet.hops <= 1)
		return LB_OUTCOME_hop_limit;
	lb_take_source(scratch);
	track->path = LB_PATH_REDIRECT;
	track->device = scratch->fib.ifindex;
	track->source_nat = LB_YES;
	track->other_side = track->side;
	scratch->reply.track = *track;
	scratch->reply.track.direction = LB_REPLY;
	scratch->reply.track.device = scratch->device;
	return LB_PER_OBJECT(lb_claim_source_port)(ctx);
}

/* Through the stack; the reply passes our egress hook of a device of the same kind as the receiving one. */
static __always_inline enum lb_outcome lb_open_by_stack(void *ctx, struct lb_scratch *scratch)
{
	struct lb_track *track = &scratch->flow.track;

	track->path = LB_PATH_STACK;
	track->other_side = track->side == LB_POD_INGRESS ? LB_POD_EGRESS : LB_UPLINK_EGRESS;
	scratch->reply.track = *track;
	scratch->reply.track.device = lb_other_device(scratch);
	scratch->reply.track.direction = LB_REPLY;
	scratch->reply.track.side = track->other_side;
	scratch->reply.track.other_side = track->side;
	return LB_PER_OBJECT(lb_claim_source_port)(ctx);
}

/*
 * Whether the flow is a hairpin: a pod that is its own backend would reply to itself directly, so it gets the
 * node's address as its client (SEM-39).
 */
static __always_inline int lb_is_hairpin(const struct lb_scratch *scratch)
{
	return lb_same_address(&scratch->packet.tuple.source, (const union lb_ip *)scratch->backend.address);
}

/*
 * A pod's own address is kept, because the reply returns through this node anyway (docs/semantics.md,
 * choice C).
 */
static __always_inline enum lb_outcome lb_open_from_pod(void *ctx, struct lb_scratch *scratch)
{
	enum lb_outcome outcome;
	long result;

	if (!lb_is_hairpin(scratch)) {
		outcome = lb_open_by_stack(ctx, scratch);
		return outcome == LB_OUTCOME_NONE ? LB_OUTCOME_new_from_pod : outcome;
	}
	result = lb_route(ctx, scratch, LB_ASK_SOURCE);
	if (result != BPF_FIB_LKUP_RET_SUCCESS && result != BPF_FIB_LKUP_RET_NO_NEIGH)
		return LB_OUTCOME_no_route;
	/*
	 * A bridge port has no neighbours: both directions leave by the device with the route to the pod's
	 * address.
	 */
	scratch->device = scratch->fib.ifindex;
	outcome = lb_open_remote(ctx, scratch);
	return outcome == LB_OUTCOME_NONE ? LB_OUTCOME_new_hairpin : outcome;
}

/* Whether the packet is a SYN with data: the server may answer it before the client's ACK. */
static __always_inline int lb_has_syn_data(const struct lb_packet *packet)
{
	return packet->step == LB_STEP_SYN && packet->tuple.protocol == LB_TCP &&
	       packet->end_seq != packet->expected_ack;
}

/* Fills in the forward entry: the packet's tuple, translated to the selected backend. */
static __always_inline void lb_begin(struct lb_scratch *scratch)
{
	struct lb_track *track = &scratch->flow.track;

	scratch->flow.leaving = scratch->packet.tuple;
	scratch->flow.leaving.destination = *(const union lb_ip *)scratch->backend.address;
	scratch->flow.leaving.destination_port = scratch->backend.port;
	__builtin_memset(track, 0, sizeof(*track));
	track->backend = scratch->backend_id;
	track->service = scratch->backend.service;
	track->seen = track->opened = lb_clock();
	track->side = lb_side_of(scratch->hook);
	track->number = scratch->packet.step == LB_STEP_SYN ? LB_NO_SYNACK : LB_NO_HANDSHAKE;
	track->fast_open = lb_has_syn_data(&scratch->packet) ? LB_YES : LB_NO;
}

/*
 * Whether the address is this node's: an endpoint may be on this node although its EndpointSlice has no
 * nodeName (SEM-12).
 */
static __always_inline int lb_is_ours(const __u8 *address)
{
	enum lb_address_kind kind = lb_address_kind_of(address);

	return kind == LB_NODE_ADDRESS || kind == LB_NODE_PORT_ADDRESS;
}

/*
 * Whether the stack would encrypt, or block, packets to this backend. Redirected packets bypass IPsec
 * policies.
 */
LB_FUNCTION int lb_needs_xfrm(void)
{
	const struct lb_scratch *scratch = lb_scratch_get();

	return scratch && lb_is_xfrm_peer(scratch->xfrm, scratch->backend.address);
}

/*
 * A flow of the node itself, at egress: its address is kept, because replies return to it. They pass our
 * hooks if they arrive from another node or from a pod whose device is served. Replies of other local
 * backends pass none, and only the stack can send by a route that adds headers: such packets are refused,
 * because untranslated they would reach another host, or none.
 */
static __always_inline enum lb_outcome lb_open_from_node(void *ctx, struct lb_scratch *scratch)
{
	struct lb_track *track = &scratch->flow.track;
	enum lb_device_kind kind;
	enum lb_outcome outcome;
	long result;

	if (lb_is_ours(scratch->backend.address))
		return LB_OUTCOME_own_unserved;
	result = lb_route(ctx, scratch, LB_KEEP_SOURCE);
	if (lb_is_encapsulated(result))
		return LB_OUTCOME_own_unserved;
	if (!lb_names_device(scratch, result))
		return LB_OUTCOME_no_route;
	kind = lb_device_kind_of(scratch->fib.ifindex);
	if (kind == LB_NO_DEVICE)
		return LB_OUTCOME_own_unserved;
	if (lb_needs_xfrm())
		return LB_OUTCOME_ipsec;
	track->path = LB_PATH_REDIRECT;
	track->device = scratch->fib.ifindex;
	track->other_side = kind == LB_POD ? LB_POD_INGRESS : LB_UPLINK_INGRESS;
	scratch->reply.track = *track;
	scratch->reply.track.path = LB_PATH_STACK;
	scratch->reply.track.device = 0;
	scratch->reply.track.direction = LB_REPLY;
	scratch->reply.track.side = track->other_side;
	scratch->reply.track.other_side = track->side;
	outcome = LB_PER_OBJECT(lb_claim_source_port)(ctx);
	return outcome == LB_OUTCOME_NONE ? LB_OUTCOME_new_remote : outcome;
}

/* Opens the flow to the selected backend, through the stack or by redirect. */
LB_FUNCTION enum lb_outcome LB_PER_OBJECT(lb_open_to)(void *ctx __arg_ctx)
{
	struct lb_scratch *scratch = lb_scratch_get();
	int xdp, by_stack, ours = 0;
	long result = BPF_FIB_LKUP_RET_SUCCESS;
	enum lb_outcome outcome;

	if (!scratch)
		return LB_OUTCOME_unrelated;
	if (lb_config.stack_forwards && scratch->hook == LB_HOOK_XDP)
		return LB_OUTCOME_left_to_tc;
	lb_begin(scratch);
	if (scratch->hook == LB_HOOK_POD_INGRESS)
		return lb_open_from_pod(ctx, scratch);
	if (scratch->hook == LB_HOOK_TC_EGRESS)
		return lb_open_from_node(ctx, scratch);
	xdp = scratch->hook == LB_HOOK_XDP;
	by_stack = scratch->backend.locality == LB_SAME_NODE;
	if (!by_stack) {
		result = lb_route(ctx, scratch, LB_ASK_SOURCE);
		if (result == BPF_FIB_LKUP_RET_FRAG_NEEDED && !lb_config.stack_forwards) {
			scratch->mtu = scratch->fib.mtu_result;
			return LB_OUTCOME_too_big;
		}
		if (lb_names_device(scratch, result)) {
			ours = lb_is_uplink(scratch->fib.ifindex) &&
			       (scratch->masquerade || lb_is_hairpin(scratch));
			by_stack = !ours || lb_config.stack_forwards;
		} else if (lb_is_encapsulated(result) || lb_is_ours(scratch->backend.address)) {
			by_stack = 1;
		} else {
			return LB_OUTCOME_no_route;
		}
	}
	if (xdp && (by_stack || result != BPF_FIB_LKUP_RET_SUCCESS))
		return LB_OUTCOME_left_to_tc;
	if (ours && lb_needs_xfrm())
		return LB_OUTCOME_ipsec;
	scratch->flow.track.forwarded = ours && by_stack ? LB_YES : LB_NO;
	outcome = by_stack ? lb_open_by_stack(ctx, scratch) : lb_open_remote(ctx, scratch);
	if (outcome != LB_OUTCOME_NONE)
		return outcome;
	if (by_stack)
		return LB_OUTCOME_new_local;
	return xdp ? LB_OUTCOME_new_xdp : LB_OUTCOME_new_remote;
}

/*
 * The flow of a packet in mid-connection may have lost its forward entry to the LRU after its handshake. What
 * the reply entry has kept of the handshake belongs into the new one.
 */
static __always_inline void lb_recall_handshake(struct lb_scratch *scratch)
{
	const struct lb_track *reply = &scratch->reply.track;
	struct lb_track *track = &scratch->flow.track;

	track->number = reply->number;
	track->fast_open = reply->fast_open;
	if (reply->number >= LB_PROVED)
		track->state = reply->state >= LB_CLOSING ? reply->state : LB_ANSWERED;
}

/*
 * UDP and mid-stream TCP have no handshake that would insert the forward entry later, and the other fragments
 * of a SYN do not wait for one. If the forward entry does not fit, the reply entry is deleted, too: no
 * entry remains without the other (REL-63).
 */
static __always_inline enum lb_outcome lb_record_forward(struct lb_scratch *scratch, enum lb_outcome opened)
{
	int midstream = lb_is_midstream(&scratch->packet);

	if (midstream)
		lb_recall_handshake(scratch);
	if (midstream || scratch->flow.track.fast_open == LB_YES)
		lb_expect_midstream();
	if (scratch->packet.step == LB_STEP_SYN)
		lb_await_answer(&scratch->reply_tuple);
	if (scratch->packet.step == LB_STEP_SYN && scratch->packet.part == LB_WHOLE)
		return opened;
	if (lb_flow_insert(LB_UNASSURED, &scratch->packet.tuple, &scratch->flow, BPF_ANY)) {
		lb_unclaim();
		return LB_OUTCOME_flow_table_full;
	}
	if (midstream && lb_proves_two_way(scratch))
		lb_assure();
	return opened;
}

#endif
