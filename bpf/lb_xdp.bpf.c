/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * XDP on outward devices: finishes what needs no stack, in both directions, and hands everything else on
 * untouched to tc. So it can be switched on and off at any time.
 */
#include "balance.h"
#include "rewrite.h"

static __always_inline int lb_left(void)
{
	lb_count(LB_OUTCOME_left_to_tc);
	return XDP_PASS;
}

/* Can the packet leave right now, by the device that its flow uses? The addresses are then in the FIB's answer. */
static __always_inline int lb_way_out(struct xdp_md *xdp, struct lb_work *work)
{
	if (lb_route(xdp, work, LB_KEEP_SOURCE) != BPF_FIB_LKUP_RET_SUCCESS)
		return 0;
	return work->fib.ifindex == work->flow.track.device && bpf_map_lookup_elem(&lb_ports, &work->fib.ifindex);
}

static __always_inline int lb_send(struct xdp_md *xdp, const struct lb_work *work)
{
	struct lb_change change = lb_change_of(&work->packet.tuple, &work->flow.leaving);
	void *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;
	struct ethhdr *ethernet = data;

	if ((void *)(ethernet + 1) > end ||
	    lb_write_headers(data, end, &work->packet, &work->flow.leaving, change.addresses, LB_COUNT_HOP) ||
	    lb_write_check(data, end, &work->packet, change)) {
		lb_count(LB_OUTCOME_rewrite_failed);
		return XDP_DROP;
	}
	__builtin_memcpy(ethernet->h_dest, work->fib.dmac, ETH_ALEN);
	__builtin_memcpy(ethernet->h_source, work->fib.smac, ETH_ALEN);
	return bpf_redirect_map(&lb_ports, work->fib.ifindex, XDP_DROP);
}

SEC("xdp.frags")
int lb_xdp(struct xdp_md *xdp)
{
	struct lb_cursor cursor = {
		.start = (void *)(long)xdp->data,
		.pos = (void *)(long)xdp->data,
		.end = (void *)(long)xdp->data_end,
	};
	struct lb_work *work = lb_work_of(LB_HOOK_XDP, xdp->ingress_ifindex);
	enum lb_outcome outcome;

	if (!work || lb_parse(&cursor, &work->packet, xdp->data_end - xdp->data) != LB_FINE)
		return lb_left();
	if (work->packet.hops <= 1)
		return lb_left();
	outcome = lb_balance(xdp, LB_HOOK_XDP, work);
	if ((outcome != LB_OUTCOME_flow_xdp && outcome != LB_OUTCOME_new_xdp) || !lb_way_out(xdp, work))
		return lb_left();
	lb_count(outcome);
	return lb_send(xdp, work);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
