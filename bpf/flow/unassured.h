/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Flows that are not yet proven two-way: what each packet of a handshake does to them. */
#ifndef SLUICE_BPF_UNASSURED_H
#define SLUICE_BPF_UNASSURED_H

#include "bpf/flow/nat.h"

/*
 * Until when packets in mid-flow that are not in lb_flows may belong to a young flow, because one was opened in
 * mid-stream or by a SYN with data, or found no room there (lb_clock seconds).
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

/*
 * Is a flow with such halves over? One FIN alone ends no TCP flow, whose client cannot begin anew yet; an SCTP association has
 * one end for both sides.
 */
static __always_inline int lb_is_over(enum lb_protocol protocol, enum lb_state one, enum lb_state other)
{
	if (one == LB_RESET || other == LB_RESET)
		return 1;
	return protocol == LB_TCP ? one >= LB_CLOSING && other >= LB_CLOSING
				  : one >= LB_CLOSING || other >= LB_CLOSING;
}

/*
 * A client that starts again on a tuple whose flow has ended gets a new choice (REL-12). The first packet of a known flow is
 * rare, so a look-up more is cheap.
 */
static __always_inline int lb_reused(struct lb_work *work)
{
	const struct lb_track *track = &work->flow.track;

	if (work->packet.step != LB_STEP_OPEN || track->direction != LB_FORWARD)
		return 0;
	lb_reverse(&work->flow.leaving, &work->other);
	if (!lb_flow_find(LB_FLOWS, &work->other, &work->there))
		return track->state >= LB_CLOSING;
	return lb_is_over(work->packet.tuple.protocol, track->state, work->there.track.state);
}

/* The same of a flow that was never proven, and of which nothing else is worth a look. */
static __always_inline int lb_begins_anew(const struct lb_work *work)
{
	return work->packet.step == LB_STEP_OPEN && work->flow.track.direction == LB_FORWARD &&
	       work->flow.track.state >= LB_CLOSING;
}

/* Nothing of a flow that has ended may catch the next one on its tuple, neither request nor answer. */
static __always_inline void lb_forget(struct lb_work *work)
{
	lb_reverse(&work->flow.leaving, &work->other);
	lb_flow_erase(LB_FLOWS, &work->other);
	lb_flow_erase(LB_YOUNG, &work->packet.tuple);
}

/* What a side of a young flow says of its end. Anybody may have forged it, so it only shortens the flow's life (REL-72). */
static __always_inline void lb_note_young(const struct lb_work *work, struct lb_track *live)
{
	const struct lb_track *track = &work->flow.track;

	if (work->packet.step == LB_STEP_RESET && track->state != LB_RESET)
		live->state = LB_RESET;
	else if (work->packet.step == LB_STEP_END && track->state != LB_CLOSING)
		live->state = LB_CLOSING;
	else if (work->packet.step == LB_STEP_DATA && track->state >= LB_CLOSING)
		live->state = LB_OPEN;
}

/* How far a number may lie from the one that was kept, of some packet of the flow's last second: 4 MiB behind, 64 ahead. */
#define LB_BEHIND (1U << 22)
#define LB_AHEAD (1U << 26)

/* 0: none was kept. */
static __always_inline int lb_near(__u32 number, __u32 kept)
{
	return !kept || number - kept + LB_BEHIND <= LB_BEHIND + LB_AHEAD;
}

/*
 * Does a packet of a proven flow fit what was seen of it? Of thirty packets of somebody who guesses one does. A side that
 * sends so fast that its own number says nothing acknowledges what the other one sent. SCTP: the tag that the server gave.
 */
static __always_inline int lb_fits(struct lb_work *work)
{
	const struct lb_packet *packet = &work->packet;

	if (packet->tuple.protocol != LB_TCP)
		return !work->flow.track.number || packet->proof == work->flow.track.number;
	if (lb_near(packet->past, work->flow.track.number))
		return 1;
	lb_reverse(&work->flow.leaving, &work->other);
	return lb_flow_find(LB_FLOWS, &work->other, &work->there) &&
	       lb_near(packet->proof, work->there.track.number);
}

/*
 * A side's end. One that does not fit may be forged, or of a side that was seen too seldom: of TCP it counts as a FIN, after
 * which an idle flow lives for an hour, and is nothing that another flow may begin on.
 */
