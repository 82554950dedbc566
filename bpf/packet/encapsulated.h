/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Encapsulation that a route adds (ip route ... encap): MPLS labels, or an IPv6 header with segments or
 * options. At egress it is present already, while the flow tables have the inner packet.
 */
#ifndef SLUICE_BPF_ENCAPSULATED_H
#define SLUICE_BPF_ENCAPSULATED_H

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ipv6.h>

#include <bpf/bpf_endian.h>

#include "bpf/packet/cursor.h"
#include "bpf/packet/packet.h"
#include "bpf/packet/parse.h"
#include "maps/abi/outcomes.h"

#define LB_MPLS_LABELS 8 /* a deeper stack is not parsed */
#define LB_MPLS_BOTTOM 0x100
#define LB_OUTER_HEADERS 3

/* The EtherType of the payload after the labels, which do not contain it; 0: neither IPv4 nor IPv6. */
static __always_inline __be16 lb_skip_labels(struct lb_cursor *cursor)
{
	for (int i = 0; i < LB_MPLS_LABELS; i++) {
		const __be32 *label = lb_take(cursor, sizeof(*label));
		const __u8 *first = cursor->pos;

		if (!label || (const void *)(first + 1) > cursor->end)
			return 0;
		if (!(*label & bpf_htonl(LB_MPLS_BOTTOM)))
			continue;
		return *first >> 4 == 4 ? bpf_htons(ETH_P_IP) : *first >> 4 == 6 ? bpf_htons(ETH_P_IPV6) : 0;
	}
	return 0;
}

/* Likewise after an IPv6 header and its extension headers, whatever segments they have left. */
static __always_inline __be16 lb_skip_outer_ipv6(struct lb_cursor *cursor)
{
	const struct ipv6hdr *ip = lb_take(cursor, sizeof(*ip));
	__u8 header;

	if (!ip)
		return 0;
	header = ip->nexthdr;
	for (int i = 0; i < LB_OUTER_HEADERS; i++) {
		const struct ipv6_rt_hdr *option;

		if (header != IPPROTO_HOPOPTS && header != IPPROTO_ROUTING && header != IPPROTO_DSTOPTS)
			break;
		option = lb_take(cursor, sizeof(*option));
		if (!option || !lb_take(cursor, option->hdrlen * 8 + 8 - sizeof(*option)))
			return 0;
		header = option->nexthdr;
	}
	if (header == IPPROTO_IPIP)
		return bpf_htons(ETH_P_IP);
	return header == IPPROTO_IPV6 ? bpf_htons(ETH_P_IPV6) : 0;
}

/*
 * Finds the inner packet: sets its offset and family. The verifier checks this and lb_parse_encapsulated()
 * apart: after each length of the outer headers it would go through all inner headers again.
 */
static __always_inline enum lb_outcome lb_skip_outer(struct lb_cursor *cursor, struct lb_packet *packet,
						     __u32 total)
{
	const struct ethhdr *ethernet = lb_take(cursor, sizeof(*ethernet));
	__be16 within = 0;

	if (!ethernet)
		return LB_OUTCOME_not_ip;
	if (ethernet->h_proto == bpf_htons(ETH_P_MPLS_UC))
		within = lb_skip_labels(cursor);
	else if (ethernet->h_proto == bpf_htons(ETH_P_IPV6))
		within = lb_skip_outer_ipv6(cursor);
	if (!within)
		return LB_OUTCOME_not_ip;
	__builtin_memset(packet, 0, sizeof(*packet));
	packet->encapsulated = LB_YES;
	packet->tuple.family = within == bpf_htons(ETH_P_IP) ? LB_IPV4 : LB_IPV6;
	packet->network = lb_offset(cursor);
	return packet->network > LB_MAX_OFFSET - LB_REACH || packet->network > total ? LB_OUTCOME_not_ip
										     : LB_OUTCOME_NONE;
}

/* Like lb_parse_network(), for the inner packet; the cursor is at `packet->network`. */
static __always_inline enum lb_outcome lb_parse_encapsulated(struct lb_cursor *cursor,
							     struct lb_packet *packet, __u32 total)
{
	total -= packet->network;
	return packet->tuple.family == LB_IPV4 ? lb_parse_ipv4(cursor, packet, total)
					       : lb_parse_ipv6(cursor, packet, total);
}

#endif
