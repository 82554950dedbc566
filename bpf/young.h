/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Flows that are not yet proven two-way: what each packet of a handshake does to them. */
#ifndef SLUICE_BPF_YOUNG_H
#define SLUICE_BPF_YOUNG_H

#include "nat.h"

/*
 * Until when packets in mid-flow that are not in lb_flows may belong to a young flow, because one was opened in
 * mid-stream or found no room there (lb_clock seconds).
 */
__u32 lb_midstream_until __weak;

static __always_inline enum lb_side lb_side_of(__u32 hook)
{
	switch (hook) {
	case LB_HOOK_TC_EGRESS:
		return LB_OUTWARD_EGRESS;
	case LB_HOOK_POD_INGRESS:
		return LB_POD_INGRESS;
	case LB_HOOK_POD_EGRESS:
		return LB_POD_EGRESS;
	}
	return LB_OUTWARD_INGRESS;
}

static __always_inline int lb_acts_here(const struct lb_track *track, __u32 hook)
{
	return track->side == lb_side_of(hook);
}

static __always_inline enum lb_outcome lb_known_outcome(const struct lb_track *track, __u32 hook)
{
	if (track->way == LB_BY_STACK)
		return LB_OUTCOME_flow_stack;
	return hook == LB_HOOK_XDP ? LB_OUTCOME_flow_xdp : LB_OUTCOME_flow_redirect;
}

/* UDP flows leave a backend that stopped serving; TCP flows drain (SEM-45, SEM-47). */
static __always_inline int lb_abandoned(struct lb_work *work)
{
	const struct lb_track *track = &work->flow.track;

	if (work->packet.tuple.protocol != LB_UDP || track->direction != LB_FORWARD)
		return 0;
	return !lb_backend_load(track->backend, track->service, &work->backend) ||
	       work->backend.serving != LB_YES;
}

/* A client that starts again on a tuple whose flow has ended gets a new choice (REL-12). */
static __always_inline int lb_reused(const struct lb_work *work)
{
	return work->packet.step == LB_STEP_OPEN && work->flow.track.direction == LB_FORWARD &&
	       work->flow.track.state >= LB_CLOSING;
}

/* The same where only the backend's reset was seen. A SYN of a known flow is rare, so a look-up more is cheap. */
static __always_inline int lb_was_reset(struct lb_work *work)
{
	if (work->packet.step != LB_STEP_OPEN || work->flow.track.direction != LB_FORWARD)
		return 0;
	lb_reverse(&work->flow.leaving, &work->other);
	return lb_flow_find(LB_FLOWS, &work->other, &work->there) && work->there.track.state == LB_RESET;
}

/* Nothing of a flow that has ended may catch the next one on its tuple, neither request nor answer. */
static __always_inline void lb_forget(struct lb_work *work)
{
	lb_reverse(&work->flow.leaving, &work->other);
	lb_flow_erase(LB_FLOWS, &work->other);
	lb_flow_erase(LB_YOUNG, &work->packet.tuple);
}

/* Does a packet say that its side goes on? Behind a FIN comes nothing new, behind a reset nothing at all. */
static __always_inline int lb_goes_on(const struct lb_work *work, enum lb_table table)
{
	const struct lb_track *track = &work->flow.track;

	if (track->state < LB_CLOSING || work->packet.step != LB_STEP_DATA)
		return 0;
	if (track->state == LB_RESET || table == LB_YOUNG || work->packet.tuple.protocol != LB_TCP)
		return 1;
	return (__s32)(work->packet.past - track->number) > 0;
}

/* What this side says of the flow's end. Anybody may have forged it, so it only shortens the flow's life (REL-72). */
static __always_inline void lb_note_end(const struct lb_work *work, struct lb_track *live,
					enum lb_table table)
{
	const struct lb_track *track = &work->flow.track;

	if (work->packet.step == LB_STEP_RESET && track->state != LB_RESET) {
		live->state = LB_RESET;
	} else if (work->packet.step == LB_STEP_END) {
		if (table == LB_FLOWS &&
		    (track->state != LB_CLOSING || (__s32)(work->packet.past - track->number) > 0))
			live->number = work->packet.past;
		if (track->state != LB_CLOSING)
			live->state = LB_CLOSING;
	} else if (lb_goes_on(work, table)) {
		live->state = LB_OPEN;
	}
}

