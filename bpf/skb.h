/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What only tc needs: linear headers, checksums by the kernel's helpers, sizes of segments. */
#ifndef SLUICE_BPF_SKB_H
#define SLUICE_BPF_SKB_H

#include "rewrite.h"
#include "work.h"

/* Bytes made linear before a second try at parsing: the longest chain of headers we follow, and TCP's. */
#define LB_HEADERS 256
/* Below this size no way out of ours can be too narrow, and the look at the device is saved. */
#define LB_SMALL 576

LB_FUNCTION enum lb_outcome lb_skb_network(struct __sk_buff *skb, struct lb_packet *packet)
{
	struct lb_cursor cursor = {
		.start = (void *)(long)skb->data,
		.pos = (void *)(long)skb->data,
		.end = (void *)(long)skb->data_end,
	};

	return packet ? lb_parse_network(&cursor, packet, skb->len) : LB_OUTCOME_malformed;
}

LB_FUNCTION enum lb_outcome lb_skb_transport(struct __sk_buff *skb, struct lb_packet *packet)
{
	struct lb_cursor cursor = {
		.start = (void *)(long)skb->data,
		.end = (void *)(long)skb->data_end,
	};

	if (!packet)
		return LB_OUTCOME_malformed;
	cursor.pos = cursor.start + (packet->transport & LB_MAX_OFFSET);
	return lb_parse_transport(&cursor, packet);
}

static __always_inline enum lb_outcome lb_skb_read(struct __sk_buff *skb, struct lb_packet *packet)
{
	enum lb_outcome outcome = lb_skb_network(skb, packet);

	return outcome == LB_FINE ? lb_skb_transport(skb, packet) : outcome;
}

/* Headers may lie outside the linear part; then they are pulled in and read again. */
static __always_inline enum lb_outcome lb_skb_parse(struct __sk_buff *skb, struct lb_packet *packet)
{
	enum lb_outcome outcome = lb_skb_read(skb, packet);
	__u32 linear = skb->data_end - skb->data;

	if (outcome != LB_OUTCOME_malformed || linear >= skb->len || linear >= LB_HEADERS)
		return outcome;
	if (bpf_skb_pull_data(skb, skb->len < LB_HEADERS ? skb->len : LB_HEADERS))
		return outcome;
	return lb_skb_read(skb, packet);
}

/* The kernel's helpers know of partial checksums and of sums made by hardware; we can see neither. */
static __always_inline int lb_skb_checksum(struct __sk_buff *skb, enum lb_family family, __u32 offset,
					   __u64 flags, struct lb_change change)
{
	__u64 pseudo = flags | BPF_F_PSEUDO_HDR;

	if (family == LB_IPV6 && lb_config.csum_ipv6)
		pseudo |= LB_F_IPV6;
	if (change.addresses && bpf_l4_csum_replace(skb, offset, 0, change.addresses, pseudo))
		return -1;
	return change.ports ? bpf_l4_csum_replace(skb, offset, 0, change.ports, flags) : 0;
}

LB_FUNCTION int lb_skb_rewrite(struct __sk_buff *skb, const struct lb_work *work, __u32 hops)
{
	const struct lb_packet *packet;
	struct lb_change change;
	__u64 flags;

	if (!work)
		return -1;
	packet = &work->packet;
	change = lb_change_of(&packet->tuple, &work->flow.leaving);
	flags = packet->tuple.protocol == LB_UDP ? BPF_F_MARK_MANGLED_0 : 0;

	if (lb_write_headers((void *)(long)skb->data, (void *)(long)skb->data_end, packet, &work->flow.leaving,
			     change.addresses, hops))
		return -1;
	if (packet->part == LB_LATER_FRAGMENT)
		return 0;
	if (packet->tuple.protocol == LB_SCTP)
		return lb_write_sctp((void *)(long)skb->data, (void *)(long)skb->data_end, packet,
				     &work->flow.leaving);
	return lb_skb_checksum(skb, packet->tuple.family, lb_check_offset(packet), flags, change);
}

/* Is the packet, or each segment of it, too large for the device it would leave by? Notes that device's MTU. */
static __always_inline int lb_too_big(struct __sk_buff *skb, struct lb_work *work)
{
	work->mtu = 0;
	return skb->len > LB_SMALL &&
	       bpf_check_mtu(skb, work->flow.track.device, &work->mtu, 0, BPF_MTU_CHK_SEGS) > 0;
}

#endif
