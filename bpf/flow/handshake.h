/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Unassured flows: how each packet of a handshake changes their state. */
#ifndef SLUICE_BPF_HANDSHAKE_H
#define SLUICE_BPF_HANDSHAKE_H

#include <asm/errno.h>

#include "bpf/flow/awaited.h"
#include "bpf/flow/flow.h"
#include "bpf/flow/nat.h"
#include "bpf/flow/scratch.h"
#include "bpf/flow/track.h"
#include "bpf/packet/packet.h"
#include "bpf/packet/stats.h"
#include "maps/abi/abi.h"

/*
 * The time (lb_clock) until which packets in mid-connection without an entry in lb_flows may belong to an
 * unassured flow: one opened mid-stream, by a SYN with data, or directly to a backend, or one that did not
 * fit into lb_flows. Each packet in mid-connection that leaves its flow unassured postpones it.
 */
__u32 lb_midstream_until __weak;

static __always_inline int lb_is_midstream(const struct lb_packet *packet)
{
	return packet->step == LB_STEP_DATA || packet->step == LB_STEP_FIN;
}

/* Written once a second at most, so that its cache line stays clean. */
static __always_inline void lb_expect_midstream(void)
{
	__u32 until = lb_clock() + lb_config.unassured_seconds;

	if (lb_midstream_until != until)
		lb_midstream_until = until;
}

enum lb_insert_result { LB_INSERT_REFUSED, LB_INSERT_ADDED, LB_INSERT_EXISTED, LB_INSERT_DISPLACED };

/* Adds an entry to lb_flows; an equal existing one is a success. */
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
 * Whether another flow has taken the tuple of this one, which was not assured. If not, replies keep the
 * device that they have found. The lock is held.
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

/*
 * The position of each side, from the packet that assures the flow; SCTP's server gave its tag in the
 * handshake.
 */
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

/*
 * Notes in both entries that the flow is proved two-way, because later packets may not show it: a client
 * acknowledges the SYN-ACK alone only until the server sends data. SCTP's packets always have the tag.
 */
static __always_inline void lb_keep_proof(struct lb_scratch *scratch)
{
	struct lb_track *live;

	if (scratch->packet.tuple.protocol != LB_TCP)
		return;
	live = lb_flow_find(LB_UNASSURED, &scratch->packet.tuple, &scratch->existing);
	if (live && lb_same_tuple(&scratch->existing.leaving, &scratch->flow.leaving))
		live->number = LB_PROVED;
	live = lb_flow_find(LB_UNASSURED, &scratch->reply_tuple, &scratch->existing);
	if (live && lb_same_tuple(&scratch->existing.leaving, &scratch->reply.leaving))
		live->number = LB_PROVED;
}

/* Adds both entries or none: the reply's first, so that no forward packet is translated without a way back. */
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
		lb_keep_proof(scratch);
	lb_count(LB_OUTCOME_assure_failed);
	return 0;
}

/*
 * The server's answer adds the forward entry: a SYN-ACK with the number that the client must acknowledge; or an
 * ACK of a connection that the server still has on this tuple, which the client ends by a reset, for which the
 * entry is. If a SYN is repeated after a change, two backends may answer: the first one gets the flow, and the
 * client must not see the other one's SYN-ACK, or it would continue with that one if the first answer is lost
 * (REL-11). Returns 0 for that one.
 */
LB_FUNCTION int lb_note_answer(void)
{
	struct lb_scratch *scratch = lb_scratch_get();
	struct lb_track *live;
	int synack;

	if (!scratch)
		return 0;
	synack = scratch->packet.step == LB_STEP_SYNACK;
	lb_other_entry(scratch);
	scratch->reply.track.number = synack ? scratch->packet.expected_ack : LB_NO_SYNACK;
	scratch->reply.track.state = synack ? LB_ANSWERED : LB_OPENING;
	if (!lb_flow_insert(LB_UNASSURED, &scratch->reply_tuple, &scratch->reply, BPF_NOEXIST))
		return 1;
	live = lb_unassured_find(&scratch->reply_tuple, &scratch->existing);
	if (live && lb_same_tuple(&scratch->existing.leaving, &scratch->reply.leaving)) {
		if (!synack)
			return 1;
		live->number = scratch->reply.track.number;
		live->state = LB_ANSWERED;
		live->seen = scratch->reply.track.seen;
		return 1;
	}
	if (live && scratch->existing.track.state == LB_ANSWERED)
		return !synack;
	lb_flow_insert(LB_UNASSURED, &scratch->reply_tuple, &scratch->reply, BPF_ANY);
	return 1;
}

