/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Opens second flows beside a client's flow through a service: to the same backend, from another source port
 * or address.
 */
#ifndef SLUICE_BPF_OPEN_BESIDE_H
#define SLUICE_BPF_OPEN_BESIDE_H

#include "bpf/flow/flow.h"
#include "bpf/flow/handshake.h"
#include "bpf/flow/nat.h"
#include "bpf/flow/scratch.h"
#include "bpf/packet/packet.h"
#include "bpf/packet/stats.h"
#include "bpf/path/open_to.h"
#include "bpf/path/route.h"
#include "bpf/select/service.h"
#include "maps/abi/abi.h"
#include "maps/abi/checks.h"

/* Finds the reply entry that the packet's own replies would match, in `scratch->reply`. */
static __always_inline int lb_find_reply_entry(struct lb_scratch *scratch)
{
	lb_reverse(&scratch->packet.tuple, &scratch->reply_tuple);
	return lb_flow_find_any(&scratch->reply_tuple, &scratch->reply) &&
	       scratch->reply.track.direction == LB_REPLY;
}

/*
 * Finds the flow whose reply tuple equals that of the packet's own replies, in `scratch->reply`: a flow of a
 * client that also uses a service. Excludes packets that we have sent ourselves and that a route returns to
 * us.
 */
static __always_inline int lb_meets_flow(struct lb_scratch *scratch)
{
	return lb_find_reply_entry(scratch) && scratch->reply.track.source_nat == LB_NO;
}

/*
 * Fills in the forward entry of a flow that begins at the hook of the flow in `scratch->reply`, to the same
 * backend.
 */
static __always_inline void lb_begin_behind(struct lb_scratch *scratch, const struct lb_node *node)
{
	scratch->backend_id = scratch->reply.track.backend;
	scratch->backend.service = scratch->reply.track.service;
	__builtin_memcpy(scratch->backend.address, &scratch->packet.tuple.destination,
			 sizeof(scratch->backend.address));
	scratch->backend.port = scratch->packet.tuple.destination_port;
	scratch->hash = lb_mix(lb_hash(&scratch->packet.tuple, node->choice[LB_RANDOM]), node->secret[0]);
	lb_begin(scratch);
}

/*
 * A client connects to a backend directly from the port of its flow to that backend through a service. The
 * flow keeps the reply tuple, and the direct connection gets another port, as with the kernel's own NAT.
 */
LB_FUNCTION enum lb_outcome LB_PER_OBJECT(lb_open_direct)(void *ctx __arg_ctx)
{
	struct lb_scratch *scratch = lb_scratch_get();
	const struct lb_node *node = lb_this_node();
	enum lb_outcome outcome;

	if (!scratch || !node || !lb_meets_flow(scratch))
		return LB_OUTCOME_unrelated;
	/* The flow's own packets have that tuple when the stack forwards them. */
	if (scratch->reply.track.forwarded == LB_YES)
		return LB_OUTCOME_ports_exhausted;
	lb_begin_behind(scratch, node);
	outcome = lb_open_by_stack(ctx, scratch);
	if (outcome != LB_OUTCOME_NONE)
		return outcome;
	/*
	 * lb_open() looks up the ACK of a handshake only for frontends, and a backend's address is not one.
	 */
	if (scratch->packet.step == LB_STEP_SYN)
		lb_expect_midstream();
	return lb_record_forward(scratch, LB_OUTCOME_new_direct);
}

/*
 * At egress, packets that the stack forwards to a backend on another node get this node's address, as a
 * second flow after the one by which they arrived. Conntrack and the host's rules, which are between the two,
 * see client and backend.
 */
LB_FUNCTION enum lb_outcome LB_PER_OBJECT(lb_open_leaving)(void *ctx __arg_ctx)
{
	struct lb_scratch *scratch = lb_scratch_get();
	const struct lb_node *node = lb_this_node();
	enum lb_outcome outcome = LB_OUTCOME_unrelated;
	struct lb_track *track;

	if (!scratch || !node || scratch->packet.step == LB_STEP_RST || !lb_meets_flow(scratch) ||
	    scratch->reply.track.forwarded != LB_YES)
		return LB_OUTCOME_unrelated;
	if (lb_is_midstream(&scratch->packet))
		outcome = lb_unassured();
	if (outcome != LB_OUTCOME_unrelated)
		return outcome;
	lb_begin_behind(scratch, node);
	if (!lb_names_device(scratch, lb_route(ctx, scratch, LB_ASK_SOURCE)))
		return LB_OUTCOME_no_route;
	lb_take_source(scratch);
	track = &scratch->flow.track;
	track->path = LB_PATH_STACK;
	track->source_nat = LB_YES;
	track->other_side = LB_UPLINK_INGRESS;
	scratch->reply.track = *track;
	scratch->reply.track.direction = LB_REPLY;
	scratch->reply.track.side = track->other_side;
	scratch->reply.track.other_side = track->side;
	outcome = LB_PER_OBJECT(lb_claim_source_port)(ctx);
	return outcome == LB_OUTCOME_NONE ? lb_record_forward(scratch, LB_OUTCOME_new_direct) : outcome;
}

#endif
