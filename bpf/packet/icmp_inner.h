/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads the tuple of the packet that an ICMP error quotes.
 */
#ifndef SLUICE_BPF_ICMP_INNER_H
#define SLUICE_BPF_ICMP_INNER_H

#include <linux/icmpv6.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#include <bpf/bpf_endian.h>

#include "bpf/packet/cursor.h"
#include "bpf/packet/headers.h"
#include "bpf/packet/packet.h"
#include "maps/abi/outcomes.h"

#define LB_V6_INNER_HEADERS                                                                                  \
	4 /* an error that quotes a longer chain of extension headers is left to the stack */

/* Own definition, because linux/icmp.h needs libc's sockets: RFC 792. */
struct lb_icmp4 {
	__u8 type;
	__u8 code;
	__u16 checksum;
	__be16 unused;
	__be16 mtu;
};

#define LB_ICMP4_ECHO 8
#define LB_ICMP4_UNREACHABLE 3
#define LB_ICMP4_PORT 3 /* codes of unreachable */
#define LB_ICMP4_TOO_BIG 4
#define LB_ICMP4_TIME 11
#define LB_ICMP4_PARAMETER 12

/* Reads the quoted data after the inner IP header, of which only eight bytes are guaranteed. */
static __always_inline enum lb_outcome lb_parse_inner(struct lb_cursor *cursor, __u8 protocol,
						      struct lb_packet *packet)
{
	const __be16 *ports;

	if (lb_beyond(cursor, packet))
		return LB_OUTCOME_malformed;
	/*
	 * An error is sent to the source of the quoted packet. One to another host is not of the flow, and
	 * could pass where the flow's would not.
	 */
	if (!lb_same_address(&packet->outer_destination, &packet->tuple.destination))
		return LB_OUTCOME_other_protocol;
	packet->tuple.protocol = lb_protocol_of(protocol);
	if (packet->tuple.protocol == LB_ANY_PROTOCOL)
		return LB_OUTCOME_other_protocol;
	packet->inner_transport = lb_offset(cursor);
	if (packet->inner_transport > LB_MAX_OFFSET - LB_REACH)
		return LB_OUTCOME_other_protocol;
	ports = lb_take(cursor, 8);
	if (!ports || lb_beyond(cursor, packet))
		return LB_OUTCOME_malformed;
	packet->tuple.destination_port = bpf_ntohs(ports[0]);
	packet->tuple.source_port = bpf_ntohs(ports[1]);
	return LB_OUTCOME_NONE;
}

/* Skips the first headers of a quoted packet; returns the next header, or a negative outcome. */
static __always_inline int lb_skip_inner(struct lb_cursor *cursor, int header, struct lb_packet *packet)
{
	for (int i = 0;
	     i < LB_V6_INNER_HEADERS && lb_is_extension(header) && packet->part != LB_LATER_FRAGMENT; i++) {
		header = lb_skip_extension(cursor, header, packet);
		if (header < 0)
			return header;
	}
	return header;
}

static __always_inline enum lb_outcome lb_parse_icmp4(struct lb_cursor *cursor, struct lb_packet *packet)
{
	const struct lb_icmp4 *icmp = lb_take(cursor, sizeof(*icmp));
	const struct iphdr *ip;

	if (!icmp)
		return LB_OUTCOME_malformed;
	packet->echo = icmp->type == LB_ICMP4_ECHO ? LB_YES : LB_NO;
	if (icmp->type != LB_ICMP4_UNREACHABLE && icmp->type != LB_ICMP4_TIME &&
	    icmp->type != LB_ICMP4_PARAMETER)
		return LB_OUTCOME_other_protocol;
	packet->inner_network = lb_offset(cursor);
	ip = lb_take(cursor, sizeof(*ip));
	if (!ip || ip->version != 4 || !lb_skip_options(cursor, ip))
		return LB_OUTCOME_malformed;
	if (ip->frag_off & bpf_htons(LB_IP_OFFSET))
		return LB_OUTCOME_fragment;
	packet->outer_source = packet->tuple.source;
	packet->outer_destination = packet->tuple.destination;
	lb_mapped(&packet->tuple.destination, ip->saddr);
	lb_mapped(&packet->tuple.source, ip->daddr);
	return lb_parse_inner(cursor, ip->protocol, packet);
}

static __always_inline enum lb_outcome lb_parse_icmp6(struct lb_cursor *cursor, struct lb_packet *packet)
{
	const struct icmp6hdr *icmp = lb_take(cursor, sizeof(*icmp));
	const struct ipv6hdr *ip;
	int header;

	if (!icmp)
		return LB_OUTCOME_malformed;
	packet->echo = icmp->icmp6_type == ICMPV6_ECHO_REQUEST ? LB_YES : LB_NO;
	if (icmp->icmp6_type < ICMPV6_DEST_UNREACH || icmp->icmp6_type > ICMPV6_PARAMPROB)
		return LB_OUTCOME_other_protocol;
	packet->inner_network = lb_offset(cursor);
	ip = lb_take(cursor, sizeof(*ip));
	if (!ip || ip->version != 6)
		return LB_OUTCOME_malformed;
	packet->outer_source = packet->tuple.source;
	packet->outer_destination = packet->tuple.destination;
	__builtin_memcpy(&packet->tuple.destination, &ip->saddr, 16);
	__builtin_memcpy(&packet->tuple.source, &ip->daddr, 16);
	header = lb_skip_inner(cursor, ip->nexthdr, packet);
	if (header < 0)
		return -header;
	if (packet->part == LB_LATER_FRAGMENT)
		return LB_OUTCOME_fragment;
	packet->part = LB_WHOLE;
	return lb_parse_inner(cursor, (__u8)header, packet);
}

static __always_inline enum lb_outcome lb_parse_icmp(struct lb_cursor *cursor, struct lb_packet *packet)
{
	if (packet->part != LB_WHOLE)
		return LB_OUTCOME_fragment;
	if (packet->next == IPPROTO_ICMP && packet->tuple.family == LB_IPV4)
		return lb_parse_icmp4(cursor, packet);
	if (packet->next == IPPROTO_ICMPV6 && packet->tuple.family == LB_IPV6)
		return lb_parse_icmp6(cursor, packet);
	return LB_OUTCOME_other_protocol;
}

#endif
