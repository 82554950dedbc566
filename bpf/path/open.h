/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Opens a flow: finds the service and its verdict, selects backend and source, and claims the reply tuple. Egress opens only
 * flows of the node itself that socket hooks cannot translate.
 */
#ifndef SLUICE_BPF_OPEN_H
#define SLUICE_BPF_OPEN_H

#include "bpf/flow/flow.h"
#include "bpf/flow/handshake.h"
#include "bpf/flow/nat.h"
#include "bpf/flow/scratch.h"
#include "bpf/flow/track.h"
#include "bpf/flow/tuple_in_use.h"
#include "bpf/packet/packet.h"
#include "bpf/packet/stats.h"
#include "bpf/path/client.h"
#include "bpf/path/route.h"
#include "bpf/select/affinity.h"
#include "bpf/select/ranges.h"
#include "bpf/select/service.h"
#include "bpf/select/switch_over.h"
#include "maps/abi/abi.h"

/* ---- New flows. ---- */

/* To another node: both addresses are rewritten, and both directions are redirected by us. */
static __always_inline enum lb_outcome lb_open_remote(void *ctx, struct lb_scratch *scratch)
{
	struct lb_track *track = &scratch->flow.track;

	if (scratch->packet.hops <= 1)
		return LB_OUTCOME_hop_limit;
	lb_take_source(scratch);
	track->path = LB_PATH_REDIRECT;
	track->device = scratch->fib.ifindex;
	track->source_nat = LB_YES;
	track->other_side = track->side;
	scratch->reply.track = *track;
	scratch->reply.track.direction = LB_REPLY;
	scratch->reply.track.device = scratch->device;
	return LB_OWN(lb_claim)(ctx);
}

/* Through the stack; the reply passes us at egress of a device of the kind that the flow arrived at. */
static __always_inline enum lb_outcome lb_open_by_stack(void *ctx, struct lb_scratch *scratch)
{
	struct lb_track *track = &scratch->flow.track;

	track->path = LB_PATH_STACK;
	track->other_side = track->side == LB_POD_INGRESS ? LB_POD_EGRESS : LB_UPLINK_EGRESS;
	scratch->reply.track = *track;
	scratch->reply.track.device = lb_other_device(scratch);
	scratch->reply.track.direction = LB_REPLY;
	scratch->reply.track.side = track->other_side;
	scratch->reply.track.other_side = track->side;
	return LB_OWN(lb_claim)(ctx);
}

/* Hairpin: a pod that is its own backend would reply to itself directly, so it sees the node's address (SEM-39). */
static __always_inline int lb_is_hairpin(const struct lb_scratch *scratch)
{
	return lb_same_address(&scratch->packet.tuple.source, (const union lb_ip *)scratch->backend.address);
}

/* A pod's own address is kept, because the reply returns through this node anyway ("Our choices" C). */
static __always_inline enum lb_outcome lb_open_from_pod(void *ctx, struct lb_scratch *scratch)
{
	enum lb_outcome outcome;
	long result;

	if (!lb_is_hairpin(scratch)) {
		outcome = lb_open_by_stack(ctx, scratch);
		return outcome == LB_OUTCOME_NONE ? LB_OUTCOME_new_from_pod : outcome;
	}
	result = lb_route(ctx, scratch, LB_ASK_SOURCE);
	if (result != BPF_FIB_LKUP_RET_SUCCESS && result != BPF_FIB_LKUP_RET_NO_NEIGH)
		return LB_OUTCOME_no_route;
	/* The port of a bridge has no neighbours: both directions leave by the device that the pod's address is on. */
	scratch->device = scratch->fib.ifindex;
	outcome = lb_open_remote(ctx, scratch);
	return outcome == LB_OUTCOME_NONE ? LB_OUTCOME_new_hairpin : outcome;
}

