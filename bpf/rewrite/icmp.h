/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ICMP errors about flows: the quoted packet is rewritten to the one that the receiver of the error sent, and
 * the outer addresses accordingly. Without this, path MTU discovery fails through the load balancer.
 */
#ifndef SLUICE_BPF_ICMP_H
#define SLUICE_BPF_ICMP_H

#include <linux/bpf.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#include <bpf/bpf_endian.h>

#include "bpf/flow/flow.h"
#include "bpf/flow/scratch.h"
#include "bpf/packet/icmp_inner.h"
#include "bpf/packet/packet.h"
#include "bpf/packet/stats.h"
#include "bpf/rewrite/rewrite.h"
#include "bpf/rewrite/skb.h"

/* Of a quoted TCP header only eight bytes are guaranteed; most senders quote all of it. */
static __always_inline void lb_pull_inner(struct __sk_buff *skb, const struct lb_packet *packet)
{
	__u32 end = packet->inner_transport + lb_check_place(LB_TCP) + sizeof(__u16);

	if (packet->tuple.protocol == LB_TCP && (__u32)(skb->data_end - skb->data) < end && end <= skb->len)
		bpf_skb_pull_data(skb, end);
}

/* The quoted packet's checksum, if it has one that covers ports and addresses and is quoted. */
static __always_inline __u16 *lb_inner_check(void *data, const void *end, const struct lb_packet *packet)
{
	enum lb_protocol protocol = packet->tuple.protocol;
	__u32 offset = packet->inner_transport + lb_check_place(protocol);
	__u16 *check = data + (offset & LB_MAX_OFFSET);

	if (protocol == LB_SCTP || (const void *)(check + 1) > end ||
	    offset + sizeof(*check) - packet->network > packet->length)
		return NULL;
	return protocol == LB_TCP || *check ? check : NULL;
}

/* Rewrites the quoted packet; returns the difference for the ICMP checksum, or -1. */
static __always_inline long lb_write_inner(struct __sk_buff *skb, const struct lb_packet *packet,
					   const struct lb_tuple *from, const struct lb_tuple *to)
{
	struct lb_change change = lb_change_of(from, to);
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	void *network = data + (packet->inner_network & LB_MAX_OFFSET);
	__be16 *ports = data + (packet->inner_transport & LB_MAX_OFFSET);
	__u16 *check = lb_inner_check(data, end, packet);
	__u64 difference = change.ports;

	if ((void *)(ports + 2) > end)
		return -1;
	ports[0] = bpf_htons(to->source_port);
	ports[1] = bpf_htons(to->destination_port);
	if (check) {
		difference += (__u16) ~*check;
		lb_apply_to(check, from->protocol == LB_UDP, (__u64)change.addresses + change.ports);
		difference += *check;
	}
	if (from->family == LB_IPV4) {
		/* The quoted header's own checksum keeps its sum unchanged. */
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

	return lb_write_network(data + (packet->network & LB_MAX_OFFSET), end, to, addresses, hops);
}

/*
 * A router in between keeps its own address; an error from the flow's other end comes from its translated
 * address.
 */
static __always_inline void lb_outer_tuples(struct lb_scratch *scratch, struct lb_tuple *from,
					    struct lb_tuple *to)
{
	const struct lb_packet *packet = &scratch->packet;

	*from = packet->tuple;
	from->source = packet->outer_source;
	from->destination = packet->outer_destination;
	*to = *from;
	to->destination = scratch->flow.leaving.destination;
	if (from->source.longs[0] == packet->tuple.source.longs[0] &&
	    from->source.longs[1] == packet->tuple.source.longs[1])
		to->source = scratch->flow.leaving.source;
}

LB_FUNCTION int lb_icmp_rewrite(struct __sk_buff *skb, __u32 hops)
{
	struct lb_scratch *scratch = lb_scratch_get();
	struct lb_tuple *from, *to;
	struct lb_change change;
	long difference;
	__u32 offset;

	if (!scratch)
		return -1;
	from = &scratch->reply_tuple, to = &scratch->reply.leaving;
	lb_reverse(&scratch->packet.tuple, from);
	lb_reverse(&scratch->flow.leaving, to);
	lb_pull_inner(skb, &scratch->packet);
	difference = lb_write_inner(skb, &scratch->packet, from, to);
	if (difference < 0)
		return -1;
	lb_outer_tuples(scratch, from, to);
	change = lb_change_of(from, to);
	if (lb_write_outer(skb, &scratch->packet, to, change.addresses, hops))
		return -1;
	change.ports = (__u32)difference;
	if (to->family == LB_IPV4) /* its checksum covers no addresses */
		change.addresses = 0;
	lb_skb_sum(skb, lb_hop_difference(to->family, hops));
	offset = scratch->packet.transport + offsetof(struct lb_icmp4, checksum);
	return lb_skb_checksum(skb, to->family, offset, 0, change);
}

#endif