/*
 * How far the client's first packet after the SYN-ACK may acknowledge beyond it: data that a server sent on
 * the data of the SYN (RFC 7413), in practice at most an initial window. A blind guess succeeds once in
 * 65,536 times.
 */
#define LB_FAST_OPEN_DATA (1U << 16)

/* Whether the client has seen the SYN-ACK. */
static __always_inline int lb_acknowledges(const struct lb_track *track, __u32 ack)
{
	__u32 beyond = ack - track->number;

	return track->fast_open == LB_YES ? beyond < LB_FAST_OPEN_DATA : !beyond;
}

/* Whether this packet shows that both ends take part, which assures the flow. */
static __always_inline int lb_proves_two_way(const struct lb_scratch *scratch)
{
	const struct lb_track *track = &scratch->flow.track;

	if (scratch->packet.tuple.protocol == LB_UDP)
		return track->direction == LB_REPLY;
	if (!lb_is_midstream(&scratch->packet))
		return 0;
	/* One that ends needs no place in lb_flows any more; a forged FIN delays it until there is new data. */
	if (track->number == LB_PROVED)
		return track->state < LB_CLOSING && scratch->packet.step != LB_STEP_FIN;
	if (track->direction == LB_REPLY)
		return track->state == LB_OPENING && track->number == LB_NO_HANDSHAKE;
	/* A forged FIN or RST in between does not prevent the assurance. */
	return track->number > LB_PROVED && lb_acknowledges(track, scratch->packet.ack);
}

/* The reply entry of a forward packet's flow; NULL if it was evicted or is too old. */
static __always_inline struct lb_track *lb_reply_find(struct lb_scratch *scratch)
{
	struct lb_track *live;

	lb_reverse(&scratch->flow.leaving, &scratch->reply_tuple);
	lb_reverse(&scratch->packet.tuple, &scratch->existing_reply);
	live = lb_unassured_find(&scratch->reply_tuple, &scratch->existing);
	return live && lb_same_tuple(&scratch->existing.leaving, &scratch->existing_reply) ? live : NULL;
}

/*
 * Whether an unassured flow still has its reply entry, which is kept as long as this entry: by the first
 * packet of each second, for UDP by each packet. The LRU may have evicted it: it is added again, or the flow
 * starts again. For UDP the first packet of each second also checks the backend and the frontend, even if the
 * reply entry exists. A flow that ends here loses its entry, or the next packet would find it checked.
 */
static __always_inline int lb_unassured_alive(struct lb_scratch *scratch, int new_second)
{
	int udp = scratch->packet.tuple.protocol == LB_UDP;
	struct lb_track *reply;

	if (scratch->flow.track.direction != LB_FORWARD || (!udp && !new_second))
		return 1;
	reply = udp && new_second ? NULL : lb_reply_find(scratch);
	if (reply) {
		lb_flow_touch(reply, &scratch->existing.track, lb_clock());
		return 1;
	}
	if (!lb_abandoned(scratch)) {
		lb_other_entry(scratch);
		if (lb_claim_tuple() == LB_CLAIMED)
			return 1;
	}
	lb_flow_erase(LB_UNASSURED, &scratch->packet.tuple);
	return 0;
}

