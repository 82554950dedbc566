/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The core of all packet hooks (the slow path): finds a known flow; else finds the service, selects a
 * backend, claims the tuple and records the flow. Returns the outcome and the rewrite to make; changes no
 * packet itself.
 */
#ifndef SLUICE_BPF_BALANCE_H
#define SLUICE_BPF_BALANCE_H

#include <linux/in.h>
#include <linux/in6.h>

#include "bpf/flow/flow.h"
#include "bpf/flow/fragment.h"
#include "bpf/flow/handshake.h"
#include "bpf/flow/scratch.h"
#include "bpf/flow/track.h"
#include "bpf/packet/packet.h"
#include "bpf/packet/stats.h"
#include "bpf/path/client.h"
#include "bpf/path/open.h"
#include "bpf/path/open_beside.h"
#include "bpf/select/service.h"
#include "bpf/select/switch_over.h"
#include "maps/abi/abi.h"

/* For one in this many seconds of a flow, XDP leaves the first packet to tc. */
#define LB_TC_TURN 4

/*
 * XDP uses the FIB's neighbour entry as it is, so the kernel never probes that neighbour again. tc's lookup
 * makes it probe: a neighbour's new MAC address is learned in seconds (REL-65).
 */
static __always_inline int lb_probes_neighbour(const struct lb_track *track)
{
	__u32 now = lb_clock();

	return track->seen != now && (now - track->opened) % LB_TC_TURN == 0;
}

static __always_inline enum lb_outcome lb_established(enum lb_hook hook, struct lb_scratch *scratch)
{
	struct lb_track *live = lb_flow_find(LB_ASSURED, &scratch->packet.tuple, &scratch->flow);
	int reused, new_second;

	if (!live || !lb_acts_here(&scratch->flow.track, hook))
		return LB_OUTCOME_unrelated;
	if (hook == LB_HOOK_XDP &&
	    (lb_is_for_stack(&scratch->flow.track) || lb_probes_neighbour(&scratch->flow.track)))
		return LB_OUTCOME_left_to_tc;
	reused = lb_reused(scratch);
	new_second = !reused && lb_flow_touch(live, &scratch->flow.track, lb_clock());
	if (reused || (new_second && lb_abandoned(scratch))) {
		lb_flow_erase(LB_ASSURED, &scratch->packet.tuple);
		if (reused)
			lb_flow_forget(scratch);
		return LB_OUTCOME_unrelated;
	}
	lb_note(live, new_second);
	return lb_known_outcome(&scratch->flow.track, hook);
}

/* ICMP errors and later fragments take the path of their flow's packets, and do not change the flow. */
LB_FUNCTION enum lb_outcome lb_related(void)
{
	struct lb_scratch *scratch = lb_scratch_get();
	if (!scratch)
		return LB_OUTCOME_unrelated;
	if (!lb_flow_find_any(&scratch->packet.tuple, &scratch->flow))
		return LB_OUTCOME_unrelated;
	if (!lb_acts_here(&scratch->flow.track, scratch->hook))
		return LB_OUTCOME_unrelated;
	if (scratch->packet.part == LB_LATER_FRAGMENT)
		return lb_known_outcome(&scratch->flow.track, scratch->hook);
	return lb_is_for_stack(&scratch->flow.track) ? LB_OUTCOME_icmp_stack : LB_OUTCOME_icmp_redirect;
}

/* A later fragment takes the path of the first one; it neither opens nor assures a flow. */
static __always_inline enum lb_outcome lb_later_fragment(struct lb_scratch *scratch)
{
	return lb_fragment_find(&scratch->packet) ? lb_related() : LB_OUTCOME_fragment;
}

/*
 * A new connection directly to a backend, on the tuple of a dead flow of ours: its replies do not belong to
 * that flow.
 */
