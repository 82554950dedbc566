/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * XDP on outward devices: finishes what needs no stack, in both directions, and hands everything else on
 * untouched to tc. So it can be switched on and off at any time.
 */
#define LB_OBJECT xdp
#define LB_CT_LOOKUP bpf_xdp_ct_lookup
#define LB_CT_CONTEXT struct xdp_md

#include "balance.h"
#include "rewrite.h"

static __always_inline int lb_left(void)
{
	lb_count(LB_OUTCOME_left_to_tc);
	return XDP_PASS;
}

LB_FUNCTION enum lb_outcome lb_xdp_network(struct xdp_md *xdp, struct lb_packet *packet)
{
	struct lb_cursor cursor = {
		.start = (void *)(long)xdp->data,
		.pos = (void *)(long)xdp->data,
		.end = (void *)(long)xdp->data_end,
	};

	return packet ? lb_parse_network(&cursor, packet, xdp->data_end - xdp->data) : LB_OUTCOME_malformed;
}

LB_FUNCTION enum lb_outcome lb_xdp_transport(struct xdp_md *xdp, struct lb_packet *packet)
{
	struct lb_cursor cursor = {
		.start = (void *)(long)xdp->data,
		.end = (void *)(long)xdp->data_end,
	};

	if (!packet)
		return LB_OUTCOME_malformed;
	cursor.pos = cursor.start + (packet->transport & LB_MAX_OFFSET);
	return lb_parse_transport(&cursor, packet);
}

/* Can the packet leave right now, by the device that its flow uses? The addresses are then in the FIB's answer. */
static __always_inline int lb_way_out(struct xdp_md *xdp, struct lb_work *work)
{
	if (!lb_leaves(xdp, work) || lb_route(xdp, work, LB_KEEP_SOURCE) != BPF_FIB_LKUP_RET_SUCCESS)
		return 0;
	return work->fib.ifindex == work->flow.track.device &&
	       bpf_map_lookup_elem(&lb_ports, &work->fib.ifindex);
}

static __always_inline int lb_xdp_check(void *data, void *end, const struct lb_work *work,
					struct lb_change change)
{
	if (work->packet.tuple.protocol == LB_SCTP)
		return lb_write_sctp(data, end, &work->packet, &work->flow.leaving);
	return lb_write_check(data, end, &work->packet, change);
}

LB_FUNCTION int lb_xdp_rewrite(struct xdp_md *xdp, const struct lb_work *work)
{
	void *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;
	struct ethhdr *ethernet = data;
	struct lb_change change;

	if (!work || (void *)(ethernet + 1) > end)
		return -1;
	change = lb_change_of(&work->packet.tuple, &work->flow.leaving);
	if (lb_write_headers(data, end, &work->packet, &work->flow.leaving, change.addresses, LB_COUNT_HOP) ||
	    lb_xdp_check(data, end, work, change))
		return -1;
	__builtin_memcpy(ethernet->h_dest, work->fib.dmac, ETH_ALEN);
	__builtin_memcpy(ethernet->h_source, work->fib.smac, ETH_ALEN);
	return 0;
}

/* Frames in several buffers are left to tc: their lengths do not fit what is visible here. */
SEC("xdp.frags")
int lb_xdp(struct xdp_md *xdp)
{
	struct lb_work *work = lb_work_of(LB_HOOK_XDP, xdp->ingress_ifindex);
	enum lb_outcome outcome;

	if (!work || lb_xdp_network(xdp, &work->packet) != LB_FINE ||
	    lb_xdp_transport(xdp, &work->packet) != LB_FINE)
		return lb_left();
	if (work->packet.hops <= 1 || work->packet.part != LB_WHOLE)
		return lb_left();
	outcome = lb_balance(xdp, LB_HOOK_XDP, work);
	if ((outcome != LB_OUTCOME_flow_xdp && outcome != LB_OUTCOME_new_xdp) || !lb_way_out(xdp, work))
		return lb_left();
	if (lb_xdp_rewrite(xdp, work)) {
		lb_count(LB_OUTCOME_rewrite_failed);
		return XDP_DROP;
	}
	lb_count(outcome);
	return bpf_redirect_map(&lb_ports, work->fib.ifindex, XDP_DROP);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
