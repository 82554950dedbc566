/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ICMP errors about flows: the quoted packet becomes the one that the receiver of the error sent, and the
 * outer addresses follow. Without this no path MTU is ever found through the balancer.
 */
#ifndef SLUICE_BPF_ICMP_H
#define SLUICE_BPF_ICMP_H

#include "skb.h"

/* Writes the quoted packet; the difference that this makes to the ICMP checksum, or -1. */
static __always_inline long lb_write_quoted(struct __sk_buff *skb, const struct lb_packet *packet,
					    const struct lb_tuple *from, const struct lb_tuple *to)
{
	struct lb_change change = lb_change_of(from, to);
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	void *network = data + (packet->inner_network & LB_MAX_OFFSET);
	__be16 *transport = data + (packet->inner_transport & LB_MAX_OFFSET);
	__u64 difference = change.ports;

	if ((void *)(transport + 4) > end)
		return -1;
	transport[0] = bpf_htons(to->source_port);
	transport[1] = bpf_htons(to->destination_port);
	/* A quoted UDP checksum is among the eight bytes; TCP's is not promised to be there. */
	if (from->protocol == LB_UDP && transport[3]) {
		difference += (__u16)~transport[3];
		transport[3] = lb_apply(transport[3], (__u64)change.addresses + change.ports);
		difference += transport[3];
	}
	if (from->family == LB_IPV4) {
		/* Its own checksum keeps the quoted header's sum as it was. */
		if (network + sizeof(struct iphdr) > end)
			return -1;
		lb_write_ipv4(network, to, change.addresses, LB_KEEP_HOPS);
	} else {
		if (network + sizeof(struct ipv6hdr) > end)
			return -1;
		lb_write_ipv6(network, to, LB_KEEP_HOPS);
		difference += change.addresses;
	}
	return lb_fold32(difference);
}

static __always_inline int lb_write_outer(struct __sk_buff *skb, const struct lb_packet *packet,
					  const struct lb_tuple *to, __u32 addresses, enum lb_hops hops)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	void *network = data + (packet->network & LB_MAX_OFFSET);

	if (to->family == LB_IPV4) {
		if (network + sizeof(struct iphdr) > end)
			return -1;
		lb_write_ipv4(network, to, addresses, hops);
	} else {
		if (network + sizeof(struct ipv6hdr) > end)
			return -1;
		lb_write_ipv6(network, to, hops);
	}
	return 0;
}

/* A router between keeps its own address; an error from the flow's other end comes from its translation. */
static __always_inline void lb_outer_tuples(struct lb_work *work, struct lb_tuple *from, struct lb_tuple *to)
{
	const struct lb_packet *packet = &work->packet;

	*from = packet->tuple;
	from->source = packet->outer_source;
	from->destination = packet->outer_destination;
	*to = *from;
	to->destination = work->flow.leaving.destination;
	if (from->source.longs[0] == packet->tuple.source.longs[0] &&
	    from->source.longs[1] == packet->tuple.source.longs[1])
		to->source = work->flow.leaving.source;
}

LB_FUNCTION int lb_icmp_rewrite(struct __sk_buff *skb, struct lb_work *work, __u32 hops)
{
	struct lb_tuple *from, *to;
	struct lb_change change;
	long difference;
	__u32 offset;

	if (!work)
		return -1;
	from = &work->other, to = &work->half.leaving;
	lb_reverse(&work->packet.tuple, from);
	lb_reverse(&work->flow.leaving, to);
	difference = lb_write_quoted(skb, &work->packet, from, to);
	if (difference < 0)
		return -1;
	lb_outer_tuples(work, from, to);
	change = lb_change_of(from, to);
	if (lb_write_outer(skb, &work->packet, to, change.addresses, hops))
		return -1;
	change.ports = (__u32)difference;
	if (to->family == LB_IPV4) /* its checksum covers no addresses */
		change.addresses = 0;
	lb_skb_sum(skb, lb_hop_difference(to->family, hops));
	offset = work->packet.transport + offsetof(struct lb_icmp4, checksum);
	return lb_skb_checksum(skb, to->family, offset, 0, change);
}

#endif