/* A SYN with data: the server may answer it before the client's ACK. */
static __always_inline int lb_has_syn_data(const struct lb_packet *packet)
{
	return packet->step == LB_STEP_SYN && packet->tuple.protocol == LB_TCP &&
	       packet->end_seq != packet->expected_ack;
}

/* Fills the forward entry: the packet's tuple, translated to the selected backend. */
static __always_inline void lb_begin(struct lb_scratch *scratch)
{
	struct lb_track *track = &scratch->flow.track;

	scratch->flow.leaving = scratch->packet.tuple;
	scratch->flow.leaving.destination = *(const union lb_ip *)scratch->backend.address;
	scratch->flow.leaving.destination_port = scratch->backend.port;
	__builtin_memset(track, 0, sizeof(*track));
	track->backend = scratch->backend_id;
	track->service = scratch->backend.service;
	track->seen = track->opened = lb_clock();
	track->side = lb_side_of(scratch->hook);
	track->number = scratch->packet.step == LB_STEP_SYN ? 0 : 1;
	track->fast_open = lb_has_syn_data(&scratch->packet) ? LB_YES : LB_NO;
}

/* An endpoint may be on this node although its EndpointSlice has no nodeName (SEM-12). */
static __always_inline int lb_is_ours(const __u8 *address)
{
	enum lb_address_kind kind = lb_address_kind_of(address);

	return kind == LB_NODE_ADDRESS || kind == LB_NODE_PORT_ADDRESS;
}

/* Would the stack encrypt, or block, what we would send in the clear? Redirected packets bypass IPsec policies. */
LB_FUNCTION int lb_needs_xfrm(void)
{
	const struct lb_scratch *scratch = lb_scratch_get();

	return scratch && scratch->xfrm && lb_in_ranges(LB_XFRM_RANGES, scratch->backend.address);
}

/*
 * From the node itself, at egress: its address is kept, because replies return to it. They pass us where they arrive from
 * another node or from a pod whose device is served; replies of other backends here pass no hook, so these are left alone.
 */
static __always_inline enum lb_outcome lb_open_from_node(void *ctx, struct lb_scratch *scratch)
{
	struct lb_track *track = &scratch->flow.track;
	enum lb_device_kind kind;
	enum lb_outcome outcome;
	long result;

	if (lb_is_ours(scratch->backend.address))
		return LB_OUTCOME_unrelated;
	result = lb_route(ctx, scratch, LB_KEEP_SOURCE);
	if (lb_is_encapsulated(result))
		return LB_OUTCOME_unrelated;
	if (!lb_names_device(scratch, result))
		return LB_OUTCOME_no_route;
	kind = lb_device_kind_of(scratch->fib.ifindex);
	if (kind == LB_NO_DEVICE)
		return LB_OUTCOME_unrelated;
	if (lb_needs_xfrm())
		return LB_OUTCOME_ipsec;
	track->path = LB_PATH_REDIRECT;
	track->device = scratch->fib.ifindex;
	track->other_side = kind == LB_POD ? LB_POD_INGRESS : LB_UPLINK_INGRESS;
	scratch->reply.track = *track;
	scratch->reply.track.path = LB_PATH_STACK;
	scratch->reply.track.device = 0;
	scratch->reply.track.direction = LB_REPLY;
	scratch->reply.track.side = track->other_side;
	scratch->reply.track.other_side = track->side;
	outcome = LB_OWN(lb_claim)(ctx);
	return outcome == LB_OUTCOME_NONE ? LB_OUTCOME_new_remote : outcome;
}

