/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The state of a flow (struct lb_track): its sides, its end, and its entry for the other direction. */
#ifndef SLUICE_BPF_TRACK_H
#define SLUICE_BPF_TRACK_H

#include "bpf/flow/flow.h"
#include "bpf/flow/scratch.h"
#include "bpf/packet/packet.h"
#include "bpf/packet/stats.h"
#include "bpf/select/service.h"
#include "maps/abi/abi.h"

static __always_inline enum lb_side lb_side_of(__u32 hook)
{
	switch (hook) {
	case LB_HOOK_TC_EGRESS:
		return LB_UPLINK_EGRESS;
	case LB_HOOK_POD_INGRESS:
		return LB_POD_INGRESS;
	case LB_HOOK_POD_EGRESS:
		return LB_POD_EGRESS;
	}
	return LB_UPLINK_INGRESS;
}

static __always_inline int lb_acts_here(const struct lb_track *track, __u32 hook)
{
	return track->side == lb_side_of(hook);
}

/*
 * Whether the packet is rewritten and then passed to the stack: because of its flow, or because only the
 * stack can send by the route back.
 */
static __always_inline int lb_is_for_stack(const struct lb_track *track)
{
	return track->path == LB_PATH_STACK || track->device == LB_STACK_DEVICE;
}

/*
 * The first packet of a second looks again for a route by which we can send. `seen` is still the time of the
 * packet before.
 */
static __always_inline enum lb_outcome lb_known_outcome(const struct lb_track *track, __u32 hook)
{
	if (track->path == LB_PATH_STACK || (track->device == LB_STACK_DEVICE && track->seen == lb_clock()))
		return LB_OUTCOME_flow_stack;
	return hook == LB_HOOK_XDP ? LB_OUTCOME_flow_xdp : LB_OUTCOME_flow_redirect;
}

/*
 * Whether the frontend to which the packet is addressed is another service's by now, or none. A flow that
 * keeps its destination was never to a frontend (open_beside.h).
 */
LB_FUNCTION int lb_lost_frontend(void)
{
	struct lb_scratch *scratch = lb_scratch_get();
	struct lb_frontend frontend = {};
	const struct lb_tuple *tuple;

	if (!scratch)
		return 0;
	tuple = &scratch->packet.tuple;
	if (tuple->destination_port == scratch->flow.leaving.destination_port &&
	    lb_same_address(&tuple->destination, &scratch->flow.leaving.destination))
		return 0;
	scratch->asked = lb_frontend_at(&tuple->destination, tuple->destination_port, tuple->protocol);
	if (lb_frontend_load(&scratch->asked, &frontend) ||
	    (lb_address_kind_of(scratch->asked.address) == LB_NODE_PORT_ADDRESS &&
	     lb_node_port_load(&scratch->asked, &frontend)))
		return frontend.service != scratch->flow.track.service;
	return 1;
}

/*
 * UDP flows leave a backend that no longer serves, and a service that no longer has their frontend; TCP flows
 * drain (SEM-45, SEM-47).
 */
static __always_inline int lb_abandoned(struct lb_scratch *scratch)
{
	const struct lb_track *track = &scratch->flow.track;

	if (scratch->packet.tuple.protocol != LB_UDP || track->direction != LB_FORWARD)
		return 0;
	if (lb_backend_load(track->backend, track->service, &scratch->backend) &&
	    scratch->backend.serving == LB_YES && !lb_lost_frontend())
		return 0;
	scratch->abandoned = LB_YES;
	return 1;
}

/*
 * Whether a flow whose entries have these states has ended. One FIN alone does not end a TCP flow, whose
 * client cannot begin again yet; an SCTP association has one end for both sides.
 */
static __always_inline int lb_is_over(enum lb_protocol protocol, enum lb_state one, enum lb_state other)
{
	if (one == LB_RESET || other == LB_RESET)
		return 1;
	return protocol == LB_TCP ? one >= LB_CLOSING && other >= LB_CLOSING
				  : one >= LB_CLOSING || other >= LB_CLOSING;
}