/* Whether this SYN begins a new flow on the tuple of one that has ended, or that began in mid-connection. */
static __always_inline int lb_is_restart(const struct lb_scratch *scratch)
{
	const struct lb_track *track = &scratch->flow.track;
	int midstream = track->direction == LB_FORWARD && track->number == LB_NO_HANDSHAKE;

	return (midstream && scratch->packet.step == LB_STEP_SYN) || lb_begins_anew(scratch);
}

/*
 * Of a flow that began in mid-connection perhaps no backend knows: whoever forged its first packet can send a
 * SYN, too, and what a backend then sends would prove the flow two-way. So from now on only the client's
 * number does.
 */
static __always_inline void lb_forget_handshake(struct lb_scratch *scratch)
{
	struct lb_track *reply = lb_reply_find(scratch);

	if (reply)
		reply->number = LB_NO_SYNACK;
}

/* Whether the packet assures its flow. If lb_flows refused that before, it is tried again once a second. */
static __always_inline int lb_becomes_assured(struct lb_scratch *scratch, int new_second)
{
	return (new_second || scratch->flow.track.number != LB_PROVED) && lb_proves_two_way(scratch) &&
	       lb_assure();
}

/*
 * Whether a packet of a server is its answer to a SYN: a SYN-ACK, or, as long as none was seen, any other packet
 * but a reset. A SYN of the server's own opens the connection from both sides (RFC 9293, 3.5).
 */
static __always_inline int lb_answers(const struct lb_scratch *scratch)
{
	const struct lb_track *track = &scratch->flow.track;

	if (track->direction != LB_REPLY)
		return 0;
	return scratch->packet.step == LB_STEP_SYNACK ||
	       (scratch->packet.step != LB_STEP_RST && track->number == LB_NO_SYNACK);
}

/* A SYN without a known answer expects one again. */
static __always_inline void lb_await_again(struct lb_scratch *scratch)
{
	if (scratch->packet.step != LB_STEP_SYN || scratch->flow.track.direction != LB_FORWARD)
		return;
	lb_reverse(&scratch->flow.leaving, &scratch->reply_tuple);
	lb_await_answer(&scratch->reply_tuple);
}

LB_FUNCTION enum lb_outcome lb_unassured(void)
{
	struct lb_scratch *scratch = lb_scratch_get();
	struct lb_track *live;
	int new_second;

	if (!scratch)
		return LB_OUTCOME_unrelated;
	live = lb_unassured_find(&scratch->packet.tuple, &scratch->flow);
	if (!live || !lb_acts_here(&scratch->flow.track, scratch->hook))
		return LB_OUTCOME_unrelated;
	if (lb_is_restart(scratch)) {
		lb_forget_handshake(scratch);
		return LB_OUTCOME_unrelated;
	}
	if (scratch->hook == LB_HOOK_XDP && lb_is_for_stack(&scratch->flow.track))
		return LB_OUTCOME_left_to_tc;
	new_second = lb_flow_touch(live, &scratch->flow.track, lb_clock());
	if (!lb_unassured_alive(scratch, new_second))
		return LB_OUTCOME_unrelated;
	scratch->unassured = LB_YES;
	lb_unassured_note_end(scratch, live);
	lb_await_again(scratch);
	if (lb_answers(scratch)) {
		if (scratch->packet.step == LB_STEP_SYNACK) {
			live->number = scratch->packet.expected_ack;
			live->state = LB_ANSWERED;
		}
		if (!lb_note_answer())
			return LB_OUTCOME_duplicate_synack;
	} else if (!lb_becomes_assured(scratch, new_second) && lb_is_midstream(&scratch->packet)) {
		lb_expect_midstream();
	}
	return lb_known_outcome(&scratch->flow.track, scratch->hook);
}

/*
 * TCP in mid-connection without an entry in lb_flows belongs to no flow, except until lb_midstream_until, and if
 * it may answer a SYN.
 */
static __always_inline int lb_may_be_unassured(const struct lb_packet *packet)
{
	if (lb_is_midstream(packet))
		return lb_midstream_until > lb_clock() || lb_is_awaited(&packet->tuple);
	return 1;
}

#endif
