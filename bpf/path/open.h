/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Opening a flow: who asks, which service and verdict, which backend, which source, and the claim that makes it a flow. Egress
 * opens only those of the node itself that sockets cannot.
 */
#ifndef SLUICE_BPF_OPEN_H
#define SLUICE_BPF_OPEN_H

#include "bpf/select/affinity.h"
#include "bpf/path/route.h"

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
	return LB_OWN(lb_claim)(ctx);
}

/* The stack delivers, and the reply passes us on its way out of the device of the kind the flow came by. */
static __always_inline enum lb_outcome lb_open_by_stack(void *ctx, struct lb_work *work)
{
	struct lb_track *track = &work->flow.track;

	track->way = LB_BY_STACK;
	track->other_side = track->side == LB_POD_INGRESS ? LB_POD_EGRESS : LB_OUTWARD_EGRESS;
	work->half.track = *track;
	work->half.track.device = lb_other_device(work);
	work->half.track.direction = LB_REPLY;
	work->half.track.side = track->other_side;
	work->half.track.other_side = track->side;
	return LB_OWN(lb_claim)(ctx);
}

/* A client that was given to itself would answer itself: it sees the node's address instead (SEM-39). */
static __always_inline int lb_is_hairpin(const struct lb_work *work)
{
	return lb_same_address(&work->packet.tuple.source, (const union lb_ip *)work->backend.address);
}