static __always_inline void lb_note_close(const struct lb_work *work, struct lb_track *live, int fits)
{
	const struct lb_track *track = &work->flow.track;
	int tcp = work->packet.tuple.protocol == LB_TCP;

	if (!fits && (!tcp || track->state >= LB_CLOSING))
		return;
	if (work->packet.step == LB_STEP_RESET) {
		live->state = fits ? LB_RESET : LB_CLOSING;
		return;
	}
	if (tcp && fits && (track->state != LB_CLOSING || (__s32)(work->packet.past - track->number) > 0))
		live->number = work->packet.past;
	live->state = LB_CLOSING;
}

/* A side goes on: behind a FIN comes nothing new, behind a reset nothing at all. And once a second, how far it is. */
static __always_inline void lb_note_data(const struct lb_work *work, struct lb_track *live, int fits)
{
	const struct lb_track *track = &work->flow.track;
	int tcp = work->packet.tuple.protocol == LB_TCP;

	if (track->state == LB_CLOSING && tcp && (!fits || (__s32)(work->packet.past - track->number) <= 0))
		return;
	if (tcp && fits)
		live->number = work->packet.past;
	if (track->state >= LB_CLOSING)
		live->state = LB_OPEN;
}

/* What a packet says of its flow's end, and where its side is (REL-72). */
LB_FUNCTION int lb_note(struct lb_track *live, int new_second)
{
	struct lb_work *work = lb_work_here();
	__u8 step;

	if (!work || !live)
		return 0;
	step = work->packet.step;
	if (step == LB_STEP_RESET || step == LB_STEP_END)
		lb_note_close(work, live, lb_fits(work));
	else if (step == LB_STEP_DATA && (new_second || work->flow.track.state >= LB_CLOSING))
		lb_note_data(work, live, lb_fits(work));
	return 0;
}

/*
 * A flow that the node itself began, on its way out (SCTP, which no socket hook serves): its requests are sent by us, and its
 * replies given to the stack.
 */
