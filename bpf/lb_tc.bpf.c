/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* tc on outward devices: ingress opens and carries flows, egress restores the replies of local backends. */
#include "balance.h"
#include "rewrite.h"

#include <linux/pkt_cls.h>

/* Bytes made linear before a second try at parsing: the longest chain of headers we follow, and TCP's. */
#define LB_HEADERS 256
/* Below this size no route of ours can be too narrow, and the look at the device is saved. */
#define LB_SMALL 576

/* TCX_NEXT and TC_ACT_UNSPEC alike. OK would hide the packet from every later program. */
#define LB_NEXT -1

static __always_inline enum lb_outcome lb_read(struct __sk_buff *skb, struct lb_packet *packet)
{
	struct lb_cursor cursor = {
		.start = (void *)(long)skb->data,
		.pos = (void *)(long)skb->data,
		.end = (void *)(long)skb->data_end,
	};

	return lb_parse(&cursor, packet, skb->len);
}

/* Headers may lie outside the linear part; then they are pulled in and read again. */
static __always_inline enum lb_outcome lb_tc_parse(struct __sk_buff *skb, struct lb_packet *packet)
{
	enum lb_outcome outcome = lb_read(skb, packet);
	__u32 linear = skb->data_end - skb->data;

	if (outcome != LB_OUTCOME_malformed || linear >= skb->len || linear >= LB_HEADERS)
		return outcome;
	if (bpf_skb_pull_data(skb, skb->len < LB_HEADERS ? skb->len : LB_HEADERS))
		return outcome;
	return lb_read(skb, packet);
}

/* The kernel's helpers know partial checksums and checksummed hardware; we cannot see either. */
static __always_inline int lb_tc_checksum(struct __sk_buff *skb, const struct lb_packet *packet,
					  struct lb_change change)
{
	__u64 flags = packet->tuple.protocol == LB_UDP ? BPF_F_MARK_MANGLED_0 : 0;
	__u64 pseudo = flags | BPF_F_PSEUDO_HDR;
	__u32 offset = lb_check_offset(packet);

	if (packet->tuple.family == LB_IPV6 && lb_config.csum_ipv6)
		pseudo |= LB_F_IPV6;
	if (bpf_l4_csum_replace(skb, offset, 0, change.addresses, pseudo))
		return -1;
	return change.ports ? bpf_l4_csum_replace(skb, offset, 0, change.ports, flags) : 0;
}

static __always_inline int lb_tc_rewrite(struct __sk_buff *skb, const struct lb_packet *packet,
					 const struct lb_flow *flow, enum lb_hops hops)
{
	struct lb_change change = lb_change_of(&packet->tuple, &flow->leaving);

	if (lb_write_headers((void *)(long)skb->data, (void *)(long)skb->data_end, packet, &flow->leaving,
			     change.addresses, hops))
		return -1;
	return lb_tc_checksum(skb, packet, change);
}

/* Is the packet, or each segment of it, too large for the device it would leave by? */
static __always_inline int lb_too_big(struct __sk_buff *skb, __u32 device)
{
	__u32 mtu = 0;

	return skb->len > LB_SMALL && bpf_check_mtu(skb, device, &mtu, 0, BPF_MTU_CHK_SEGS) > 0;
}

static __always_inline enum lb_outcome lb_redirectable(struct __sk_buff *skb, const struct lb_work *work,
						       enum lb_outcome outcome)
{
	if (work->packet.hops <= 1)
		return LB_OUTCOME_hop_limit;
	return lb_too_big(skb, work->flow.track.device) ? LB_OUTCOME_too_big : outcome;
}

/* Checks what only the packet's size can tell, and rewrites it: the outcome that is final. */
static __always_inline enum lb_outcome lb_carry(struct __sk_buff *skb, const struct lb_work *work,
						enum lb_outcome outcome)
{
	enum lb_hops hops = LB_KEEP_HOPS;

	if (lb_action(outcome) == LB_ACTION_REDIRECT) {
		outcome = lb_redirectable(skb, work, outcome);
		hops = LB_COUNT_HOP;
	}
	if (lb_action(outcome) != LB_ACTION_REDIRECT && lb_action(outcome) != LB_ACTION_STACK)
		return outcome;
	return lb_tc_rewrite(skb, &work->packet, &work->flow, hops) ? LB_OUTCOME_rewrite_failed : outcome;
}

static __always_inline int lb_tc(struct __sk_buff *skb, enum lb_hook hook)
{
	struct lb_work *work = lb_work_of(hook, skb->ifindex);
	enum lb_outcome outcome;

	if (!work)
		return LB_NEXT;
	outcome = lb_tc_parse(skb, &work->packet);
	if (outcome == LB_FINE)
		outcome = lb_carry(skb, work, lb_balance(skb, hook, work));
	lb_count(outcome);
	switch (lb_action(outcome)) {
	case LB_ACTION_REDIRECT:
		return bpf_redirect_neigh(work->flow.track.device, NULL, 0, 0);
	case LB_ACTION_DROP:
		return TC_ACT_SHOT;
	default:
		return LB_NEXT;
	}
}

SEC("tcx/ingress")
int lb_tc_in(struct __sk_buff *skb)
{
	return lb_tc(skb, LB_HOOK_TC_INGRESS);
}

SEC("tcx/egress")
int lb_tc_out(struct __sk_buff *skb)
{
	return lb_tc(skb, LB_HOOK_TC_EGRESS);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
