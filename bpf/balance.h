/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The one core of the packet hooks: known flow? else find the service, choose, claim, record. Says what
 * happened and what the packet shall become; changes no packet itself.
 */
#ifndef SLUICE_BPF_BALANCE_H
#define SLUICE_BPF_BALANCE_H

#include "affinity.h"
#include "fragment.h"
#include "young.h"

#define LB_AF_INET 2
#define LB_AF_INET6 10

static __always_inline enum lb_outcome lb_established(enum lb_hook hook, struct lb_work *work)
{
	struct lb_track *live = lb_flow_find(LB_FLOWS, &work->packet.tuple, &work->flow);

	if (!live || !lb_acts_here(&work->flow.track, hook))
		return LB_OUTCOME_unrelated;
	if (hook == LB_HOOK_XDP && work->flow.track.way == LB_BY_STACK)
		return LB_OUTCOME_left_to_tc;
	if (lb_reused(work) || (lb_flow_touch(live, &work->flow.track, lb_clock()) && lb_abandoned(work))) {
		lb_flow_erase(LB_FLOWS, &work->packet.tuple);
		if (lb_reused(work))
			lb_forget(work);
		return LB_OUTCOME_unrelated;
	}
	lb_note_end(work, live);
	return lb_known_outcome(&work->flow.track, hook);
}

/* ICMP errors and later fragments go where their flow's packets go, and change nothing of the flow. */
LB_FUNCTION enum lb_outcome lb_related(struct lb_work *work)
{
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
	enum lb_outcome outcome;

	if (!lb_fragment_find(&work->packet))
		return LB_OUTCOME_fragment;
	outcome = lb_related(work);
	return outcome == LB_OUTCOME_unrelated ? LB_OUTCOME_fragment : outcome;
}

/* ---- The way out. ---- */

static __always_inline int lb_outward(__u32 index)
{
	const struct lb_device *value = bpf_map_lookup_elem(&lb_devices, &index);
	struct lb_device found;
	__u64 word;

	if (!value)
		return 0;
	word = lb_load(value);
	__builtin_memcpy(&found, &word, sizeof(word));
	return found.check == lb_device_check(index) && found.kind == LB_OUTWARD;
}

enum lb_ask { LB_KEEP_SOURCE, LB_ASK_SOURCE };

/* The way that the packet's entry takes, into `work->fib`; on request with the source address for it. */
static __always_inline long lb_route(void *ctx, struct lb_work *work, enum lb_ask ask)
{
	const struct lb_tuple *leaving = &work->flow.leaving;
	struct bpf_fib_lookup *fib = &work->fib;
	__u32 flags = ask == LB_ASK_SOURCE && lb_config.fib_source ? BPF_FIB_LOOKUP_SRC : 0;

	__builtin_memset(fib, 0, sizeof(*fib));
	fib->l4_protocol = leaving->protocol;
	fib->ifindex = work->device;
	fib->tot_len = work->hook == LB_HOOK_XDP ? work->packet.length : 0;
	if (leaving->family == LB_IPV4) {
		fib->family = LB_AF_INET;
		fib->ipv4_src = leaving->source.words[3];
		fib->ipv4_dst = leaving->destination.words[3];
	} else {
		fib->family = LB_AF_INET6;
		*(union lb_ip *)fib->ipv6_src = leaving->source;
		*(union lb_ip *)fib->ipv6_dst = leaving->destination;
	}
	return bpf_fib_lookup(ctx, fib, sizeof(*fib), flags);
}

/* Where the FIB cannot say the source address, the agent's choice for this node stands in. */
static __always_inline void lb_take_source(struct lb_work *work)
{
	struct lb_tuple *leaving = &work->flow.leaving;
	const struct lb_node *node;
	__u32 zero = 0;

	if (lb_config.fib_source) {
		if (leaving->family == LB_IPV4)
			lb_mapped(&leaving->source, work->fib.ipv4_src);
		else
			leaving->source = *(const union lb_ip *)work->fib.ipv6_src;
		return;
	}
	node = bpf_map_lookup_elem(&lb_node, &zero);
	if (node)
		leaving->source = leaving->family == LB_IPV4 ? *(const union lb_ip *)node->source4
							     : *(const union lb_ip *)node->source6;
}