/* Opens the flow to the selected backend, through the stack or by redirect. */
LB_FUNCTION enum lb_outcome LB_OWN(lb_open_to)(void *ctx __arg_ctx)
{
	struct lb_scratch *scratch = lb_scratch_get();
	int xdp, by_stack, ours = 0;
	long result = BPF_FIB_LKUP_RET_SUCCESS;
	enum lb_outcome outcome;

	if (!scratch)
		return LB_OUTCOME_unrelated;
	if (lb_config.stack_forwards && scratch->hook == LB_HOOK_XDP)
		return LB_OUTCOME_left_to_tc;
	lb_begin(scratch);
	if (scratch->hook == LB_HOOK_POD_INGRESS)
		return lb_open_from_pod(ctx, scratch);
	if (scratch->hook == LB_HOOK_TC_EGRESS)
		return lb_open_from_node(ctx, scratch);
	xdp = scratch->hook == LB_HOOK_XDP;
	by_stack = scratch->backend.locality == LB_SAME_NODE;
	if (!by_stack) {
		result = lb_route(ctx, scratch, LB_ASK_SOURCE);
		if (result == BPF_FIB_LKUP_RET_FRAG_NEEDED && !lb_config.stack_forwards) {
			scratch->mtu = scratch->fib.mtu_result;
			return LB_OUTCOME_too_big;
		}
		if (lb_names_device(scratch, result)) {
			ours = lb_is_uplink(scratch->fib.ifindex) &&
			       (scratch->masquerade || lb_is_hairpin(scratch));
			by_stack = !ours || lb_config.stack_forwards;
		} else if (lb_is_encapsulated(result) || lb_is_ours(scratch->backend.address)) {
			by_stack = 1;
		} else {
			return LB_OUTCOME_no_route;
		}
	}
	if (xdp && (by_stack || result != BPF_FIB_LKUP_RET_SUCCESS))
		return LB_OUTCOME_left_to_tc;
	if (ours && lb_needs_xfrm())
		return LB_OUTCOME_ipsec;
	scratch->flow.track.forwarded = ours && by_stack ? LB_YES : LB_NO;
	outcome = by_stack ? lb_open_by_stack(ctx, scratch) : lb_open_remote(ctx, scratch);
	if (outcome != LB_OUTCOME_NONE)
		return outcome;
	if (by_stack)
		return LB_OUTCOME_new_local;
	return xdp ? LB_OUTCOME_new_xdp : LB_OUTCOME_new_remote;
}

/*
 * UDP and mid-stream TCP have no handshake that would insert the forward entry later, and the other fragments of a SYN do not
 * wait for one. Without room for it the reply entry is deleted, too: no half of a flow stays (REL-63).
 */
static __always_inline enum lb_outcome lb_record_forward(struct lb_scratch *scratch, enum lb_outcome opened)
{
	const struct lb_track *track = &scratch->flow.track;

	if (track->fast_open == LB_YES ||
	    (scratch->packet.step != LB_STEP_NONE && scratch->packet.step != LB_STEP_SYN))
		lb_midstream_until = track->opened + lb_config.unassured_seconds;
	if (scratch->packet.step == LB_STEP_SYN && scratch->packet.part == LB_WHOLE)
		return opened;
	if (!lb_flow_insert(LB_UNASSURED, &scratch->packet.tuple, &scratch->flow, BPF_ANY))
		return opened;
	lb_unclaim();
	return LB_OUTCOME_flow_table_full;
}

static __always_inline enum lb_outcome lb_no_backend(struct lb_policy policy, enum lb_scope scope)
{
	return lb_empty_verdict(policy, scope) == LB_DROP ? LB_OUTCOME_no_backend_drop
							  : LB_OUTCOME_no_backend_reject;
}

static __always_inline enum lb_picked lb_pick_for_packet(struct lb_scratch *scratch,
							 const struct lb_service *service, __u32 number,
							 enum lb_scope scope, __u64 hash)
{
	struct lb_choice choice = {
		.client = &scratch->packet.tuple.source,
		.random = (__u32)(hash >> 32),
		.service = number,
		.scope = scope,
		.id = &scratch->backend_id,
		.backend = &scratch->backend,
	};

	return lb_pick_for(&choice, service);
}