/*
 * A flow that the node itself began, on its way out (SCTP, which no socket hook serves): its requests are sent by us, and its
 * replies given to the stack.
 */
static __always_inline int lb_is_nodes_own(const struct lb_track *track)
{
	return track->direction == LB_FORWARD ? track->side == LB_OUTWARD_EGRESS
					      : track->other_side == LB_OUTWARD_EGRESS;
}

static __always_inline enum lb_way lb_other_way(const struct lb_track *track)
{
	if (!lb_is_nodes_own(track))
		return track->way;
	return track->direction == LB_FORWARD ? LB_BY_STACK : LB_BY_REDIRECT;
}

/*
 * The device that the other half's packets leave by; 0: the stack knows, or lb_leaves() will. Replies to outside go back
 * by the uplink that the flow came by, whatever the stack's choice was (REL-66); but a reply says nothing of the way to
 * the backend, which may be another than its own.
 */
static __always_inline __u32 lb_other_device(const struct lb_work *work)
{
	const struct lb_track *track = &work->flow.track;

	if (lb_is_nodes_own(track))
		return track->side == LB_POD_INGRESS ? work->device : 0;
	if (track->way == LB_BY_REDIRECT && track->side == LB_POD_INGRESS)
		return track->device;
	return track->direction == LB_FORWARD && track->side == LB_OUTWARD_INGRESS ? work->device : 0;
}

/* Makes `work->other` and `work->half`, the flow's entry for the other direction, from the packet's own. */
static __always_inline void lb_other_half(struct lb_work *work)
{
	const struct lb_track *track = &work->flow.track;

	lb_reverse(&work->flow.leaving, &work->other);
	lb_reverse(&work->packet.tuple, &work->half.leaving);
	work->half.track = *track;
	work->half.track.seen = lb_clock();
	work->half.track.device = lb_other_device(work);
	work->half.track.direction = track->direction == LB_FORWARD ? LB_REPLY : LB_FORWARD;
	work->half.track.way = lb_other_way(track);
	work->half.track.side = track->other_side;
	work->half.track.other_side = track->side;
}

enum lb_settled { LB_REFUSED, LB_ADDED, LB_WAS_THERE };

/* Adds an entry to lb_flows; an equal one that is there already is as good. */
static __always_inline enum lb_settled lb_settle(struct lb_work *work, const struct lb_tuple *arriving,
						 struct lb_flow *flow)
{
	long error;

	flow->track.state = LB_OPEN;
	error = lb_flow_insert(LB_FLOWS, arriving, flow, BPF_NOEXIST);
	if (!error)
		return LB_ADDED;
	if (error != -EEXIST || !lb_flow_find(LB_FLOWS, arriving, &work->there))
		return LB_REFUSED;
	return lb_same_tuple(&work->there.leaving, &flow->leaving) ? LB_WAS_THERE : LB_REFUSED;
}

/* Has another flow taken this one's source port, because this one had not proven itself? */
static __always_inline int lb_displaced(struct lb_work *work)
{
	if (work->flow.track.direction != LB_FORWARD || work->flow.track.source_nat == LB_NO)
		return 0;
	return lb_flow_find(LB_YOUNG, &work->other, &work->there) &&
	       !lb_same_tuple(&work->there.leaving, &work->half.leaving);
}

/* Both halves or none: the reply's first, so that no forward packet is translated without a way back. */
LB_FUNCTION int lb_promote(struct lb_work *work)
{
	struct lb_tuple *reply, *forward;
	struct lb_flow *back, *there;
	enum lb_settled settled;

	if (!work)
		return 0;
	lb_other_half(work);
	if (lb_displaced(work)) {
		lb_count(LB_OUTCOME_promote_failed);
		return 0;
	}
	if (work->flow.track.direction == LB_FORWARD) {
		reply = &work->other, back = &work->half;
		forward = &work->packet.tuple, there = &work->flow;
	} else {
		reply = &work->packet.tuple, back = &work->flow;
		forward = &work->other, there = &work->half;
	}
	settled = lb_settle(work, reply, back);
	if (settled == LB_REFUSED || lb_settle(work, forward, there) == LB_REFUSED) {
		if (settled == LB_ADDED)
			lb_flow_erase(LB_FLOWS, reply);
		lb_midstream_until = lb_clock() + lb_config.young_seconds;
		lb_count(LB_OUTCOME_promote_failed);
		return 0;
	}
	lb_count(LB_OUTCOME_promoted);
	return 1;
}