/* ---- New flows. ---- */

/* Towards another node: both addresses change, and both directions are sent out by us. */
static __always_inline enum lb_outcome lb_open_remote(void *ctx, struct lb_work *work)
{
	struct lb_track *track = &work->flow.track;

	if (work->packet.hops <= 1)
		return LB_OUTCOME_hop_limit;
	lb_take_source(work);
	track->way = LB_BY_REDIRECT;
	track->device = work->fib.ifindex;
	track->source_nat = LB_YES;
	track->other_side = track->side;
	work->half.track = *track;
	work->half.track.direction = LB_REPLY;
	work->half.track.device = work->device;
	return lb_claim(ctx, work);
}

/* The stack delivers, and the reply passes us on its way out of the device of the kind the flow came by. */
static __always_inline enum lb_outcome lb_open_by_stack(void *ctx, struct lb_work *work)
{
	struct lb_track *track = &work->flow.track;

	track->way = LB_BY_STACK;
	track->other_side = track->side == LB_POD_INGRESS ? LB_POD_EGRESS : LB_OUTWARD_EGRESS;
	work->half.track = *track;
	work->half.track.direction = LB_REPLY;
	work->half.track.side = track->other_side;
	work->half.track.other_side = track->side;
	return lb_claim(ctx, work);
}

/*
 * From a pod its own address is kept, because the reply must come back through this node anyway ("Our choices" C).
 * A pod that was given to itself would answer itself: it sees the node's address instead (SEM-39).
 */
static __always_inline enum lb_outcome lb_open_from_pod(void *ctx, struct lb_work *work)
{
	const union lb_ip *source = &work->packet.tuple.source;
	const union lb_ip *chosen = (const union lb_ip *)work->backend.address;
	enum lb_outcome outcome;
	long way;

	if (source->longs[0] != chosen->longs[0] || source->longs[1] != chosen->longs[1]) {
		outcome = lb_open_by_stack(ctx, work);
		return outcome == LB_FINE ? LB_OUTCOME_new_from_pod : outcome;
	}
	way = lb_route(ctx, work, LB_ASK_SOURCE);
	if (way != BPF_FIB_LKUP_RET_SUCCESS && way != BPF_FIB_LKUP_RET_NO_NEIGH)
		return LB_OUTCOME_no_route;
	/* The port of a bridge has no neighbours: both directions leave by the device that the pod's address is on. */
	work->device = work->fib.ifindex;
	outcome = lb_open_remote(ctx, work);
	return outcome == LB_FINE ? LB_OUTCOME_new_hairpin : outcome;
}

/* The forward entry to be: the packet's tuple, towards the backend that was chosen. */
static __always_inline void lb_begin(struct lb_work *work)
{
	struct lb_track *track = &work->flow.track;

	work->flow.leaving = work->packet.tuple;
	work->flow.leaving.destination = *(const union lb_ip *)work->backend.address;
	work->flow.leaving.destination_port = work->backend.port;
	__builtin_memset(track, 0, sizeof(*track));
	track->backend = work->backend_id;
	track->service = work->backend.service;
	track->seen = track->opened = lb_clock();
	track->side = lb_side_of(work->hook);
	track->number = work->packet.step == LB_STEP_OPEN ? 0 : 1;
}

