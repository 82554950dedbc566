/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Opens a flow: finds the service and its verdict, selects backend and source, and claims the reply tuple.
 */
#ifndef SLUICE_BPF_OPEN_H
#define SLUICE_BPF_OPEN_H

#include "bpf/flow/handshake.h"
#include "bpf/flow/nat.h"
#include "bpf/flow/scratch.h"
#include "bpf/flow/tuple_in_use.h"
#include "bpf/packet/packet.h"
#include "bpf/packet/stats.h"
#include "bpf/path/client.h"
#include "bpf/path/open_to.h"
#include "bpf/path/sender.h"
#include "bpf/select/affinity.h"
#include "bpf/select/service.h"
#include "bpf/select/switch_over.h"
#include "maps/abi/abi.h"
#include "maps/abi/checks.h"

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
	/*
	 * Mixed with this node's secret; otherwise the ports of each of few backends would begin in a small
	 * part of the range.
	 */
	scratch->hash = lb_mix(hash, node->secret[0]);
	picked = lb_pick_for_packet(scratch, service, frontend.service, scope, hash);
	if (picked == LB_PICKED_NONE)
		return lb_no_backend(policy, scope);
	if (picked == LB_PICKED_STALE)
		return LB_OUTCOME_stale_slot;
	/* A backend of this node that is reached by an uplink: only to the node's address replies return (SEM-141). */
	if (scope == LB_LOCAL && scratch->backend.locality == LB_SAME_NODE_BY_UPLINK)
		scratch->masquerade = 1;
	outcome = LB_PER_OBJECT(lb_open_to)(ctx);
	return lb_opened(outcome) ? lb_record_forward(scratch, outcome) : outcome;
}

/*
 * Whether a packet in mid-connection continues a flow only if its reply entry is still there: to an address that may
 * be claimed it may as well be an answer. Conntrack would tell, but the kernel's lookup has no SCTP.
 */
static __always_inline int lb_needs_claim(const struct lb_packet *packet, enum lb_kind kind)
{
	return packet->tuple.protocol == LB_SCTP && lb_is_midstream(packet) && kind != LB_CLUSTER_IP &&
	       !lb_tables_lost();
}

/* In mid-connection to a service: an unassured flow, a connection that is not translated, or a lost flow. */
static __always_inline enum lb_outcome lb_midstream(void *ctx, struct lb_scratch *scratch, enum lb_kind kind)
{
	enum lb_outcome outcome = lb_unassured();
	int theirs;

	if (outcome != LB_OUTCOME_unrelated)
		return outcome;
	if (lb_needs_claim(&scratch->packet, kind)) {
		scratch->needs_claim = LB_YES;
		return LB_OUTCOME_NONE;
	}
	theirs = LB_PER_OBJECT(lb_tuple_in_use)(ctx, &scratch->packet.tuple);
	if (scratch->hook != LB_HOOK_XDP)
		lb_count(theirs ? LB_OUTCOME_tuple_in_use : LB_OUTCOME_midstream);
	return theirs ? LB_OUTCOME_unrelated : LB_OUTCOME_NONE;
}

/*
 * Whether the datagram is for another owner: to a port that a process of this node may use as its source port
 * (no process has a ClusterIP), or of a flow that kube-proxy began and that conntrack still translates:
 * another backend would not know the flow.
 */
static __always_inline int lb_is_others(void *ctx, struct lb_scratch *scratch, struct lb_frontend frontend)
{
	const struct lb_tuple *tuple = &scratch->packet.tuple;

	if (scratch->packet.step != LB_STEP_NONE)
		return 0;
	if (!(frontend.kind != LB_CLUSTER_IP && LB_PER_OBJECT(lb_tuple_in_use)(ctx, tuple)) &&
	    !(lb_conntrack_translates() &&
	      LB_PER_OBJECT(lb_conntrack_of)(ctx, tuple) == LB_CONNTRACK_TRANSLATED))
		return 0;
	if (scratch->hook != LB_HOOK_XDP)
		lb_count(LB_OUTCOME_tuple_in_use);
	return 1;
}

/*
 * Whether a packet to an unknown port of a ClusterIP is a reply that conntrack knows: IPVS mode binds the ClusterIPs
 * to the node, whose own connections through IPVS have such a source address.
 */
static __always_inline int lb_is_ipvs_reply(void *ctx, struct lb_scratch *scratch)
{
	const struct lb_packet *packet = &scratch->packet;

	/* XDP leaves what is refused to tc, which asks then. */
	if (scratch->hook == LB_HOOK_XDP || (packet->step != LB_STEP_NONE && !lb_is_midstream(packet)))
		return 0;
	if (!lb_conntrack_translates() ||
	    !lb_is_conntrack_reply(LB_PER_OBJECT(lb_conntrack_of)(ctx, &packet->tuple)))
		return 0;
	lb_count(LB_OUTCOME_tuple_in_use);
	return 1;
}

/* No host has address zero, which is the key of node ports. */
static __always_inline int lb_is_zero_address(const union lb_ip *address)
{
	return !address->longs[0] && (!address->longs[1] || (__u32)address->longs[1] == LB_IPV4_PREFIX) &&
	       !address->words[3];
}

/*
 * No frontend at that port: rejected on a ClusterIP (docs/semantics.md, choice A), unless it is of an
 * unassured flow.
 */
static __always_inline enum lb_outcome lb_unserved(struct lb_scratch *scratch, enum lb_address_kind kind)
{
	enum lb_outcome outcome = LB_OUTCOME_unrelated;

	if (kind != LB_CLUSTER_ADDRESS)
		return outcome;
	if (lb_is_midstream(&scratch->packet))
		outcome = lb_unassured();
	return outcome == LB_OUTCOME_unrelated ? LB_OUTCOME_unknown_port : outcome;
}

/* Finds the packet's frontend: LB_OUTCOME_NONE, or the outcome if there is none. */
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

LB_FUNCTION enum lb_outcome LB_PER_OBJECT(lb_open)(void *ctx __arg_ctx)
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
		return lb_is_ipvs_reply(ctx, scratch) ? LB_OUTCOME_unrelated : lb_refuses(tuple);
	if (outcome != LB_OUTCOME_NONE)
		return outcome;
	if (frontend.kind != LB_CLUSTER_IP && LB_PER_OBJECT(lb_is_by_socket)(ctx))
		return LB_OUTCOME_unrelated;
	if (lb_is_midstream(&scratch->packet)) {
		outcome = lb_midstream(ctx, scratch, frontend.kind);
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
	outcome = lb_choose(ctx, scratch, frontend);
	if (scratch->needs_claim == LB_NO)
		return outcome;
	if (!lb_opened(outcome))
		return LB_OUTCOME_unrelated;
	if (scratch->hook != LB_HOOK_XDP)
		lb_count(LB_OUTCOME_midstream);
	return outcome;
}

#endif
