/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Headers between the IP header and the transport header: IPv4's options, IPv6's extension headers,
 * fragments.
 */
#ifndef SLUICE_BPF_HEADERS_H
#define SLUICE_BPF_HEADERS_H

#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#include <bpf/bpf_endian.h>

#include "bpf/packet/cursor.h"
#include "bpf/packet/packet.h"
#include "maps/abi/outcomes.h"

#define LB_IP_DONT 0x4000
#define LB_IP_MORE 0x2000
#define LB_IP_OFFSET 0x1fff

static __always_inline enum lb_protocol lb_protocol_of(__u8 number)
{
	switch (number) {
	case IPPROTO_TCP:
		return LB_TCP;
	case IPPROTO_UDP:
		return LB_UDP;
	case IPPROTO_SCTP:
		return LB_SCTP;
	}
	return LB_ANY_PROTOCOL;
}

/* Skips IPv4's options; the mask shows the verifier the maximum header length. */
static __always_inline int lb_skip_options(struct lb_cursor *cursor, const struct iphdr *ip)
{
	__u32 size = (ip->ihl * 4 - sizeof(*ip)) & 0x3c;

	return ip->ihl >= 5 && lb_take(cursor, size);
}

#define LB_V4_OPTIONS 40 /* bytes of options, and so the maximum number of them */
#define LB_OPTION_END 0
#define LB_OPTION_NONE 1
#define LB_OPTION_LOOSE 131
#define LB_OPTION_STRICT 137

/*
 * Whether the packet has a source route with hops left (RFC 791, 3.1). Its destination is then not the last
 * one, as with segments left in a routing header.
 */
static __always_inline int lb_is_source_routed(const struct iphdr *ip, const void *end)
{
	__u32 at = sizeof(*ip), size = ip->ihl * 4;

	for (int i = 0; i < LB_V4_OPTIONS && at + 3 <= size; i++) {
		const __u8 *option = (const __u8 *)ip + at;

		if ((const void *)(option + 3) > end || option[0] == LB_OPTION_END)
			return 0;
		if (option[0] == LB_OPTION_LOOSE || option[0] == LB_OPTION_STRICT)
			return option[2] <= option[1];
		at += option[0] == LB_OPTION_NONE ? 1 : option[1];
	}
	return 0;
}

static __always_inline enum lb_part lb_part_of(__u16 offset, int more)
{
	if (offset)
		return LB_LATER_FRAGMENT;
	return more ? LB_FIRST_FRAGMENT : LB_WHOLE;
}

struct lb_fragment6 {
	__u8 nexthdr;
	__u8 reserved;
	__be16 offset; /* in bytes; the lowest bit: more fragments follow */
	__be32 id;
};

static __always_inline int lb_skip_fragment6(struct lb_cursor *cursor, struct lb_packet *packet)
{
	const struct lb_fragment6 *fragment = lb_take(cursor, sizeof(*fragment));

	if (!fragment)
		return -LB_OUTCOME_malformed;
	packet->part = lb_part_of(fragment->offset & bpf_htons(0xfff8), fragment->offset & bpf_htons(1));
	packet->id = fragment->id;
	return fragment->nexthdr;
}

/* Skips one extension header; returns the next header's number, or a negative outcome. */
static __always_inline int lb_skip_extension(struct lb_cursor *cursor, __u8 header, struct lb_packet *packet)
{
	const struct ipv6_rt_hdr *option; /* the others begin alike, and each has at least eight bytes */

	switch (header) {
	case IPPROTO_HOPOPTS:
	case IPPROTO_ROUTING:
	case IPPROTO_DSTOPTS:
		option = lb_take(cursor, sizeof(*option));
		if (!option || !lb_take(cursor, option->hdrlen * 8 + 8 - sizeof(*option)))
			return -LB_OUTCOME_malformed;
		/* The destination is not the last one, which the checksum covers (RFC 8200, 8.1). */
		if (header == IPPROTO_ROUTING && option->segments_left)
			return -LB_OUTCOME_other_protocol;
		return option->nexthdr;
	case IPPROTO_FRAGMENT:
		return lb_skip_fragment6(cursor, packet);
	case IPPROTO_AH:
		return -LB_OUTCOME_other_protocol;
	}
	return header;
}

static __always_inline int lb_is_extension(__u8 header)
{
	return header == IPPROTO_HOPOPTS || header == IPPROTO_ROUTING || header == IPPROTO_DSTOPTS ||
	       header == IPPROTO_FRAGMENT || header == IPPROTO_AH;
}

#endif