static __always_inline int lb_opened(enum lb_outcome outcome)
{
	return outcome == LB_OUTCOME_new_local || outcome == LB_OUTCOME_new_remote ||
	       outcome == LB_OUTCOME_new_xdp || outcome == LB_OUTCOME_new_from_pod ||
	       outcome == LB_OUTCOME_new_hairpin || outcome == LB_OUTCOME_new_direct;
}

/* Selects a backend for a packet that belongs to no flow, and opens a flow. */
static __always_inline enum lb_outcome lb_choose(void *ctx, struct lb_scratch *scratch,
						 struct lb_frontend frontend)
{
	const struct lb_service *service = lb_service_of(frontend.service);
	const struct lb_node *node = lb_this_node();
	struct lb_node_policy node_policy;
	struct lb_policy policy;
	enum lb_outcome outcome;
	enum lb_client client;
	enum lb_picked picked;
	enum lb_scope scope;
	__u64 hash;

	if (!service || !node)
		return LB_OUTCOME_unrelated;
	policy = lb_policy_load(service);
	node_policy = lb_node_policy_load(node);
	client = lb_asks_client(frontend, policy, node_policy) ? lb_client_of(scratch, node_policy)
							       : LB_ANY_CLIENT;
	scope = lb_scope_of(frontend, policy, client);
	scratch->masquerade = lb_masquerades(frontend, policy, node_policy, client);
	scratch->xfrm = node_policy.xfrm;
	if (lb_range_denies(frontend, policy, &scratch->packet.tuple))
		return LB_OUTCOME_range_denied;
	hash = lb_hash(&scratch->packet.tuple,
		       node->choice[policy.selection == LB_CONSISTENT ? LB_CONSISTENT : LB_RANDOM]);
	/* Mixed with this node's secret, or the ports of each of few backends would begin in a small part of the range. */
	scratch->hash = lb_mix(hash, node->secret[0]);
	picked = lb_pick_for_packet(scratch, service, frontend.service, scope, hash);
	if (picked == LB_PICKED_NONE)
		return lb_no_backend(policy, scope);
	if (picked == LB_PICKED_STALE)
		return LB_OUTCOME_stale_slot;
	outcome = LB_OWN(lb_open_to)(ctx);
	return lb_opened(outcome) ? lb_record_forward(scratch, outcome) : outcome;
}

/*
 * Finds the flow whose reply tuple is that of the packet's own replies, in `scratch->reply`: a flow of a client that also uses a service.
 * Not for packets that we have sent ourselves and that some route brings back to us.
 */
static __always_inline int lb_meets_flow(struct lb_scratch *scratch)
{
	lb_reverse(&scratch->packet.tuple, &scratch->reply_tuple);
	return (lb_flow_find(LB_ASSURED, &scratch->reply_tuple, &scratch->reply) ||
		lb_unassured_find(&scratch->reply_tuple, &scratch->reply)) &&
	       scratch->reply.track.direction == LB_REPLY && scratch->reply.track.source_nat == LB_NO;
}

/* The forward entry of a flow that begins at the hook of the flow in `scratch->reply`, to the same backend. */
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
 * A client connects to a backend directly from the port of its flow to that backend through a service. The flow keeps the reply
 * tuple, and the direct connection gets another port, as with the kernel's own NAT.
 */
LB_FUNCTION enum lb_outcome LB_OWN(lb_open_direct)(void *ctx __arg_ctx)
{
	struct lb_scratch *scratch = lb_scratch_get();
	const struct lb_node *node = lb_this_node();
	enum lb_outcome outcome;

	if (!scratch || !node || !lb_meets_flow(scratch))
		return LB_OUTCOME_unrelated;
	/* The stack forwards the flow's own packets with that tuple. */
	if (scratch->reply.track.forwarded == LB_YES)
		return LB_OUTCOME_ports_exhausted;
	lb_begin_behind(scratch, node);
	outcome = lb_open_by_stack(ctx, scratch);
	if (outcome != LB_OUTCOME_NONE)
		return outcome;
	/* lb_open() looks up the ACK of the handshake only for frontends, and a backend's address is none. */
	if (scratch->packet.step == LB_STEP_SYN)
		lb_midstream_until = scratch->flow.track.opened + lb_config.unassured_seconds;
	return lb_record_forward(scratch, LB_OUTCOME_new_direct);
}

