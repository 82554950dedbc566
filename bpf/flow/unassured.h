/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Flows that are not yet proven two-way: what each packet of a handshake does to them. */
#ifndef SLUICE_BPF_UNASSURED_H
#define SLUICE_BPF_UNASSURED_H

#include "bpf/flow/nat.h"

/*
 * Until when packets in mid-flow that are not in lb_flows may belong to an unassured flow, because one was opened in
 * mid-stream or by a SYN with data, or found no room there (lb_clock seconds).
 */
__u32 lb_midstream_until __weak;

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

static __always_inline enum lb_outcome lb_known_outcome(const struct lb_track *track, __u32 hook)
{
	if (track->path == LB_PATH_STACK)
		return LB_OUTCOME_flow_stack;
	return hook == LB_HOOK_XDP ? LB_OUTCOME_flow_xdp : LB_OUTCOME_flow_redirect;
}

/* UDP flows leave a backend that stopped serving; TCP flows drain (SEM-45, SEM-47). */
static __always_inline int lb_abandoned(struct lb_scratch *scratch)
{
	const struct lb_track *track = &scratch->flow.track;

	if (scratch->packet.tuple.protocol != LB_UDP || track->direction != LB_FORWARD)
		return 0;
	return !lb_backend_load(track->backend, track->service, &scratch->backend) ||
	       scratch->backend.serving != LB_YES;
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

/* The same of a flow that was never proven, and of which nothing else is worth a look. */
static __always_inline int lb_begins_anew(const struct lb_scratch *scratch)
{
	return scratch->packet.step == LB_STEP_SYN && scratch->flow.track.direction == LB_FORWARD &&
	       scratch->flow.track.state >= LB_CLOSING;
}

/* Nothing of a flow that has ended may catch the next one on its tuple, neither request nor answer. */
static __always_inline void lb_flow_forget(struct lb_scratch *scratch)
{
	lb_reverse(&scratch->flow.leaving, &scratch->reply_tuple);
	lb_flow_erase(LB_ASSURED, &scratch->reply_tuple);
	lb_flow_erase(LB_UNASSURED, &scratch->packet.tuple);
}

/* What a side of an unassured flow says of its end. Anybody may have forged it, so it only shortens the flow's life (REL-72). */
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
 * A side's end. One that does not fit may be forged, or of a side that was seen too seldom: of TCP it counts as a FIN, after
 * which an idle flow lives for an hour, and is nothing that another flow may begin on.
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

/* A side goes on: behind a FIN comes nothing new, behind a reset nothing at all. And once a second, how far it is. */
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

/* What a packet says of its flow's end, and where its side is (REL-72). */
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
 * A flow that the node itself began, on its way out (SCTP, which no socket hook serves): its requests are sent by us, and its
 * replies given to the stack.
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
 * The device that the other half's packets leave by; 0: the stack knows, or lb_find_next_hop() will. Replies to outside go back
 * by the uplink that the flow came by, whatever the stack's choice was (REL-66); but a reply says nothing of the way to
 * the backend, which may be another than its own.
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

/* Makes `scratch->reply_tuple` and `scratch->reply`, the flow's entry for the other direction, from the packet's own. */
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

enum lb_insert_result { LB_INSERT_REFUSED, LB_INSERT_ADDED, LB_INSERT_EXISTED, LB_INSERT_DISPLACED };

/* Adds an entry to lb_flows; an equal one that is there already is as good. */
static __always_inline enum lb_insert_result lb_assure_entry(struct lb_scratch *scratch,
							     const struct lb_tuple *arriving,
							     struct lb_flow *flow)
{
	long error;

	flow->track.state = LB_OPEN;
	error = lb_flow_insert(LB_ASSURED, arriving, flow, BPF_NOEXIST);
	if (!error)
		return LB_INSERT_ADDED;
	if (error != -EEXIST || !lb_flow_find(LB_ASSURED, arriving, &scratch->existing))
		return LB_INSERT_REFUSED;
	return lb_same_tuple(&scratch->existing.leaving, &flow->leaving) ? LB_INSERT_EXISTED
									 : LB_INSERT_REFUSED;
}

/*
 * Has another flow taken this one's tuple, because this one had not proven itself? If not, replies go on by the device that they have
 * found. With the lock held.
 */
static __always_inline int lb_displaced(struct lb_scratch *scratch, const struct lb_tuple *reply,
					struct lb_flow *back)
{
	if (!lb_flow_find(LB_UNASSURED, reply, &scratch->existing))
		return 0;
	if (!lb_same_tuple(&scratch->existing.leaving, &back->leaving))
		return 1;
	back->track.device = scratch->existing.track.device;
	return 0;
}

/* Where each side is, as far as the packet that proves the flow tells; SCTP's server gave its tag in the handshake. */
static __always_inline void lb_first_numbers(struct lb_scratch *scratch)
{
	struct lb_track *mine = &scratch->flow.track, *other = &scratch->reply.track;

	if (scratch->packet.tuple.protocol == LB_TCP) {
		mine->number = scratch->packet.end_seq;
		other->number = scratch->packet.ack;
		return;
	}
	other->number = 0;
	if (mine->direction == LB_REPLY)
		mine->number = 0;
}

/* Both halves or none: the reply's first, so that no forward packet is translated without a way back. */
static __always_inline enum lb_insert_result lb_assure_entries(struct lb_scratch *scratch)
{
	int forth = scratch->flow.track.direction == LB_FORWARD;
	struct lb_tuple *reply = forth ? &scratch->reply_tuple : &scratch->packet.tuple;
	struct lb_tuple *forward = forth ? &scratch->packet.tuple : &scratch->reply_tuple;
	struct lb_flow *back = forth ? &scratch->reply : &scratch->flow;
	struct lb_flow *there = forth ? &scratch->flow : &scratch->reply;
	enum lb_insert_result settled;
	__u64 *lock = lb_lock(reply);

	if (!lock)
		return LB_INSERT_REFUSED;
	settled = lb_displaced(scratch, reply, back) ? LB_INSERT_DISPLACED
						     : lb_assure_entry(scratch, reply, back);
	if ((settled == LB_INSERT_ADDED || settled == LB_INSERT_EXISTED) &&
	    lb_assure_entry(scratch, forward, there) == LB_INSERT_REFUSED) {
		if (settled == LB_INSERT_ADDED)
			lb_flow_erase(LB_ASSURED, reply);
		settled = LB_INSERT_REFUSED;
	}
	lb_unlock(lock);
	return settled;
}

LB_FUNCTION int lb_assure(void)
{
	struct lb_scratch *scratch = lb_scratch_get();
	enum lb_insert_result settled;

	if (!scratch)
		return 0;
	lb_other_entry(scratch);
	lb_first_numbers(scratch);
	settled = lb_assure_entries(scratch);
	if (settled == LB_INSERT_ADDED || settled == LB_INSERT_EXISTED) {
		lb_count(LB_OUTCOME_assured);
		return 1;
	}
	if (settled == LB_INSERT_REFUSED)
		lb_midstream_until = lb_clock() + lb_config.unassured_seconds;
	lb_count(LB_OUTCOME_assure_failed);
	return 0;
}

/*
 * A SYN-ACK brings the forward entry, with the number that alone will prove the client. Where a SYN came again after a change
 * two backends may answer: who was first is the flow's, and of the other the client shall not hear, or it would go on with that
 * one if the first answer is lost (REL-11). 0: this is the other.
 */
LB_FUNCTION int lb_note_synack(void)
{
	struct lb_scratch *scratch = lb_scratch_get();
	struct lb_track *live;

	if (!scratch)
		return 0;
	lb_other_entry(scratch);
	scratch->reply.track.number = scratch->packet.expected_ack;
	scratch->reply.track.state = LB_ANSWERED;
	if (!lb_flow_insert(LB_UNASSURED, &scratch->reply_tuple, &scratch->reply, BPF_NOEXIST))
		return 1;
	live = lb_unassured_find(&scratch->reply_tuple, &scratch->existing);
	if (live && lb_same_tuple(&scratch->existing.leaving, &scratch->reply.leaving)) {
		live->number = scratch->reply.track.number;
		live->state = LB_ANSWERED;
		live->seen = scratch->reply.track.seen;
		return 1;
	}
	if (live && scratch->existing.track.state == LB_ANSWERED)
		return 0;
	lb_flow_insert(LB_UNASSURED, &scratch->reply_tuple, &scratch->reply, BPF_ANY);
	return 1;
}

/*
 * What a client may acknowledge beyond the SYN-ACK in its first packet behind that: what a server sent on the data of the SYN (RFC
 * 7413), which is no more than an initial window in practice. Who guesses the number blindly has one chance in 65,536.
 */
#define LB_FAST_OPEN_DATA (1U << 16)

/* Does the client show that it saw the SYN-ACK? */
static __always_inline int lb_acknowledges(const struct lb_track *track, __u32 ack)
{
	__u32 beyond = ack - track->number;

	return track->fast_open == LB_YES ? beyond < LB_FAST_OPEN_DATA : !beyond;
}

/* Is this packet the proof that both ends take part? */
static __always_inline int lb_proves_two_way(const struct lb_scratch *scratch)
{
	const struct lb_track *track = &scratch->flow.track;

	if (scratch->packet.tuple.protocol == LB_UDP)
		return track->direction == LB_REPLY;
	if (scratch->packet.step != LB_STEP_DATA && scratch->packet.step != LB_STEP_FIN)
		return 0;
	if (track->direction == LB_REPLY)
		return track->state == LB_OPENING && track->number == 1;
	/* An end that was forged meanwhile takes nothing from the proof. */
	return track->state != LB_OPENING && track->number != 1 &&
	       lb_acknowledges(track, scratch->packet.ack);
}

static __always_inline int lb_has_reply(struct lb_scratch *scratch)
{
	lb_reverse(&scratch->flow.leaving, &scratch->reply_tuple);
	lb_reverse(&scratch->packet.tuple, &scratch->existing_reply);
	return lb_flow_find(LB_UNASSURED, &scratch->reply_tuple, &scratch->existing) &&
	       lb_same_tuple(&scratch->existing.leaving, &scratch->existing_reply);
}

/*
 * Does an unassured one-way flow still have its way back, and once a second, its backend? The LRU may have evicted the reply's
 * half, which comes back, or the flow starts anew. To ask for it with each packet is what keeps it as long as this half.
 */
static __always_inline int lb_unassured_alive(struct lb_scratch *scratch, int new_second)
{
	if (scratch->packet.tuple.protocol != LB_UDP || scratch->flow.track.direction != LB_FORWARD)
		return 1;
	if (!new_second && lb_has_reply(scratch))
		return 1;
	if (lb_abandoned(scratch))
		return 0;
	lb_other_entry(scratch);
	return lb_claim_tuple() == LB_CLAIMED;
}

LB_FUNCTION enum lb_outcome lb_unassured(void)
{
	struct lb_scratch *scratch = lb_scratch_get();
	struct lb_track *live;

	if (!scratch)
		return LB_OUTCOME_unrelated;
	live = lb_unassured_find(&scratch->packet.tuple, &scratch->flow);
	if (!live || !lb_acts_here(&scratch->flow.track, scratch->hook) || lb_begins_anew(scratch))
		return LB_OUTCOME_unrelated;
	if (scratch->hook == LB_HOOK_XDP && scratch->flow.track.path == LB_PATH_STACK)
		return LB_OUTCOME_left_to_tc;
	if (!lb_unassured_alive(scratch, lb_flow_touch(live, &scratch->flow.track, lb_clock())))
		return LB_OUTCOME_unrelated;
	scratch->unassured = LB_YES;
	lb_unassured_note_end(scratch, live);
	if (scratch->packet.step == LB_STEP_SYNACK && scratch->flow.track.direction == LB_REPLY) {
		if (!lb_note_synack())
			return LB_OUTCOME_duplicate_synack;
	} else if (lb_proves_two_way(scratch)) {
		lb_assure();
	}
	return lb_known_outcome(&scratch->flow.track, scratch->hook);
}

/* TCP in mid-flow is either in lb_flows or nobody's, save for a while after a table was lost or a SYN had data. */
static __always_inline int lb_may_be_unassured(const struct lb_packet *packet)
{
	if (packet->step == LB_STEP_DATA || packet->step == LB_STEP_FIN)
		return lb_midstream_until > lb_clock();
	return 1;
}

#endif
