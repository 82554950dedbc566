/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whether a source may be a client of a service, its kind, and the resulting set and source address. */
#ifndef SLUICE_BPF_CLIENT_H
#define SLUICE_BPF_CLIENT_H

#include <bpf/bpf_endian.h>

#include "bpf/flow/scratch.h"
#include "bpf/packet/packet.h"
#include "bpf/packet/stats.h"
#include "bpf/select/ranges.h"
#include "bpf/select/service.h"
#include "bpf/select/switch_over.h"
#include "maps/abi/abi.h"

static __always_inline int lb_on_loopback(const struct lb_tuple *tuple, const union lb_ip *address)
{
	if (tuple->family == LB_IPV4)
		return address->bytes[12] == 127;
	return !address->longs[0] && address->longs[1] == bpf_cpu_to_be64(1);
}

/*
 * Returns the outcome for a source that cannot be a client of a service (REL-18), or LB_OUTCOME_NONE. Of
 * services' addresses only ClusterIPs count: others may be claimed by whoever writes a Service, also a
 * client's, and would silence it (REL-147).
 */
static __always_inline enum lb_outcome lb_check_source(const struct lb_tuple *tuple)
{
	enum lb_address_kind kind = lb_address_kind_of(tuple->source.bytes);

	if (lb_is_no_host(tuple->family, &tuple->source))
		return LB_OUTCOME_martian;
	switch (kind) {
	case LB_NO_ADDRESS:
	case LB_SERVICE_ADDRESS:
		return LB_OUTCOME_NONE;
	case LB_CLUSTER_ADDRESS:
		return LB_OUTCOME_service_source;
	default:
		return LB_OUTCOME_own_source;
	}
}

/*
 * Whether the packet is for a load balancer's address and its client is in none of the source ranges
 * (SEM-37).
 */
static __always_inline int lb_range_denies(struct lb_frontend frontend, struct lb_policy policy,
					   const struct lb_tuple *tuple)
{
	return frontend.kind == LB_LOAD_BALANCER && policy.source_ranges == LB_YES &&
	       !lb_in_ranges(frontend.service, &tuple->source);
}

/*
 * Whether the stack would encrypt, or block, packets to this external client. Our replies and redirects
 * bypass IPsec policies, and packets that the stack sends back get the service's address at egress, after the
 * policies: these see another source, and we cannot translate encrypted packets.
 */
LB_FUNCTION int lb_needs_xfrm_back(void)
{
	const struct lb_scratch *scratch = lb_scratch_get();
	const struct lb_node *node = lb_this_node();

	if (!scratch || !node || (scratch->hook != LB_HOOK_TC_INGRESS && scratch->hook != LB_HOOK_XDP))
		return 0;
	return lb_is_xfrm_peer(lb_node_policy_load(node).xfrm, &scratch->packet.tuple.source);
}

/* For a port that a ClusterIP does not serve: only a valid client gets a reply. */
static __always_inline enum lb_outcome lb_refuses(const struct lb_tuple *tuple)
{
	enum lb_outcome outcome = lb_check_source(tuple);

	if (outcome != LB_OUTCOME_NONE)
		return outcome;
	return lb_needs_xfrm_back() ? LB_OUTCOME_ipsec : LB_OUTCOME_unknown_port;
}

/* ---- Kinds of clients, and the consequences (SEM-32). ---- */

enum lb_client { LB_ANY_CLIENT, LB_POD_CLIENT, LB_OUTSIDE_CLIENT, LB_NODE_CLIENT };

/* Without a detector pods are not distinguished. */
static __always_inline enum lb_client lb_client_of(const struct lb_scratch *scratch,
						   struct lb_node_policy node_policy)
{
	const struct lb_tuple *tuple = &scratch->packet.tuple;

	if (scratch->hook == LB_HOOK_TC_EGRESS)
		return LB_NODE_CLIENT;
	switch (tuple->family == LB_IPV4 ? node_policy.local_detection4 : node_policy.local_detection6) {
	case LB_DETECT_BY_RANGE:
		return lb_in_ranges(LB_POD_RANGES, &tuple->source) ? LB_POD_CLIENT : LB_OUTSIDE_CLIENT;
	case LB_DETECT_BY_DEVICE:
		return scratch->hook == LB_HOOK_POD_INGRESS ? LB_POD_CLIENT : LB_OUTSIDE_CLIENT;
	default:
		return LB_ANY_CLIENT;
	}
}

/* Whether the kind of client matters. If not, the ranges of pods need not be searched. */
static __always_inline int lb_asks_client(struct lb_frontend frontend, struct lb_policy policy,
					  struct lb_node_policy node_policy)
{
	if (frontend.kind == LB_CLUSTER_IP)
		return node_policy.masquerade_all != LB_YES;
	return policy.external != LB_CLUSTER;
}

/*
 * Whether SEM-32 requires the node's address. Choice C (docs/semantics.md) keeps the client's address if the
 * reply returns anyway.
 */
static __always_inline int lb_masquerades(struct lb_frontend frontend, struct lb_policy policy,
					  struct lb_node_policy node_policy, enum lb_client client)
{
	if (frontend.kind == LB_CLUSTER_IP)
		return node_policy.masquerade_all == LB_YES || client == LB_OUTSIDE_CLIENT;
	return policy.external == LB_CLUSTER;
}

/*
 * The set for this traffic: SEM-20, SEM-32. Traffic of a pod or the node to outside addresses is
 * short-circuited.
 */
static __always_inline enum lb_scope lb_scope_of(struct lb_frontend frontend, struct lb_policy policy,
						 enum lb_client client)
{
	if (frontend.kind == LB_CLUSTER_IP)
		return policy.internal;
	return client == LB_POD_CLIENT || client == LB_NODE_CLIENT ? LB_CLUSTER : policy.external;
}

#endif