LB_FUNCTION int lb_replace_dead(void)
{
	struct lb_scratch *scratch = lb_scratch_get();

	if (!scratch)
		return 0;
	lb_reverse(&scratch->packet.tuple, &scratch->reply_tuple);
	if (!lb_flow_find(LB_ASSURED, &scratch->reply_tuple, &scratch->reply) ||
	    scratch->reply.track.direction != LB_REPLY)
		return 0;
	lb_reverse(&scratch->reply.leaving, &scratch->existing_reply);
	if (!lb_flow_find(LB_ASSURED, &scratch->existing_reply, &scratch->existing))
		scratch->existing.track.state = scratch->reply.track.state;
	if (!lb_is_over(scratch->packet.tuple.protocol, scratch->reply.track.state,
			scratch->existing.track.state))
		return 0;
	lb_flow_erase(LB_ASSURED, &scratch->existing_reply);
	lb_flow_erase(LB_UNASSURED, &scratch->existing_reply);
	lb_flow_erase(LB_UNASSURED, &scratch->reply_tuple);
	if (!lb_flow_erase(LB_ASSURED, &scratch->reply_tuple))
		lb_count(LB_OUTCOME_flow_replaced);
	return 1;
}

/* Echo requests and unsupported protocols to a ClusterIP, which serves neither (SEM-31). */
static __always_inline enum lb_outcome lb_other_protocol(const struct lb_scratch *scratch)
{
	const struct lb_packet *packet = &scratch->packet;
	int icmp = packet->next == IPPROTO_ICMP || packet->next == IPPROTO_ICMPV6;

	if (scratch->hook == LB_HOOK_POD_EGRESS || !packet->transport || packet->inner_network ||
	    packet->part == LB_LATER_FRAGMENT || (icmp && packet->echo != LB_YES))
		return LB_OUTCOME_other_protocol;
	if (lb_leaves_new_flows() ||
	    lb_address_kind_of(packet->tuple.destination.bytes) != LB_CLUSTER_ADDRESS)
		return LB_OUTCOME_other_protocol;
	if (scratch->hook == LB_HOOK_TC_EGRESS)
		return LB_OUTCOME_unknown_port;
	return lb_on_loopback(&packet->tuple, &packet->tuple.source) ? LB_OUTCOME_martian
								     : lb_refuses(&packet->tuple);
}

/*
 * Returns the outcome, and in `scratch->flow` the tuple to write if the outcome rewrites the packet. What
 * belongs to no flow at egress is decided in leaving.h.
 */
static __always_inline enum lb_outcome lb_balance(void *ctx, enum lb_hook hook, struct lb_scratch *scratch)
{
	enum lb_outcome outcome;

	if (scratch->packet.inner_network)
		return hook == LB_HOOK_XDP ? LB_OUTCOME_left_to_tc : lb_related();
	if (scratch->packet.part == LB_LATER_FRAGMENT)
		return hook == LB_HOOK_XDP ? LB_OUTCOME_left_to_tc : lb_later_fragment(scratch);
	if (scratch->packet.part == LB_FIRST_FRAGMENT)
		lb_fragment_remember(&scratch->packet);
	outcome = scratch->missed == LB_YES ? LB_OUTCOME_unrelated : lb_established(hook, scratch);
	if (outcome == LB_OUTCOME_unrelated && lb_may_be_unassured(&scratch->packet))
		outcome = lb_unassured();
	if (outcome == LB_OUTCOME_unrelated && hook != LB_HOOK_TC_EGRESS && hook != LB_HOOK_POD_EGRESS)
		outcome = LB_PER_OBJECT(lb_open)(ctx);
	if (outcome == LB_OUTCOME_unrelated && scratch->packet.step == LB_STEP_SYN)
		lb_replace_dead();
	if (outcome == LB_OUTCOME_unrelated && (hook == LB_HOOK_TC_INGRESS || hook == LB_HOOK_POD_INGRESS) &&
	    (scratch->packet.step == LB_STEP_SYN || scratch->packet.step == LB_STEP_NONE))
		outcome = LB_PER_OBJECT(lb_open_direct)(ctx);
	return outcome;
}

#endif