/*
 * At egress, what the stack forwards to a backend on another node gets this node's address, as a second flow after the one that it
 * arrived by. Conntrack and the host's rules, which are between the two, see client and backend.
 */
LB_FUNCTION enum lb_outcome LB_OWN(lb_open_leaving)(void *ctx __arg_ctx)
{
	struct lb_scratch *scratch = lb_scratch_get();
	const struct lb_node *node = lb_this_node();
	enum lb_outcome outcome = LB_OUTCOME_unrelated;
	struct lb_track *track;

	if (!scratch || !node || scratch->packet.step == LB_STEP_RST || !lb_meets_flow(scratch) ||
	    scratch->reply.track.forwarded != LB_YES)
		return LB_OUTCOME_unrelated;
	if (scratch->packet.step == LB_STEP_DATA || scratch->packet.step == LB_STEP_FIN)
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
	outcome = LB_OWN(lb_claim)(ctx);
	return outcome == LB_OUTCOME_NONE ? lb_record_forward(scratch, LB_OUTCOME_new_direct) : outcome;
}

static __always_inline int lb_is_midstream(const struct lb_packet *packet)
{
	return packet->step == LB_STEP_DATA || packet->step == LB_STEP_FIN;
}

/* TCP in mid-connection to a service: an unassured flow, a connection that is not translated, or a flow that we lost. */
static __always_inline enum lb_outcome lb_midstream(void *ctx, struct lb_scratch *scratch)
{
	enum lb_outcome outcome = lb_unassured();
	int theirs;

	if (outcome != LB_OUTCOME_unrelated)
		return outcome;
	theirs = LB_OWN(lb_tuple_in_use)(ctx, &scratch->packet.tuple);
	if (scratch->hook != LB_HOOK_XDP)
		lb_count(theirs ? LB_OUTCOME_tuple_in_use : LB_OUTCOME_midstream);
	return theirs ? LB_OUTCOME_unrelated : LB_OUTCOME_NONE;
}

/*
 * A datagram to a port that a process of this node may use as its source port (no process has a ClusterIP), or of a flow that
 * began with kube-proxy and that conntrack still translates: another backend would not know the flow.
 */
static __always_inline int lb_is_others(void *ctx, struct lb_scratch *scratch, struct lb_frontend frontend)
{
	const struct lb_tuple *tuple = &scratch->packet.tuple;

	if (scratch->packet.step != LB_STEP_NONE)
		return 0;
	if (!(frontend.kind != LB_CLUSTER_IP && LB_OWN(lb_tuple_in_use)(ctx, tuple)) &&
	    !(lb_conntrack_translates() && LB_OWN(lb_conntrack_of)(ctx, tuple) == LB_CONNTRACK_TRANSLATED))
		return 0;
	if (scratch->hook != LB_HOOK_XDP)
		lb_count(LB_OUTCOME_tuple_in_use);
	return 1;
}

/* No host has address zero, which is the key of node ports. */
static __always_inline int lb_is_zero_address(const union lb_ip *address)
{
	return !address->longs[0] && (!address->longs[1] || (__u32)address->longs[1] == LB_IPV4_PREFIX) &&
	       !address->words[3];
}

/* No frontend at that port; on a ClusterIP that is rejected ("Our choices" A), unless it is an unassured flow. */
static __always_inline enum lb_outcome lb_unserved(struct lb_scratch *scratch, enum lb_address_kind kind)
{
	enum lb_outcome outcome = LB_OUTCOME_unrelated;

	if (kind != LB_CLUSTER_ADDRESS)
		return outcome;
	if (lb_is_midstream(&scratch->packet))
		outcome = lb_unassured();
	return outcome == LB_OUTCOME_unrelated ? LB_OUTCOME_unknown_port : outcome;
}

