/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets without a flow that leave by an uplink, only for tc: those to a service are refused, dropped, or opened
 * as the node's own flows. Calls of sockets are translated before, so these are what no socket hook sees (raw
 * sockets, SCTP, the kernel's own tunnels), and what a hook left because its service drops it.
 */
#ifndef SLUICE_BPF_LEAVING_H
#define SLUICE_BPF_LEAVING_H

#include <linux/bpf.h>
#include <linux/if_ether.h>

#include "bpf/flow/flow.h"
#include "bpf/flow/handshake.h"
#include "bpf/flow/scratch.h"
#include "bpf/flow/tuple_in_use.h"
#include "bpf/packet/packet.h"
#include "bpf/packet/stats.h"
#include "bpf/path/client.h"
#include "bpf/path/open.h"
#include "bpf/path/open_beside.h"
#include "bpf/path/open_to.h"
#include "bpf/path/sender.h"
#include "bpf/select/ranges.h"
#include "bpf/select/service.h"
#include "bpf/select/switch_over.h"
#include "maps/abi/abi.h"

/* ---- Whether the packet begins a conversation, which is all that a claimed address may meet. ---- */

/* Whether the frame is for a group: a subnet's broadcast address may be claimed like a host's. */
static __always_inline int lb_is_to_group(struct __sk_buff *skb, const struct lb_scratch *scratch)
{
	__u8 first = 0;

	if (lb_is_no_host(scratch->packet.tuple.family, &scratch->packet.tuple.destination))
		return 1;
	return scratch->packet.network >= ETH_HLEN && !bpf_skb_load_bytes(skb, 0, &first, sizeof(first)) &&
	       (first & 1);
}

/* Whether a UDP socket of this node sent the packet: not a tunnel, whose packets keep the inner one's socket. */
static __always_inline int lb_is_of_udp_socket(struct __sk_buff *skb, const struct lb_tuple *tuple)
{
	struct bpf_sock *sk = skb->sk;

	if (!sk)
		return 0;
	sk = bpf_sk_fullsock(sk);
	return sk && sk->protocol == LB_UDP && sk->src_port == tuple->source_port;
}

/*
 * Whether the packet is the kernel's own, to a port at which this node receives, too: of a tunnel between
 * nodes. VXLAN chooses a source port for each flow inside, so conntrack sees no replies to it.
 */
LB_FUNCTION int lb_is_between_peers(struct __sk_buff *skb)
{
	struct lb_scratch *scratch = lb_scratch_get();
	struct lb_tuple *peer;

	if (!scratch || lb_is_of_udp_socket(skb, &scratch->packet.tuple))
		return 0;
	peer = &scratch->existing_reply;
	lb_reverse(&scratch->packet.tuple, peer);
	peer->destination_port = peer->source_port;
	return lb_udp_socket_of(skb, peer) == LB_LISTENER;
}

/*
 * Whether the packet begins a conversation with the address. One whose replies match a flow of ours is that
 * flow's, translated and sent on. UDP does not say so; the packet's own conntrack
 * entry does, which is confirmed by now: it has seen no reply, and this is its original direction. It is found
 * by the reply's tuple, which is this one reversed whatever the node's rules have translated. Without an entry
 * (notrack, another zone, no lookup) nothing shows that the packet is no answer.
 */
LB_FUNCTION int lb_begins(struct __sk_buff *skb)
{
	struct lb_scratch *scratch = lb_scratch_get();

	if (!scratch || lb_is_to_group(skb, scratch) || lb_find_reply_entry(scratch))
		return 0;
	if (scratch->packet.step == LB_STEP_SYN || scratch->abandoned == LB_YES)
		return 1;
	return LB_PER_OBJECT(lb_conntrack_of)(skb, &scratch->reply_tuple) == LB_CONNTRACK_FIRST_REPLY &&
	       !lb_is_between_peers(skb);
}

/* ---- Verdicts. ---- */

