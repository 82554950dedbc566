/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The one core of the packet hooks: known flow? else find the service, choose, claim, record. Says what
 * happened and what the packet shall become; changes no packet itself.
 */
#ifndef SLUICE_BPF_BALANCE_H
#define SLUICE_BPF_BALANCE_H

#include <linux/in.h>
#include <linux/in6.h>

#include "bpf/flow/fragment.h"
#include "bpf/path/open.h"

/* Of so many seconds of a flow there is one whose first packet is tc's. */
#define LB_TC_TURN 4

/*
 * XDP believes what the FIB says of a neighbour, and by that nobody asks the neighbour again. tc's look-up makes the
 * kernel do so: one that has another address now is found in seconds (REL-65).
 */
static __always_inline int lb_is_tcs_turn(const struct lb_track *track)
{
	__u32 now = lb_clock();

	return track->seen != now && (now - track->opened) % LB_TC_TURN == 0;
}

static __always_inline enum lb_outcome lb_established(enum lb_hook hook, struct lb_work *work)
{
	struct lb_track *live = lb_flow_find(LB_FLOWS, &work->packet.tuple, &work->flow);
	int reused, new_second;

	if (!live || !lb_acts_here(&work->flow.track, hook))
		return LB_OUTCOME_unrelated;
	if (hook == LB_HOOK_XDP && (work->flow.track.way == LB_BY_STACK || lb_is_tcs_turn(&work->flow.track)))
		return LB_OUTCOME_left_to_tc;
	reused = lb_reused(work);
	new_second = !reused && lb_flow_touch(live, &work->flow.track, lb_clock());
	if (reused || (new_second && lb_abandoned(work))) {
		lb_flow_erase(LB_FLOWS, &work->packet.tuple);
		if (reused)
			lb_forget(work);
		return LB_OUTCOME_unrelated;
	}
	lb_note(live, new_second);
	return lb_known_outcome(&work->flow.track, hook);
}

/* ICMP errors and later fragments go where their flow's packets go, and change nothing of the flow. */
LB_FUNCTION enum lb_outcome lb_related(void)
{
	struct lb_work *work = lb_work_here();
	if (!work)
		return LB_OUTCOME_unrelated;
	if (!lb_flow_find(LB_FLOWS, &work->packet.tuple, &work->flow) &&
	    !lb_young_find(&work->packet.tuple, &work->flow))
		return LB_OUTCOME_unrelated;
	if (!lb_acts_here(&work->flow.track, work->hook))
		return LB_OUTCOME_unrelated;
	if (work->packet.part == LB_LATER_FRAGMENT)
		return lb_known_outcome(&work->flow.track, work->hook);
	return work->flow.track.way == LB_BY_STACK ? LB_OUTCOME_icmp_stack : LB_OUTCOME_icmp_redirect;
}

/* A later fragment goes where the first one went; it opens nothing and proves nothing. */
static __always_inline enum lb_outcome lb_later_fragment(struct lb_work *work)
{
	return lb_fragment_find(&work->packet) ? lb_related() : LB_OUTCOME_fragment;
}

/* ---- What belongs to no service, on its way past us. ---- */

/*
 * A new connection straight to a backend, on a tuple that a dead flow through us still holds: the answers are not that
 * flow's.
 */
static __always_inline void lb_replace_dead(struct lb_work *work)
{
	lb_reverse(&work->packet.tuple, &work->other);
	if (!lb_flow_find(LB_FLOWS, &work->other, &work->half) || work->half.track.direction != LB_REPLY)
		return;
	lb_reverse(&work->half.leaving, &work->turned);
	if (!lb_flow_find(LB_FLOWS, &work->turned, &work->there))
		work->there.track.state = work->half.track.state;
	if (!lb_is_over(work->packet.tuple.protocol, work->half.track.state, work->there.track.state))
		return;
	lb_flow_erase(LB_FLOWS, &work->turned);
	lb_flow_erase(LB_YOUNG, &work->turned);
	lb_flow_erase(LB_YOUNG, &work->other);
	if (!lb_flow_erase(LB_FLOWS, &work->other))
		lb_count(LB_OUTCOME_flow_replaced);
}

/* On its way out, after every other proxy's translation: a ClusterIP that no service has (SEM-17, 31). */
static __always_inline int lb_is_unallocated(const struct lb_work *work)
{
	const struct lb_tuple *tuple = &work->packet.tuple;
	const struct lb_node *node = lb_this_node();

	return node && lb_conduct_load(node).drop_unallocated == LB_YES &&
	       lb_in_ranges(LB_CLUSTER_IP_RANGES, &tuple->destination) &&
	       lb_address_kind_of(tuple->destination.bytes) == LB_NO_ADDRESS;
}

/*
 * What leaves although nobody serves it: calls that our sockets' hooks left alone because their service drops them ("Our choices"
 * D), and what they never saw, such as SCTP, raw sockets and pods' packets at devices that we are not told of. Nobody further on
 * may answer for it. For the node itself any address but a ClusterIP is short-circuited (SEM-32).
 */