/* The frontend that a packet is for: LB_OUTCOME_NONE, or the outcome where there is none. */
static __always_inline enum lb_outcome lb_frontend_for(struct lb_scratch *scratch,
						       struct lb_frontend *frontend)
{
	const struct lb_tuple *tuple = &scratch->packet.tuple;
	enum lb_address_kind kind;

	scratch->asked = lb_frontend_at(&tuple->destination, tuple->destination_port, tuple->protocol);
	if (lb_frontend_load(&scratch->asked, frontend))
		return LB_OUTCOME_NONE;
	kind = lb_address_kind_of(tuple->destination.bytes);
	if (kind == LB_NODE_PORT_ADDRESS && lb_node_port_load(&scratch->asked, frontend))
		return LB_OUTCOME_NONE;
	return lb_unserved(scratch, kind);
}

/*
 * SCTP of the node's own processes, which no socket hook sees. lb_drop_or_refuse_leaving() has handled what is rejected or dropped.
 */
LB_FUNCTION enum lb_outcome LB_OWN(lb_open_own)(void *ctx __arg_ctx)
{
	struct lb_scratch *scratch = lb_scratch_get();
	const struct lb_tuple *tuple;
	struct lb_frontend frontend = {};

	if (!scratch)
		return LB_OUTCOME_unrelated;
	tuple = &scratch->packet.tuple;
	if (!lb_is_ours(tuple->source.bytes))
		return LB_OUTCOME_unrelated;
	if (scratch->packet.step != LB_STEP_SYN)
		return lb_unassured();
	if (lb_leaves_new_flows())
		return LB_OUTCOME_unrelated;
	scratch->asked = lb_frontend_at(&tuple->destination, tuple->destination_port, tuple->protocol);
	if (!lb_frontend_load(&scratch->asked, &frontend))
		return LB_OUTCOME_unrelated;
	return lb_choose(ctx, scratch, frontend);
}

LB_FUNCTION enum lb_outcome LB_OWN(lb_open)(void *ctx __arg_ctx)
{
	struct lb_scratch *scratch = lb_scratch_get();
	const struct lb_tuple *tuple;
	struct lb_frontend frontend = {};
	enum lb_outcome outcome;

	if (!scratch)
		return LB_OUTCOME_unrelated;
	tuple = &scratch->packet.tuple;
	if (lb_on_loopback(tuple, &tuple->source) || lb_on_loopback(tuple, &tuple->destination))
		return LB_OUTCOME_martian;
	if (scratch->packet.step == LB_STEP_SYNACK || scratch->packet.step == LB_STEP_RST ||
	    lb_is_zero_address(&tuple->destination))
		return LB_OUTCOME_unrelated;
	if (lb_leaves_new_flows())
		return lb_is_midstream(&scratch->packet) ? lb_unassured() : LB_OUTCOME_unrelated;
	outcome = lb_frontend_for(scratch, &frontend);
	if (outcome == LB_OUTCOME_unknown_port)
		return lb_refuses(tuple);
	if (outcome != LB_OUTCOME_NONE)
		return outcome;
	if (lb_is_midstream(&scratch->packet)) {
		outcome = lb_midstream(ctx, scratch);
		if (outcome != LB_OUTCOME_NONE)
			return outcome;
	}
	outcome = lb_check_source(tuple);
	if (outcome != LB_OUTCOME_NONE)
		return outcome;
	if (lb_is_others(ctx, scratch, frontend))
		return LB_OUTCOME_unrelated;
	if (lb_needs_xfrm_back())
		return LB_OUTCOME_ipsec;
	return lb_choose(ctx, scratch, frontend);
}

#endif