/*
 * A client that starts again on the tuple of a flow that has ended gets a new selection (REL-12). The first
 * packet of a known flow is rare, so one more lookup is cheap.
 */
static __always_inline int lb_reused(struct lb_scratch *scratch)
{
	const struct lb_track *track = &scratch->flow.track;

	if (scratch->packet.step != LB_STEP_SYN || track->direction != LB_FORWARD)
		return 0;
	lb_reverse(&scratch->flow.leaving, &scratch->reply_tuple);
	if (!lb_flow_find(LB_ASSURED, &scratch->reply_tuple, &scratch->existing))
		return track->state >= LB_CLOSING;
	return lb_is_over(scratch->packet.tuple.protocol, track->state, scratch->existing.track.state);
}

/* Likewise for an unassured flow, whose other entry need not be checked. */
static __always_inline int lb_begins_anew(const struct lb_scratch *scratch)
{
	return scratch->packet.step == LB_STEP_SYN && scratch->flow.track.direction == LB_FORWARD &&
	       scratch->flow.track.state >= LB_CLOSING;
}

/* Erases all entries of a flow that has ended, so that none matches packets of the next flow on its tuple. */
static __always_inline void lb_flow_forget(struct lb_scratch *scratch)
{
	lb_reverse(&scratch->flow.leaving, &scratch->reply_tuple);
	lb_flow_erase(LB_ASSURED, &scratch->reply_tuple);
	lb_flow_erase(LB_UNASSURED, &scratch->packet.tuple);
}

/* Notes a FIN or RST of an unassured flow. It may be forged, so it only shortens the flow's life (REL-72). */
static __always_inline void lb_unassured_note_end(const struct lb_scratch *scratch, struct lb_track *live)
{
	const struct lb_track *track = &scratch->flow.track;

	if (scratch->packet.step == LB_STEP_RST && track->state != LB_RESET)
		live->state = LB_RESET;
	else if (scratch->packet.step == LB_STEP_FIN && track->state != LB_CLOSING)
		live->state = LB_CLOSING;
	else if (scratch->packet.step == LB_STEP_DATA && track->state >= LB_CLOSING)
		live->state = LB_OPEN;
}

/* Maximum distance of a number from the stored one of the flow's last second: 4 MiB before, 64 MiB after. */
#define LB_BEHIND (1U << 22)
#define LB_AHEAD (1U << 26)

/* Whether the number is near the stored one; 0: none is stored. */
static __always_inline int lb_near(__u32 number, __u32 kept)
{
	return !kept || number - kept + LB_BEHIND <= LB_BEHIND + LB_AHEAD;
}

/*
 * Whether the packet's sequence or acknowledgment number is within the windows that this assured flow has
 * shown: one of thirty guessed packets is. A side whose sequence numbers move too fast for the check is
 * checked by its acknowledgment numbers. SCTP: by the server's tag.
 */
static __always_inline int lb_fits(struct lb_scratch *scratch)
{
	const struct lb_packet *packet = &scratch->packet;

	if (packet->tuple.protocol != LB_TCP)
		return !scratch->flow.track.number || packet->ack == scratch->flow.track.number;
	if (lb_near(packet->end_seq, scratch->flow.track.number))
		return 1;
	lb_reverse(&scratch->flow.leaving, &scratch->reply_tuple);
	return lb_flow_find(LB_ASSURED, &scratch->reply_tuple, &scratch->existing) &&
	       lb_near(packet->ack, scratch->existing.track.number);
}

/*
 * Notes a side's end. If it does not fit, it may be forged, or of a side that was seen too seldom: for TCP it
 * counts as a FIN, after which an idle flow lives for an hour, and no other flow may begin on the tuple.
 */