static __always_inline int lb_is_nodes_own(const struct lb_track *track)
{
	if (track->source_nat == LB_YES)
		return 0;
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

enum lb_settled { LB_REFUSED, LB_ADDED, LB_WAS_THERE, LB_LOST };

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

/*
 * Has another flow taken this one's tuple, because this one had not proven itself? If not, replies go on by the device that they have
 * found. With the lock held.
 */
static __always_inline int lb_displaced(struct lb_work *work, const struct lb_tuple *reply,
					struct lb_flow *back)
{
	if (!lb_flow_find(LB_YOUNG, reply, &work->there))
		return 0;
	if (!lb_same_tuple(&work->there.leaving, &back->leaving))
		return 1;
	back->track.device = work->there.track.device;
	return 0;
}

/* Where each side is, as far as the packet that proves the flow tells; SCTP's server gave its tag in the handshake. */
static __always_inline void lb_first_numbers(struct lb_work *work)
{
	struct lb_track *mine = &work->flow.track, *other = &work->half.track;

	if (work->packet.tuple.protocol == LB_TCP) {
		mine->number = work->packet.past;
		other->number = work->packet.proof;
		return;
	}
	other->number = 0;
	if (mine->direction == LB_REPLY)
		mine->number = 0;
}

/* Both halves or none: the reply's first, so that no forward packet is translated without a way back. */
static __always_inline enum lb_settled lb_settle_both(struct lb_work *work)
{
	int forth = work->flow.track.direction == LB_FORWARD;
	struct lb_tuple *reply = forth ? &work->other : &work->packet.tuple;
	struct lb_tuple *forward = forth ? &work->packet.tuple : &work->other;
	struct lb_flow *back = forth ? &work->half : &work->flow;
	struct lb_flow *there = forth ? &work->flow : &work->half;
	enum lb_settled settled;
	__u64 *lock = lb_lock(reply);

	if (!lock)
		return LB_REFUSED;
	settled = lb_displaced(work, reply, back) ? LB_LOST : lb_settle(work, reply, back);
	if ((settled == LB_ADDED || settled == LB_WAS_THERE) &&
	    lb_settle(work, forward, there) == LB_REFUSED) {
		if (settled == LB_ADDED)
			lb_flow_erase(LB_FLOWS, reply);
		settled = LB_REFUSED;
	}
	lb_unlock(lock);
	return settled;
}

LB_FUNCTION int lb_promote(void)
{
	struct lb_work *work = lb_work_here();
	enum lb_settled settled;

	if (!work)
		return 0;
	lb_other_half(work);
	lb_first_numbers(work);
	settled = lb_settle_both(work);
	if (settled == LB_ADDED || settled == LB_WAS_THERE) {
		lb_count(LB_OUTCOME_promoted);
		return 1;
	}
	if (settled == LB_REFUSED)
		lb_midstream_until = lb_clock() + lb_config.young_seconds;
	lb_count(LB_OUTCOME_promote_failed);
	return 0;
}

/*
 * A SYN-ACK brings the forward entry, with the number that alone will prove the client. Where a SYN came again after a change
 * two backends may answer: who was first is the flow's, and of the other the client shall not hear, or it would go on with that
 * one if the first answer is lost (REL-11). 0: this is the other.
 */
LB_FUNCTION int lb_answered(void)
{
	struct lb_work *work = lb_work_here();
	struct lb_track *live;

	if (!work)
		return 0;
	lb_other_half(work);
	work->half.track.number = work->packet.promise;
	work->half.track.state = LB_ANSWERED;
	if (!lb_flow_insert(LB_YOUNG, &work->other, &work->half, BPF_NOEXIST))
		return 1;
	live = lb_young_find(&work->other, &work->there);
	if (live && lb_same_tuple(&work->there.leaving, &work->half.leaving)) {
		live->number = work->half.track.number;
		live->state = LB_ANSWERED;
		live->seen = work->half.track.seen;
		return 1;
	}
	if (live && work->there.track.state == LB_ANSWERED)
		return 0;
	lb_flow_insert(LB_YOUNG, &work->other, &work->half, BPF_ANY);
	return 1;
}

/*
 * What a client may acknowledge beyond the SYN-ACK in its first packet behind that: what a server sent on the data of the SYN (RFC
 * 7413), which is no more than an initial window in practice. Who guesses the number blindly has one chance in 65,536.
 */
#define LB_FAST_OPEN_DATA (1U << 16)

/* Does the client show that it saw the SYN-ACK? */
static __always_inline int lb_acknowledges(const struct lb_track *track, __u32 proof)
{
	__u32 beyond = proof - track->number;

	return track->fast_open == LB_YES ? beyond < LB_FAST_OPEN_DATA : !beyond;
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
	return track->state != LB_OPENING && track->number != 1 && lb_acknowledges(track, work->packet.proof);
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
	return lb_claim_tuple() == LB_CLAIMED;
}

LB_FUNCTION enum lb_outcome lb_young(void)
{
	struct lb_work *work = lb_work_here();
	struct lb_track *live;

	if (!work)
		return LB_OUTCOME_unrelated;
	live = lb_young_find(&work->packet.tuple, &work->flow);
	if (!live || !lb_acts_here(&work->flow.track, work->hook) || lb_begins_anew(work))
		return LB_OUTCOME_unrelated;
	if (work->hook == LB_HOOK_XDP && work->flow.track.way == LB_BY_STACK)
		return LB_OUTCOME_left_to_tc;
	if (!lb_young_holds(work, lb_flow_touch(live, &work->flow.track, lb_clock())))
		return LB_OUTCOME_unrelated;
	work->young = LB_YES;
	lb_note_young(work, live);
	if (work->packet.step == LB_STEP_ANSWER && work->flow.track.direction == LB_REPLY) {
		if (!lb_answered())
			return LB_OUTCOME_second_answer;
	} else if (lb_proves(work)) {
		lb_promote();
	}
	return lb_known_outcome(&work->flow.track, work->hook);
}

/* TCP in mid-flow is either in lb_flows or nobody's, save for a while after a table was lost or a SYN had data. */
static __always_inline int lb_may_be_young(const struct lb_packet *packet)
{
	if (packet->step == LB_STEP_DATA || packet->step == LB_STEP_END)
		return lb_midstream_until > lb_clock();
	return 1;
}

#endif