/* From a pod its own address is kept, because the reply must come back through this node anyway ("Our choices" C). */
static __always_inline enum lb_outcome lb_open_from_pod(void *ctx, struct lb_work *work)
{
	enum lb_outcome outcome;
	long way;

	if (!lb_is_hairpin(work)) {
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

/* A SYN with data: the server may answer it before the client's ACK. */
static __always_inline int lb_has_early_data(const struct lb_packet *packet)
{
	return packet->step == LB_STEP_OPEN && packet->tuple.protocol == LB_TCP &&
	       packet->past != packet->promise;
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
	track->fast_open = lb_has_early_data(&work->packet) ? LB_YES : LB_NO;
}

/* An endpoint may be this node without saying so (SEM-12): whoever wrote it gave no node's name. */
static __always_inline int lb_is_ours(const __u8 *address)
{
	enum lb_address_kind kind = lb_address_kind_of(address);

	return kind == LB_NODE_ADDRESS || kind == LB_NODE_PORT_ADDRESS;
}

/* Would the stack encrypt, or block, what we would send there in the clear? Redirected packets meet no IPsec policy. */
LB_FUNCTION int lb_needs_xfrm(void)
{
	const struct lb_work *work = lb_work_here();

	return work && work->xfrm && lb_in_ranges(LB_XFRM_RANGES, work->backend.address);
}

/*
 * From the node itself, on the way out: its address is kept, for replies come back to it. They pass us where they arrive from
 * another node or from a pod whose device is served; other backends here answer where nobody sees it, and are left alone.
 */
static __always_inline enum lb_outcome lb_open_from_node(void *ctx, struct lb_work *work)
{
	struct lb_track *track = &work->flow.track;
	enum lb_device_kind kind;
	enum lb_outcome outcome;
	long way;

	if (lb_is_ours(work->backend.address))
		return LB_OUTCOME_unrelated;
	way = lb_route(ctx, work, LB_KEEP_SOURCE);
	if (!lb_names_device(work, way))
		return LB_OUTCOME_no_route;
	kind = lb_device_kind_of(work->fib.ifindex);
	if (kind == LB_NO_DEVICE)
		return LB_OUTCOME_unrelated;
	if (lb_needs_xfrm())
		return LB_OUTCOME_ipsec;
	track->way = LB_BY_REDIRECT;
	track->device = work->fib.ifindex;
	track->other_side = kind == LB_POD ? LB_POD_INGRESS : LB_OUTWARD_INGRESS;
	work->half.track = *track;
	work->half.track.way = LB_BY_STACK;
	work->half.track.device = 0;
	work->half.track.direction = LB_REPLY;
	work->half.track.side = track->other_side;
	work->half.track.other_side = track->side;
	outcome = LB_OWN(lb_claim)(ctx);
	return outcome == LB_FINE ? LB_OUTCOME_new_remote : outcome;
}

/* Opens the flow to the chosen backend, by the stack or by ourselves. */
LB_FUNCTION enum lb_outcome LB_OWN(lb_open_to)(void *ctx __arg_ctx)
{
	struct lb_work *work = lb_work_here();
	int xdp, by_stack, ours = 0;
	long way = BPF_FIB_LKUP_RET_SUCCESS;
	enum lb_outcome outcome;

	if (!work)
		return LB_OUTCOME_unrelated;
	if (lb_config.stack_forwards && work->hook == LB_HOOK_XDP)
		return LB_OUTCOME_left_to_tc;
	lb_begin(work);
	if (work->hook == LB_HOOK_POD_INGRESS)
		return lb_open_from_pod(ctx, work);
	if (work->hook == LB_HOOK_TC_EGRESS)
		return lb_open_from_node(ctx, work);
	xdp = work->hook == LB_HOOK_XDP;
	by_stack = work->backend.locality == LB_SAME_NODE;
	if (!by_stack) {
		way = lb_route(ctx, work, LB_ASK_SOURCE);
		if (way == BPF_FIB_LKUP_RET_FRAG_NEEDED && !lb_config.stack_forwards) {
			work->mtu = work->fib.mtu_result;
			return LB_OUTCOME_too_big;
		}
		if (lb_names_device(work, way)) {
			ours = lb_outward(work->fib.ifindex) && (work->masquerade || lb_is_hairpin(work));
			by_stack = !ours || lb_config.stack_forwards;
		} else if (lb_is_ours(work->backend.address)) {
			by_stack = 1;
		} else {
			return LB_OUTCOME_no_route;
		}
	}
	if (xdp && (by_stack || way != BPF_FIB_LKUP_RET_SUCCESS))
		return LB_OUTCOME_left_to_tc;
	if (ours && lb_needs_xfrm())
		return LB_OUTCOME_ipsec;
	work->flow.track.forwarded = ours && by_stack ? LB_YES : LB_NO;
	outcome = by_stack ? lb_open_by_stack(ctx, work) : lb_open_remote(ctx, work);
	if (outcome != LB_FINE)
		return outcome;
	if (by_stack)
		return LB_OUTCOME_new_local;
	return xdp ? LB_OUTCOME_new_xdp : LB_OUTCOME_new_remote;
}

/*
 * UDP and mid-stream TCP have no handshake that would bring the forward entry later, and the rest of a SYN in fragments does not
 * wait for one. Without room for it the reply's entry goes too: no half of a flow stays (REL-63).
 */
static __always_inline enum lb_outcome lb_record_forward(struct lb_work *work, enum lb_outcome opened)
{
	const struct lb_track *track = &work->flow.track;

	if (track->fast_open == LB_YES ||
	    (work->packet.step != LB_STEP_NONE && work->packet.step != LB_STEP_OPEN))
		lb_midstream_until = track->opened + lb_config.young_seconds;
	if (work->packet.step == LB_STEP_OPEN && work->packet.part == LB_WHOLE)
		return opened;
	if (!lb_flow_insert(LB_YOUNG, &work->packet.tuple, &work->flow, BPF_ANY))
		return opened;
	lb_unclaim();
	return LB_OUTCOME_flow_table_full;
}

static __always_inline int lb_on_loopback(const struct lb_tuple *tuple, const union lb_ip *address)
{
	if (tuple->family == LB_IPV4)
		return address->bytes[12] == 127;
	return !address->longs[0] && address->longs[1] == bpf_cpu_to_be64(1);
}

static __always_inline struct lb_frontend_key lb_frontend_at(const union lb_ip *address, __u16 port,
							     enum lb_protocol protocol)
{
	struct lb_frontend_key key = {.port = port, .protocol = protocol};

	__builtin_memcpy(key.address, address, sizeof(key.address));
	return key;
}

/* Does the source answer for a service itself? A node may hold a balancer's address, but not speak from that port. */
static __always_inline int lb_service_source(const struct lb_tuple *tuple)
{
	struct lb_frontend_key key = lb_frontend_at(&tuple->source, tuple->source_port, tuple->protocol);
	struct lb_frontend frontend;

	return lb_frontend_load(&key, &frontend);
}

/* Who cannot be a client of a service (REL-18), or LB_FINE. */
static __always_inline enum lb_outcome lb_check_source(const struct lb_tuple *tuple)
{
	enum lb_address_kind kind = lb_address_kind_of(tuple->source.bytes);

	if (lb_is_no_host(tuple->family, &tuple->source))
		return LB_OUTCOME_martian;
	if (kind == LB_NO_ADDRESS)
		return LB_FINE;
	if (kind == LB_CLUSTER_ADDRESS || lb_service_source(tuple))
		return LB_OUTCOME_service_source;
	return kind == LB_SERVICE_ADDRESS ? LB_FINE : LB_OUTCOME_own_source;
}

/* Is the packet for a load balancer's address whose source ranges its client is in none of (SEM-37)? */
static __always_inline int lb_range_denies(struct lb_frontend frontend, struct lb_policy policy,
					   const struct lb_tuple *tuple)
{
	return frontend.kind == LB_LOAD_BALANCER && policy.source_ranges == LB_YES &&
	       !lb_in_ranges(frontend.service, &tuple->source);
}

/* Of a ClusterIP: answered is who may be a client. */
static __always_inline enum lb_outcome lb_refuses(const struct lb_tuple *tuple)
{
	enum lb_outcome outcome = lb_check_source(tuple);

	return outcome == LB_FINE ? LB_OUTCOME_unknown_port : outcome;
}

/* ---- Who asks, and what that means (SEM-32). ---- */

enum lb_client { LB_ANY_CLIENT, LB_POD_CLIENT, LB_OUTSIDE_CLIENT, LB_NODE_CLIENT };

static __always_inline struct lb_conduct lb_conduct_load(const struct lb_node *node)
{
	__u64 word = lb_load(&node->conduct);
	struct lb_conduct conduct;

	__builtin_memcpy(&conduct, &word, sizeof(word));
	return conduct;
}

/* Without a detector nobody is known to be a pod, nor known to be none. */
static __always_inline enum lb_client lb_client_of(const struct lb_work *work, struct lb_conduct conduct)
{
	const struct lb_tuple *tuple = &work->packet.tuple;

	if (work->hook == LB_HOOK_TC_EGRESS)
		return LB_NODE_CLIENT;
	switch (tuple->family == LB_IPV4 ? conduct.detector4 : conduct.detector6) {
	case LB_BY_RANGE:
		return lb_in_ranges(LB_POD_RANGES, &tuple->source) ? LB_POD_CLIENT : LB_OUTSIDE_CLIENT;
	case LB_BY_DEVICE:
		return work->hook == LB_HOOK_POD_INGRESS ? LB_POD_CLIENT : LB_OUTSIDE_CLIENT;
	default:
		return LB_ANY_CLIENT;
	}
}

/* Does who asks make a difference? If not, the ranges of pods need not be searched. */
static __always_inline int lb_asks_client(struct lb_frontend frontend, struct lb_policy policy,
					  struct lb_conduct conduct)
{
	if (frontend.kind == LB_CLUSTER_IP)
		return conduct.masquerade_all != LB_YES;
	return policy.external != LB_CLUSTER;
}

/* Does SEM-32 ask for the node's address? "Our choices" C keep the client's where the reply comes back anyway. */
static __always_inline int lb_masquerades(struct lb_frontend frontend, struct lb_policy policy,
					  struct lb_conduct conduct, enum lb_client client)
{
	if (frontend.kind == LB_CLUSTER_IP)
		return conduct.masquerade_all == LB_YES || client == LB_OUTSIDE_CLIENT;
	return policy.external == LB_CLUSTER;
}

/* The set that this traffic uses: SEM-20, SEM-32. A pod's or the node's traffic to outside addresses is short-circuited. */
static __always_inline enum lb_scope lb_scope_of(struct lb_frontend frontend, struct lb_policy policy,
						 enum lb_client client)
{
	if (frontend.kind == LB_CLUSTER_IP)
		return policy.internal;
	return client == LB_POD_CLIENT || client == LB_NODE_CLIENT ? LB_CLUSTER : policy.external;
}

static __always_inline enum lb_outcome lb_no_backend(struct lb_policy policy, enum lb_scope scope)
{
	return lb_empty_verdict(policy, scope) == LB_DROP ? LB_OUTCOME_no_backend_drop
							  : LB_OUTCOME_no_backend_reject;
}

static __always_inline enum lb_picked lb_pick_for_packet(struct lb_work *work,
							 const struct lb_service *service, __u32 number,
							 enum lb_scope scope, __u64 hash)
{
	struct lb_choice choice = {
		.client = &work->packet.tuple.source,
		.random = (__u32)(hash >> 32),
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
	       outcome == LB_OUTCOME_new_hairpin || outcome == LB_OUTCOME_new_direct;
}

/* Chooses a backend for a packet that belongs to no flow, and opens one. */
static __always_inline enum lb_outcome lb_choose(void *ctx, struct lb_work *work, struct lb_frontend frontend)
{
	const struct lb_service *service = lb_service_of(frontend.service);
	const struct lb_node *node = lb_this_node();
	struct lb_conduct conduct;
	struct lb_policy policy;
	enum lb_outcome outcome;
	enum lb_client client;
	enum lb_picked picked;
	enum lb_scope scope;
	__u64 hash;

	if (!service || !node)
		return LB_OUTCOME_unrelated;
	policy = lb_policy_load(service);
	conduct = lb_conduct_load(node);
	client = lb_asks_client(frontend, policy, conduct) ? lb_client_of(work, conduct) : LB_ANY_CLIENT;
	scope = lb_scope_of(frontend, policy, client);
	work->masquerade = lb_masquerades(frontend, policy, conduct, client);
	work->xfrm = conduct.xfrm;
	if (lb_range_denies(frontend, policy, &work->packet.tuple))
		return LB_OUTCOME_range_denied;
	hash = lb_hash(&work->packet.tuple,
		       node->choice[policy.selection == LB_MAGLEV ? LB_MAGLEV : LB_RANDOM]);
	/* Mixed again with what only this node knows: of few backends each would else begin in a small part of the ports. */
	work->hash = lb_mix(hash, node->secret[0]);
	picked = lb_pick_for_packet(work, service, frontend.service, scope, hash);
	if (picked == LB_PICKED_NONE)
		return lb_no_backend(policy, scope);
	if (picked == LB_PICKED_STALE)
		return LB_OUTCOME_stale_slot;
	outcome = LB_OWN(lb_open_to)(ctx);
	return lb_opened(outcome) ? lb_record_forward(work, outcome) : outcome;
}

/*
 * The flow by whose reply's tuple the packet's own answers would come, in `work->half`: of a client that also uses a service. Not what
 * we have sent ourselves and what some route brings back to us.
 */
static __always_inline int lb_meets_flow(struct lb_work *work)
{
	lb_reverse(&work->packet.tuple, &work->other);
	return (lb_flow_find(LB_FLOWS, &work->other, &work->half) ||
		lb_young_find(&work->other, &work->half)) &&
	       work->half.track.direction == LB_REPLY && work->half.track.source_nat == LB_NO;
}

/* The forward entry of a flow that begins where `work->half` says that another one's packets pass: to the same backend. */
static __always_inline void lb_begin_behind(struct lb_work *work, const struct lb_node *node)
{
	work->backend_id = work->half.track.backend;
	work->backend.service = work->half.track.service;
	__builtin_memcpy(work->backend.address, &work->packet.tuple.destination,
			 sizeof(work->backend.address));
	work->backend.port = work->packet.tuple.destination_port;
	work->hash = lb_mix(lb_hash(&work->packet.tuple, node->choice[LB_RANDOM]), node->secret[0]);
	lb_begin(work);
}

/*
 * A client asks a backend directly by the port by which it has a flow to that backend through a service. The flow keeps the tuple of
 * the answers, and what is asked directly gets another port, as from the kernel's own NAT.
 */
LB_FUNCTION enum lb_outcome LB_OWN(lb_open_direct)(void *ctx __arg_ctx)
{
	struct lb_work *work = lb_work_here();
	const struct lb_node *node = lb_this_node();
	enum lb_outcome outcome;

	if (!work || !node || !lb_meets_flow(work))
		return LB_OUTCOME_unrelated;
	/* By that tuple the stack forwards the flow's own packets. */
	if (work->half.track.forwarded == LB_YES)
		return LB_OUTCOME_ports_exhausted;
	lb_begin_behind(work, node);
	outcome = lb_open_by_stack(ctx, work);
	return outcome == LB_FINE ? lb_record_forward(work, LB_OUTCOME_new_direct) : outcome;
}

/*
 * What the stack forwards to a backend elsewhere, where it leaves: it gets this node's address, as a flow of its own behind the one that it
 * arrived by. Conntrack and the host's rules, which lie between the two, see client and backend.
 */
LB_FUNCTION enum lb_outcome LB_OWN(lb_open_leaving)(void *ctx __arg_ctx)
{
	struct lb_work *work = lb_work_here();
	const struct lb_node *node = lb_this_node();
	enum lb_outcome outcome = LB_OUTCOME_unrelated;
	struct lb_track *track;

	if (!work || !node || work->packet.step == LB_STEP_RESET || !lb_meets_flow(work) ||
	    work->half.track.forwarded != LB_YES)
		return LB_OUTCOME_unrelated;
	if (work->packet.step == LB_STEP_DATA || work->packet.step == LB_STEP_END)
		outcome = lb_young();
	if (outcome != LB_OUTCOME_unrelated)
		return outcome;
	lb_begin_behind(work, node);
	if (!lb_names_device(work, lb_route(ctx, work, LB_ASK_SOURCE)))
		return LB_OUTCOME_no_route;
	lb_take_source(work);
	track = &work->flow.track;
	track->way = LB_BY_STACK;
	track->source_nat = LB_YES;
	track->other_side = LB_OUTWARD_INGRESS;
	work->half.track = *track;
	work->half.track.direction = LB_REPLY;
	work->half.track.side = track->other_side;
	work->half.track.other_side = track->side;
	outcome = LB_OWN(lb_claim)(ctx);
	return outcome == LB_FINE ? lb_record_forward(work, LB_OUTCOME_new_direct) : outcome;
}

/* TCP in mid-flow towards a service: young, somebody's own business, or an open flow we lost. */
static __always_inline enum lb_outcome lb_midstream(void *ctx, struct lb_work *work)
{
	enum lb_outcome outcome = lb_young();
	int theirs;

	if (outcome != LB_OUTCOME_unrelated)
		return outcome;
	theirs = LB_OWN(lb_somebodys)(ctx, &work->packet.tuple);
	if (work->hook != LB_HOOK_XDP)
		lb_count(theirs ? LB_OUTCOME_tuple_held : LB_OUTCOME_midstream);
	return theirs ? LB_OUTCOME_unrelated : LB_FINE;
}

/* A datagram to a port that may be somebody's source port here: ClusterIPs are nobody's. */
static __always_inline int lb_is_answer(void *ctx, struct lb_work *work, struct lb_frontend frontend)
{
	if (work->packet.step != LB_STEP_NONE || frontend.kind == LB_CLUSTER_IP)
		return 0;
	if (!LB_OWN(lb_somebodys)(ctx, &work->packet.tuple))
		return 0;
	if (work->hook != LB_HOOK_XDP)
		lb_count(LB_OUTCOME_tuple_held);
	return 1;
}

/* Address zero is nobody's; as a key it would be the node ports'. */
static __always_inline int lb_nowhere(const union lb_ip *address)
{
	return !address->longs[0] && (!address->longs[1] || (__u32)address->longs[1] == LB_IPV4_PREFIX) &&
	       !address->words[3];
}

/* No frontend at that port; on a ClusterIP that is refused ("Our choices" A), once it is nothing young. */
static __always_inline enum lb_outcome lb_unserved(struct lb_work *work, enum lb_address_kind kind)
{
	enum lb_outcome outcome = LB_OUTCOME_unrelated;

	if (kind != LB_CLUSTER_ADDRESS)
		return outcome;
	if (work->packet.step == LB_STEP_DATA || work->packet.step == LB_STEP_END)
		outcome = lb_young();
	return outcome == LB_OUTCOME_unrelated ? LB_OUTCOME_unknown_port : outcome;
}

/* The frontend that a packet is for: LB_FINE, or the outcome where there is none. */
static __always_inline enum lb_outcome lb_frontend_for(struct lb_work *work, struct lb_frontend *frontend)
{
	const struct lb_tuple *tuple = &work->packet.tuple;
	enum lb_address_kind kind;

	work->asked = lb_frontend_at(&tuple->destination, tuple->destination_port, tuple->protocol);
	if (lb_frontend_load(&work->asked, frontend))
		return LB_FINE;
	kind = lb_address_kind_of(tuple->destination.bytes);
	if (kind == LB_NODE_PORT_ADDRESS && lb_node_port_load(&work->asked, frontend))
		return LB_FINE;
	return lb_unserved(work, kind);
}

/*
 * What the node's own processes send, where no socket hook is asked: SCTP's. What is refused or dropped was (lb_withheld).
 */
LB_FUNCTION enum lb_outcome LB_OWN(lb_open_own)(void *ctx __arg_ctx)
{
	struct lb_work *work = lb_work_here();
	const struct lb_tuple *tuple;
	struct lb_frontend frontend = {};

	if (!work)
		return LB_OUTCOME_unrelated;
	tuple = &work->packet.tuple;
	if (!lb_is_ours(tuple->source.bytes))
		return LB_OUTCOME_unrelated;
	if (work->packet.step != LB_STEP_OPEN)
		return lb_young();
	work->asked = lb_frontend_at(&tuple->destination, tuple->destination_port, tuple->protocol);
	if (!lb_frontend_load(&work->asked, &frontend))
		return LB_OUTCOME_unrelated;
	return lb_choose(ctx, work, frontend);
}

LB_FUNCTION enum lb_outcome LB_OWN(lb_open)(void *ctx __arg_ctx)
{
	struct lb_work *work = lb_work_here();
	const struct lb_tuple *tuple;
	struct lb_frontend frontend = {};
	enum lb_outcome outcome;

	if (!work)
		return LB_OUTCOME_unrelated;
	tuple = &work->packet.tuple;
	if (lb_on_loopback(tuple, &tuple->source) || lb_on_loopback(tuple, &tuple->destination))
		return LB_OUTCOME_martian;
	if (work->packet.step == LB_STEP_ANSWER || work->packet.step == LB_STEP_RESET ||
	    lb_nowhere(&tuple->destination))
		return LB_OUTCOME_unrelated;
	outcome = lb_frontend_for(work, &frontend);
	if (outcome == LB_OUTCOME_unknown_port)
		return lb_refuses(tuple);
	if (outcome != LB_FINE)
		return outcome;
	if (work->packet.step == LB_STEP_DATA || work->packet.step == LB_STEP_END) {
		outcome = lb_midstream(ctx, work);
		if (outcome != LB_FINE)
			return outcome;
	}
	outcome = lb_check_source(tuple);
	if (outcome != LB_FINE)
		return outcome;
	if (lb_is_answer(ctx, work, frontend))
		return LB_OUTCOME_unrelated;
	return lb_choose(ctx, work, frontend);
}

#endif