static __always_inline void lb_note_close(const struct lb_scratch *scratch, struct lb_track *live, int fits)
{
	const struct lb_track *track = &scratch->flow.track;
	int tcp = scratch->packet.tuple.protocol == LB_TCP;

	if (!fits && (!tcp || track->state >= LB_CLOSING))
		return;
	if (scratch->packet.step == LB_STEP_RST) {
		live->state = fits ? LB_RESET : LB_CLOSING;
		return;
	}
	if (tcp && fits &&
	    (track->state != LB_CLOSING || (__s32)(scratch->packet.end_seq - track->number) > 0))
		live->number = scratch->packet.end_seq;
	live->state = LB_CLOSING;
}

/*
 * Notes that a side continues: after a FIN there is no new data, after a reset no packet at all. Also its
 * position, once a second.
 */
static __always_inline void lb_note_data(const struct lb_scratch *scratch, struct lb_track *live, int fits)
{
	const struct lb_track *track = &scratch->flow.track;
	int tcp = scratch->packet.tuple.protocol == LB_TCP;

	if (track->state == LB_CLOSING && tcp &&
	    (!fits || (__s32)(scratch->packet.end_seq - track->number) <= 0))
		return;
	if (tcp && fits)
		live->number = scratch->packet.end_seq;
	if (track->state >= LB_CLOSING)
		live->state = LB_OPEN;
}

/* Notes what a packet shows about its flow's end and its side's position (REL-72). */
LB_FUNCTION int lb_note(struct lb_track *live, int new_second)
{
	struct lb_scratch *scratch = lb_scratch_get();
	__u8 step;

	if (!scratch || !live)
		return 0;
	step = scratch->packet.step;
	if (step == LB_STEP_RST || step == LB_STEP_FIN)
		lb_note_close(scratch, live, lb_fits(scratch));
	else if (step == LB_STEP_DATA && (new_second || scratch->flow.track.state >= LB_CLOSING))
		lb_note_data(scratch, live, lb_fits(scratch));
	return 0;
}

/*
 * Whether the node itself began the flow, at egress, without a socket call that we translated: we send its
 * requests, and pass its replies to the stack.
 */
static __always_inline int lb_is_nodes_own(const struct lb_track *track)
{
	if (track->source_nat == LB_YES)
		return 0;
	return track->direction == LB_FORWARD ? track->side == LB_UPLINK_EGRESS
					      : track->other_side == LB_UPLINK_EGRESS;
}

static __always_inline enum lb_path lb_other_path(const struct lb_track *track)
{
	if (!lb_is_nodes_own(track))
		return track->path;
	return track->direction == LB_FORWARD ? LB_PATH_STACK : LB_PATH_REDIRECT;
}

/*
 * The device by which packets of the other direction leave; 0: the stack decides, or lb_find_next_hop() will.
 * Replies to external clients leave by the uplink on which the flow arrived, whatever the stack chose
 * (REL-66); but a reply does not show the route to the backend, which may be asymmetric.
 */
static __always_inline __u32 lb_other_device(const struct lb_scratch *scratch)
{
	const struct lb_track *track = &scratch->flow.track;

	if (lb_is_nodes_own(track))
		return track->side == LB_POD_INGRESS ? scratch->device : 0;
	if (track->path == LB_PATH_REDIRECT && track->side == LB_POD_INGRESS)
		return track->device;
	return track->direction == LB_FORWARD && track->side == LB_UPLINK_INGRESS ? scratch->device : 0;
}

/*
 * Derives `scratch->reply_tuple` and `scratch->reply`, the flow's entry for the other direction, from the
 * packet's entry.
 */
static __always_inline void lb_other_entry(struct lb_scratch *scratch)
{
	const struct lb_track *track = &scratch->flow.track;

	lb_reverse(&scratch->flow.leaving, &scratch->reply_tuple);
	lb_reverse(&scratch->packet.tuple, &scratch->reply.leaving);
	scratch->reply.track = *track;
	scratch->reply.track.seen = lb_clock();
	scratch->reply.track.device = lb_other_device(scratch);
	scratch->reply.track.direction = track->direction == LB_FORWARD ? LB_REPLY : LB_FORWARD;
	scratch->reply.track.path = lb_other_path(track);
	scratch->reply.track.side = track->other_side;
	scratch->reply.track.other_side = track->side;
}

#endif