/* After the translation by any other proxy: a packet to a ClusterIP that no service has (SEM-17, 31). */
static __always_inline int lb_is_unallocated(const struct lb_scratch *scratch)
{
	const struct lb_tuple *tuple = &scratch->packet.tuple;
	const struct lb_node *node = lb_this_node();

	return node && lb_node_policy_load(node).drop_unallocated == LB_YES &&
	       lb_in_ranges(LB_CLUSTER_IP_RANGES, &tuple->destination) &&
	       lb_address_kind_of(tuple->destination.bytes) == LB_NO_ADDRESS;
}

/* Made by this node, which then gets the replies: not forwarded, and with an address of its own. */
static __always_inline int lb_is_own(const struct __sk_buff *skb, const struct lb_tuple *tuple)
{
	return !skb->ingress_ifindex && lb_is_ours(tuple->source.bytes);
}

/* Opens the node's own flow (SEM-140). Its packets in mid-connection are looked for only where it is expected. */
static __always_inline enum lb_outcome lb_open_own(struct __sk_buff *skb, struct lb_scratch *scratch,
						   struct lb_frontend frontend)
{
	enum lb_outcome outcome = lb_choose(skb, scratch, frontend);

	if (lb_opened(outcome) && scratch->packet.step == LB_STEP_SYN)
		lb_expect_midstream();
	return outcome;
}

/*
 * What leaves towards a service. No other host may answer a packet that the service refuses or drops
 * (docs/semantics.md, choice D). For the node itself any address but a ClusterIP is short-circuited (SEM-32).
 */
static __always_inline enum lb_outcome lb_leave_to_service(struct __sk_buff *skb, struct lb_scratch *scratch)
{
	const struct lb_tuple *tuple = &scratch->packet.tuple;
	const struct lb_service *service;
	struct lb_frontend frontend = {};
	struct lb_policy policy;
	enum lb_scope scope;

	scratch->asked = lb_frontend_at(&tuple->destination, tuple->destination_port, tuple->protocol);
	if (!lb_frontend_load(&scratch->asked, &frontend))
		return lb_address_kind_of(tuple->destination.bytes) == LB_CLUSTER_ADDRESS
			       ? LB_OUTCOME_unknown_port
			       : LB_OUTCOME_unrelated;
	service = lb_service_of(frontend.service);
	if (!service || (frontend.kind != LB_CLUSTER_IP && !lb_begins(skb)))
		return LB_OUTCOME_unrelated;
	if (lb_is_own(skb, tuple))
		return lb_open_own(skb, scratch, frontend);
	policy = lb_policy_load(service);
	if (lb_range_denies(frontend, policy, tuple))
		return LB_OUTCOME_range_denied;
	scope = frontend.kind == LB_CLUSTER_IP ? policy.internal : LB_CLUSTER;
	return lb_set_load(service, scope).count ? LB_OUTCOME_unrelated : lb_no_backend(policy, scope);
}

LB_FUNCTION enum lb_outcome lb_leave(struct __sk_buff *skb)
{
	struct lb_scratch *scratch = lb_scratch_get();

	if (!scratch)
		return LB_OUTCOME_unrelated;
	if (scratch->packet.step != LB_STEP_NONE && scratch->packet.step != LB_STEP_SYN)
		return scratch->packet.tuple.protocol == LB_SCTP && lb_is_own(skb, &scratch->packet.tuple)
			       ? lb_unassured()
			       : LB_OUTCOME_unrelated;
	if (!lb_choices.egress_verdicts || lb_leaves_new_flows() || LB_PER_OBJECT(lb_is_by_socket)(skb))
		return LB_OUTCOME_unrelated;
	return lb_is_unallocated(scratch) ? LB_OUTCOME_unallocated : lb_leave_to_service(skb, scratch);
}

/* Decides about a packet without a flow that leaves. */
static __always_inline enum lb_outcome lb_leaving(struct __sk_buff *skb, const struct lb_scratch *scratch)
{
	enum lb_outcome outcome = lb_leave(skb);

	if (outcome == LB_OUTCOME_unrelated && lb_config.stack_forwards && scratch->forwarded == LB_YES)
		outcome = LB_PER_OBJECT(lb_open_leaving)(skb);
	return outcome;
}

#endif