/* A SYN-ACK brings the forward entry, with the number that alone will prove the client. */
LB_FUNCTION int lb_answered(struct lb_work *work)
{
	struct lb_track *live;

	if (!work)
		return 0;
	lb_other_half(work);
	work->half.track.number = work->packet.promise;
	work->half.track.state = LB_ANSWERED;
	if (!lb_flow_insert(LB_YOUNG, &work->other, &work->half, BPF_NOEXIST))
		return 1;
	live = lb_flow_find(LB_YOUNG, &work->other, &work->there);
	if (live && lb_same_tuple(&work->there.leaving, &work->half.leaving)) {
		live->number = work->half.track.number;
		live->state = LB_ANSWERED;
		live->seen = work->half.track.seen;
		return 1;
	}
	return !lb_flow_insert(LB_YOUNG, &work->other, &work->half, BPF_ANY);
}

/* Is this packet the proof that both ends take part? */
static __always_inline int lb_proves(const struct lb_work *work)
{
	const struct lb_track *track = &work->flow.track;

	if (work->packet.tuple.protocol == LB_UDP)
		return track->direction == LB_REPLY;
	if (work->packet.step != LB_STEP_DATA && work->packet.step != LB_STEP_END)
		return 0;
	if (track->direction == LB_REPLY)
		return track->state == LB_OPENING && track->number == 1;
	/* An end that was forged meanwhile takes nothing from the proof. */
	return track->state != LB_OPENING && track->number != 1 && work->packet.proof == track->number;
}

static __always_inline int lb_has_reply(struct lb_work *work)
{
	lb_reverse(&work->flow.leaving, &work->other);
	lb_reverse(&work->packet.tuple, &work->turned);
	return lb_flow_find(LB_YOUNG, &work->other, &work->there) &&
	       lb_same_tuple(&work->there.leaving, &work->turned);
}

/*
 * Does a young one-way flow still have its way back, and once a second, its backend? The LRU may have evicted the reply's
 * half, which comes back, or the flow starts anew. To ask for it with each packet is what keeps it as long as this half.
 */
static __always_inline int lb_young_holds(struct lb_work *work, int new_second)
{
	if (work->packet.tuple.protocol != LB_UDP || work->flow.track.direction != LB_FORWARD)
		return 1;
	if (!new_second && lb_has_reply(work))
		return 1;
	if (lb_abandoned(work))
		return 0;
	lb_other_half(work);
	return lb_claim_tuple(work) == LB_CLAIMED;
}

LB_FUNCTION enum lb_outcome lb_young(struct lb_work *work)
{
	struct lb_track *live;

	if (!work)
		return LB_OUTCOME_unrelated;
	live = lb_young_find(&work->packet.tuple, &work->flow);
	if (!live || !lb_acts_here(&work->flow.track, work->hook) || lb_reused(work))
		return LB_OUTCOME_unrelated;
	if (work->hook == LB_HOOK_XDP && work->flow.track.way == LB_BY_STACK)
		return LB_OUTCOME_left_to_tc;
	if (!lb_young_holds(work, lb_flow_touch(live, &work->flow.track, lb_clock())))
		return LB_OUTCOME_unrelated;
	lb_note_end(work, live, LB_YOUNG);
	if (work->packet.step == LB_STEP_ANSWER && work->flow.track.direction == LB_REPLY)
		lb_answered(work);
	else if (lb_proves(work))
		lb_promote(work);
	return lb_known_outcome(&work->flow.track, work->hook);
}

/* TCP in mid-flow is either in lb_flows or nobody's, save for a while after a table was lost. */
static __always_inline int lb_may_be_young(const struct lb_packet *packet)
{
	if (packet->step == LB_STEP_DATA || packet->step == LB_STEP_END)
		return lb_midstream_until > lb_clock();
	return 1;
}

#endif