/* Opens the flow to the chosen backend, by the stack or by ourselves. */
LB_FUNCTION enum lb_outcome lb_open_to(void *ctx __arg_ctx, struct lb_work *work)
{
	int xdp, by_stack;
	long way = BPF_FIB_LKUP_RET_SUCCESS;
	enum lb_outcome outcome;

	if (!work)
		return LB_OUTCOME_unrelated;
	lb_begin(work);
	if (work->hook == LB_HOOK_POD_INGRESS)
		return lb_open_from_pod(ctx, work);
	xdp = work->hook == LB_HOOK_XDP;
	by_stack = work->backend.locality == LB_SAME_NODE;
	if (!by_stack) {
		way = lb_route(ctx, work, LB_ASK_SOURCE);
		if (way == BPF_FIB_LKUP_RET_FRAG_NEEDED) {
			work->mtu = work->fib.mtu_result;
			return LB_OUTCOME_too_big;
		}
		if (way != BPF_FIB_LKUP_RET_SUCCESS && way != BPF_FIB_LKUP_RET_NO_NEIGH)
			return LB_OUTCOME_no_route;
		by_stack = !lb_outward(work->fib.ifindex);
	}
	if (xdp && (by_stack || way != BPF_FIB_LKUP_RET_SUCCESS))
		return LB_OUTCOME_left_to_tc;
	outcome = by_stack ? lb_open_by_stack(ctx, work) : lb_open_remote(ctx, work);
	if (outcome != LB_FINE)
		return outcome;
	if (by_stack)
		return LB_OUTCOME_new_local;
	return xdp ? LB_OUTCOME_new_xdp : LB_OUTCOME_new_remote;
}

/* UDP and mid-stream TCP have no handshake that would bring the forward entry later. */
static __always_inline void lb_record_forward(struct lb_work *work)
{
	if (work->packet.step == LB_STEP_OPEN)
		return;
	if (work->packet.step != LB_STEP_NONE)
		lb_midstream_until = work->flow.track.opened + lb_config.young_seconds;
	lb_flow_insert(LB_YOUNG, &work->packet.tuple, &work->flow, BPF_ANY);
}

/* No outside packet comes from this node, from a group or from nobody: the stack's check of martians decides. */
static __always_inline int lb_own_source(const struct lb_tuple *tuple)
{
	const union lb_ip *source = &tuple->source;

	if (tuple->family == LB_IPV4 &&
	    (source->bytes[12] == 0 || source->bytes[12] == 127 || source->bytes[12] >= 224))
		return 1;
	if (source->bytes[0] == 0xff ||
	    (!source->longs[0] && (!source->longs[1] || source->longs[1] == bpf_cpu_to_be64(1))))
		return 1;
	return lb_address_kind_of(source->bytes) != LB_NO_ADDRESS;
}

/* The set that this traffic uses: SEM-20, table 32. A pod's traffic to outside addresses is short-circuited. */
static __always_inline enum lb_scope lb_scope_of(struct lb_frontend frontend, struct lb_policy policy,
						 __u32 hook)
{
	if (frontend.kind == LB_CLUSTER_IP)
		return policy.internal;
	return hook == LB_HOOK_POD_INGRESS ? LB_CLUSTER : policy.external;
}

static __always_inline enum lb_outcome lb_no_backend(struct lb_policy policy, enum lb_scope scope)
{
	return lb_empty_verdict(policy, scope) == LB_DROP ? LB_OUTCOME_no_backend_drop
							  : LB_OUTCOME_no_backend_reject;
}

static __always_inline enum lb_picked lb_pick_for_packet(struct lb_work *work,
							 const struct lb_service *service, __u32 number,
							 enum lb_scope scope)
{
	struct lb_choice choice = {
		.client = &work->packet.tuple.source,
		.random = (__u32)work->hash,
		.service = number,
		.scope = scope,
		.id = &work->backend_id,
		.backend = &work->backend,
	};

	return lb_pick_for(&choice, service);
}

static __always_inline int lb_opened(enum lb_outcome outcome)
{
	return outcome == LB_OUTCOME_new_local || outcome == LB_OUTCOME_new_remote ||
	       outcome == LB_OUTCOME_new_xdp || outcome == LB_OUTCOME_new_from_pod ||
	       outcome == LB_OUTCOME_new_hairpin;
}