static __always_inline enum lb_outcome lb_withheld(const struct lb_work *work)
{
	const struct lb_tuple *tuple = &work->packet.tuple;
	struct lb_frontend_key key =
		lb_frontend_at(&tuple->destination, tuple->destination_port, tuple->protocol);
	const struct lb_service *service;
	struct lb_frontend frontend = {};
	struct lb_policy policy;
	enum lb_scope scope;

	if (!lb_frontend_load(&key, &frontend))
		return lb_address_kind_of(key.address) == LB_CLUSTER_ADDRESS ? LB_OUTCOME_unknown_port
									     : LB_OUTCOME_unrelated;
	service = lb_service_of(frontend.service);
	if (!service)
		return LB_OUTCOME_unrelated;
	policy = lb_policy_load(service);
	if (lb_range_denies(frontend, policy, tuple))
		return LB_OUTCOME_range_denied;
	scope = frontend.kind == LB_CLUSTER_IP ? policy.internal : LB_CLUSTER;
	return lb_set_load(service, scope).count ? LB_OUTCOME_unrelated : lb_no_backend(policy, scope);
}

LB_FUNCTION enum lb_outcome lb_passing(void)
{
	struct lb_work *work = lb_work_here();
	if (!work)
		return LB_OUTCOME_unrelated;
	if (work->packet.step == LB_STEP_OPEN)
		lb_replace_dead(work);
	if (work->hook != LB_HOOK_TC_EGRESS ||
	    (work->packet.step != LB_STEP_NONE && work->packet.step != LB_STEP_OPEN))
		return LB_OUTCOME_unrelated;
	return lb_is_unallocated(work) ? LB_OUTCOME_unallocated : lb_withheld(work);
}

/* Echo requests and foreign protocols for a ClusterIP, of which it serves none (SEM-31). */
static __always_inline enum lb_outcome lb_foreign(const struct lb_work *work)
{
	const struct lb_packet *packet = &work->packet;
	int icmp = packet->next == IPPROTO_ICMP || packet->next == IPPROTO_ICMPV6;

	if (work->hook == LB_HOOK_POD_EGRESS || !packet->transport || packet->inner_network ||
	    packet->part == LB_LATER_FRAGMENT || (icmp && packet->echo != LB_YES))
		return LB_OUTCOME_other_protocol;
	if (lb_address_kind_of(packet->tuple.destination.bytes) != LB_CLUSTER_ADDRESS)
		return LB_OUTCOME_other_protocol;
	if (work->hook == LB_HOOK_TC_EGRESS)
		return LB_OUTCOME_unknown_port;
	return lb_on_loopback(&packet->tuple, &packet->tuple.source) ? LB_OUTCOME_martian
								     : lb_refuses(&packet->tuple);
}

/*
 * What happens to the packet, and in `work->flow` what it becomes where the outcome says that it is
 * rewritten. Packets at egress come from the stack; it opens none but the node's own flows that no socket hook serves.
 */
static __always_inline enum lb_outcome lb_balance(void *ctx, enum lb_hook hook, struct lb_work *work)
{
	enum lb_outcome outcome;

	if (work->packet.inner_network)
		return hook == LB_HOOK_XDP ? LB_OUTCOME_left_to_tc : lb_related();
	if (work->packet.part == LB_LATER_FRAGMENT)
		return hook == LB_HOOK_XDP ? LB_OUTCOME_left_to_tc : lb_later_fragment(work);
	if (work->packet.part == LB_FIRST_FRAGMENT)
		lb_fragment_remember(&work->packet);
	outcome = work->missed == LB_YES ? LB_OUTCOME_unrelated : lb_established(hook, work);
	if (outcome == LB_OUTCOME_unrelated && lb_may_be_young(&work->packet))
		outcome = lb_young();
	if (outcome == LB_OUTCOME_unrelated && hook != LB_HOOK_TC_EGRESS && hook != LB_HOOK_POD_EGRESS)
		outcome = LB_OWN(lb_open)(ctx);
	if (outcome == LB_OUTCOME_unrelated &&
	    (work->packet.step == LB_STEP_OPEN || hook == LB_HOOK_TC_EGRESS))
		outcome = lb_passing();
	if (outcome == LB_OUTCOME_unrelated && (hook == LB_HOOK_TC_INGRESS || hook == LB_HOOK_POD_INGRESS) &&
	    (work->packet.step == LB_STEP_OPEN || work->packet.step == LB_STEP_NONE))
		outcome = LB_OWN(lb_open_direct)(ctx);
	if (outcome == LB_OUTCOME_unrelated && hook == LB_HOOK_TC_EGRESS &&
	    work->packet.tuple.protocol == LB_SCTP)
		outcome = LB_OWN(lb_open_own)(ctx);
	if (outcome == LB_OUTCOME_unrelated && hook == LB_HOOK_TC_EGRESS && lb_config.stack_forwards &&
	    work->forwarded == LB_YES)
		outcome = LB_OWN(lb_open_leaving)(ctx);
	return outcome;
}

#endif