/* Chooses a backend for a packet that belongs to no flow, and opens one. */
static __always_inline enum lb_outcome lb_choose(void *ctx, struct lb_work *work, struct lb_frontend frontend)
{
	const struct lb_service *service = lb_service_of(frontend.service);
	struct lb_policy policy;
	enum lb_outcome outcome;
	enum lb_picked picked;
	enum lb_scope scope;

	if (!service)
		return LB_OUTCOME_unrelated;
	policy = lb_policy_load(service);
	scope = lb_scope_of(frontend, policy, work->hook);
	work->hash = lb_hash(&work->packet.tuple);
	if (frontend.kind == LB_LOAD_BALANCER && policy.source_ranges == LB_YES &&
	    !lb_in_ranges(frontend.service, &work->packet.tuple.source))
		return LB_OUTCOME_range_denied;
	picked = lb_pick_for_packet(work, service, frontend.service, scope);
	if (picked == LB_PICKED_NONE)
		return lb_no_backend(policy, scope);
	if (picked == LB_PICKED_STALE)
		return LB_OUTCOME_stale_slot;
	outcome = lb_open_to(ctx, work);
	if (lb_opened(outcome))
		lb_record_forward(work);
	return outcome;
}

/* TCP in mid-flow towards a service: young, a socket's own business, or an open flow we lost. */
static __always_inline enum lb_outcome lb_midstream(void *ctx, struct lb_work *work)
{
	enum lb_outcome outcome = lb_young(work);

	if (outcome != LB_OUTCOME_unrelated)
		return outcome;
	if (lb_socket_holds(ctx, &work->packet.tuple))
		return LB_OUTCOME_unrelated;
	if (work->hook != LB_HOOK_XDP)
		lb_count(LB_OUTCOME_midstream);
	return LB_FINE;
}

/* Address zero is nobody's; as a key it would be the node ports'. */
static __always_inline int lb_nowhere(const union lb_ip *address)
{
	return !address->longs[0] && (!address->longs[1] || (__u32)address->longs[1] == LB_IPV4_PREFIX) &&
	       !address->words[3];
}

LB_FUNCTION enum lb_outcome lb_open(void *ctx __arg_ctx, struct lb_work *work)
{
	struct lb_frontend_key key = {};
	struct lb_frontend frontend;
	enum lb_outcome outcome;

	if (!work || work->packet.step == LB_STEP_ANSWER || work->packet.step == LB_STEP_RESET ||
	    lb_nowhere(&work->packet.tuple.destination))
		return LB_OUTCOME_unrelated;
	key.port = work->packet.tuple.destination_port;
	key.protocol = work->packet.tuple.protocol;
	__builtin_memcpy(key.address, &work->packet.tuple.destination, 16);
	if (!lb_frontend_find(&key, &frontend))
		return LB_OUTCOME_unrelated;
	if (work->packet.step == LB_STEP_DATA || work->packet.step == LB_STEP_END) {
		outcome = lb_midstream(ctx, work);
		if (outcome != LB_FINE)
			return outcome;
	}
	if (work->hook != LB_HOOK_POD_INGRESS && lb_own_source(&work->packet.tuple))
		return LB_OUTCOME_own_source;
	return lb_choose(ctx, work, frontend);
}

/*
 * What happens to the packet, and in `work->flow` what it becomes where the outcome says that it is
 * rewritten. Egress opens no flows: packets there come from the stack.
 */
static __always_inline enum lb_outcome lb_balance(void *ctx, enum lb_hook hook, struct lb_work *work)
{
	enum lb_outcome outcome;

	if (work->packet.inner_network)
		return hook == LB_HOOK_XDP ? LB_OUTCOME_left_to_tc : lb_related(work);
	if (work->packet.part == LB_LATER_FRAGMENT)
		return hook == LB_HOOK_XDP ? LB_OUTCOME_left_to_tc : lb_later_fragment(work);
	if (work->packet.part == LB_FIRST_FRAGMENT)
		lb_fragment_remember(&work->packet);
	outcome = lb_established(hook, work);
	if (outcome == LB_OUTCOME_unrelated && lb_may_be_young(&work->packet))
		outcome = lb_young(work);
	if (outcome == LB_OUTCOME_unrelated && hook != LB_HOOK_TC_EGRESS && hook != LB_HOOK_POD_EGRESS)
		outcome = lb_open(ctx, work);
	return outcome;
}

#endif
