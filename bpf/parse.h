/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From bytes to a tuple: Ethernet, IPv4 and IPv6, TCP, UDP, SCTP, fragments of them and ICMP errors about
 * them. Reads only; never past the end.
 */
#ifndef SLUICE_BPF_PARSE_H
#define SLUICE_BPF_PARSE_H

#include <linux/icmpv6.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>

#include "cursor.h"
#include "stats.h"

#define LB_IP_DONT 0x4000
#define LB_IP_MORE 0x2000
#define LB_IP_OFFSET 0x1fff
#define LB_V6_HEADERS 8 /* a longer chain of extension headers is left to the stack */
#define LB_V6_QUOTED 4  /* and an error that quotes a longer one */

/* linux/icmp.h needs libc's sockets; RFC 792 is short enough. */
struct lb_icmp4 {
	__u8 type;
	__u8 code;
	__u16 checksum;
	__be16 unused;
	__be16 mtu;
};

#define LB_ICMP4_ECHO 8
#define LB_ICMP4_UNREACHABLE 3
#define LB_ICMP4_PORT 3 /* codes of the above */
#define LB_ICMP4_TOO_BIG 4
#define LB_ICMP4_TIME 11
#define LB_ICMP4_PARAMETER 12

/* RFC 9260: the common header and the start of the first chunk. */
struct lb_sctp {
	__be16 source;
	__be16 destination;
	__be32 tag;
	__le32 checksum;
	__u8 chunk;
	__u8 flags;
	__be16 length;
};

#define LB_SCTP_INIT 1
#define LB_SCTP_INIT_ACK 2
#define LB_SCTP_ABORT 6
#define LB_SCTP_SHUTDOWN_COMPLETE 14

/* An address as words, so that it is copied by words. */
union lb_ip {
	__u8 bytes[16];
	__u32 words[4]; /* IPv4 is the last one */
	__u64 longs[2];
};

static __always_inline int lb_same_address(const union lb_ip *one, const union lb_ip *other)
{
	return one->longs[0] == other->longs[0] && one->longs[1] == other->longs[1];
}

/* One direction's addresses and ports; as the key of the IPv6 tables it is used as it stands. */
struct lb_tuple {
	union lb_ip source;
	union lb_ip destination;
	__u16 source_port;
	__u16 destination_port;
	LB_BYTE_ENUM lb_protocol protocol;
	LB_BYTE_ENUM lb_family family;
	__u8 pad[2];
} LB_ALIGN8;
LB_ASSERT(sizeof(struct lb_tuple) == sizeof(struct lb_flow6_key));

/* The ports as a packet has them, and the rest, as one word: nothing that reads it whole has to wait for its pieces. */
static __always_inline void lb_set_ends(struct lb_tuple *tuple, __be32 ports, enum lb_protocol protocol,
					enum lb_family family)
{
	__u32 swapped = bpf_ntohl(ports);

	*(__u64 *)&tuple->source_port =
		(__u64)family << 40 | (__u64)protocol << 32 | (__u32)(swapped << 16) | swapped >> 16;
}

/* What a packet does in its connection: TCP's flags and SCTP's chunks in one set of words. */
LB_BYTE_ENUM lb_step {
	LB_STEP_NONE,   /* the protocol has no connections */
	LB_STEP_OPEN,   /* SYN, INIT */
	LB_STEP_ANSWER, /* SYN-ACK, INIT-ACK */
	LB_STEP_RESET,  /* RST, ABORT */
	LB_STEP_END,    /* FIN, SHUTDOWN-COMPLETE */
	LB_STEP_DATA,   /* anything else */
};

LB_BYTE_ENUM lb_part {
	LB_WHOLE,
	LB_FIRST_FRAGMENT,
	LB_LATER_FRAGMENT, /* has no ports of its own */
};

/*
 * For an ICMP error the tuple is that of the packet it complains about, reversed: the direction in which the
 * error itself travels. So it finds the same flow entry as that direction's packets.
 */
struct lb_packet {
	struct lb_tuple tuple;
	union lb_ip outer_source; /* of an ICMP error */
	union lb_ip outer_destination;
	__u32 promise;       /* of an answer: what the client's next packet must show */
	__u32 proof;         /* what this packet shows: TCP's acknowledgement, SCTP's tag */
	__u32 past;          /* of TCP: the number behind its last byte, SYN and FIN counted */
	__u16 length;        /* of the IP packet */
	__u16 network;       /* offset of the IP header */
	__u16 transport;     /* offset of the TCP, UDP or ICMP header */
	__u16 inner_network; /* of an ICMP error, else 0: offset of the IP header it quotes */
	__u16 inner_transport; /* and of the ports behind that */
	LB_BYTE_ENUM lb_step step;
	LB_BYTE_ENUM lb_part part;
	__u32 id; /* of a fragmented datagram */
	LB_BYTE_ENUM lb_bool echo; /* an ICMP echo request */
	__u8 hops;         /* TTL or hop limit */
	__u8 next;         /* the IP protocol's number */
};

#define LB_MAX_OFFSET 0x7ff /* beyond this no header is looked for */
#define LB_REACH 128        /* what is read or written behind the start of the transport header */

/* Success, where an outcome would tell of the opposite. */
#define LB_FINE LB_OUTCOME_COUNT

static __always_inline void lb_mapped(union lb_ip *address, __be32 v4)
{
	address->longs[0] = 0;
	address->words[2] = bpf_htonl(0xffff);
	address->words[3] = v4;
}

static __always_inline enum lb_step lb_tcp_step(const struct tcphdr *tcp)
{
	if (tcp->rst)
		return LB_STEP_RESET;
	if (tcp->syn)
		return tcp->ack ? LB_STEP_ANSWER : LB_STEP_OPEN;
	return tcp->fin ? LB_STEP_END : LB_STEP_DATA;
}

/* Bytes from the transport header to the end of the IP packet; what the frame has behind that is no part of it. */
static __always_inline __u32 lb_transport_room(const struct lb_packet *packet)
{
	__u32 headers = packet->transport - packet->network;

	return packet->length > headers ? packet->length - headers : 0;
}

static __always_inline int lb_beyond(const struct lb_cursor *cursor, const struct lb_packet *packet)
{
	return lb_offset(cursor) - packet->network > packet->length;
}

static __always_inline enum lb_outcome lb_parse_tcp(struct lb_cursor *cursor, struct lb_packet *packet)
{
	const struct tcphdr *tcp = lb_take(cursor, sizeof(*tcp));

	if (!tcp || tcp->doff < 5 || tcp->doff * 4 > lb_transport_room(packet))
		return LB_OUTCOME_malformed;
	packet->tuple.source_port = bpf_ntohs(tcp->source);
	packet->tuple.destination_port = bpf_ntohs(tcp->dest);
	packet->promise = bpf_ntohl(tcp->seq) + 1;
	packet->proof = bpf_ntohl(tcp->ack_seq);
	packet->past = bpf_ntohl(tcp->seq) + lb_transport_room(packet) - tcp->doff * 4 + tcp->syn + tcp->fin;
	packet->step = lb_tcp_step(tcp);
	return LB_FINE;
}

static __always_inline enum lb_outcome lb_parse_udp(struct lb_cursor *cursor, struct lb_packet *packet)
{
	const struct udphdr *udp = lb_take(cursor, sizeof(*udp));
	__u32 room = lb_transport_room(packet);

	if (!udp || room < sizeof(*udp) || bpf_ntohs(udp->len) < sizeof(*udp))
		return LB_OUTCOME_malformed;
	if (packet->part == LB_WHOLE && bpf_ntohs(udp->len) > room)
		return LB_OUTCOME_malformed;
	packet->tuple.source_port = bpf_ntohs(udp->source);
	packet->tuple.destination_port = bpf_ntohs(udp->dest);
	packet->step = LB_STEP_NONE;
	return LB_FINE;
}

static __always_inline enum lb_step lb_sctp_step(__u8 chunk)
{
	switch (chunk) {
	case LB_SCTP_INIT:
		return LB_STEP_OPEN;
	case LB_SCTP_INIT_ACK:
		return LB_STEP_ANSWER;
	case LB_SCTP_ABORT:
		return LB_STEP_RESET;
	case LB_SCTP_SHUTDOWN_COMPLETE:
		return LB_STEP_END;
	}
	return LB_STEP_DATA;
}

/* The server's tag, given in its INIT-ACK, is in every packet of the client from then on. */
static __always_inline enum lb_outcome lb_parse_sctp(struct lb_cursor *cursor, struct lb_packet *packet)
{
	const struct lb_sctp *sctp = lb_take(cursor, sizeof(*sctp));
	const __be32 *tag;

	if (!sctp || lb_beyond(cursor, packet))
		return LB_OUTCOME_malformed;
	packet->tuple.source_port = bpf_ntohs(sctp->source);
	packet->tuple.destination_port = bpf_ntohs(sctp->destination);
	packet->proof = bpf_ntohl(sctp->tag);
	packet->step = lb_sctp_step(sctp->chunk);
	if (packet->step != LB_STEP_ANSWER)
		return LB_FINE;
	tag = lb_take(cursor, sizeof(*tag));
	if (!tag || lb_beyond(cursor, packet))
		return LB_OUTCOME_malformed;
	packet->promise = bpf_ntohl(*tag);
	return LB_FINE;
}

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

/* What an error quotes behind the inner IP header; eight bytes are all that is promised. */
static __always_inline enum lb_outcome lb_parse_quoted(struct lb_cursor *cursor, __u8 protocol,
						       struct lb_packet *packet)
{
	const __be16 *ports;

	if (lb_beyond(cursor, packet))
		return LB_OUTCOME_malformed;
	packet->tuple.protocol = lb_protocol_of(protocol);
	if (packet->tuple.protocol == LB_ANY_PROTOCOL)
		return LB_OUTCOME_other_protocol;
	packet->inner_transport = lb_offset(cursor);
	ports = lb_take(cursor, 8);
	if (!ports || lb_beyond(cursor, packet))
		return LB_OUTCOME_malformed;
	packet->tuple.destination_port = bpf_ntohs(ports[0]);
	packet->tuple.source_port = bpf_ntohs(ports[1]);
	return LB_FINE;
}

/* Steps over IPv4's options; the mask tells the verifier what the header length cannot exceed. */
static __always_inline int lb_skip_options(struct lb_cursor *cursor, const struct iphdr *ip)
{
	__u32 size = (ip->ihl * 4 - sizeof(*ip)) & 0x3c;

	return ip->ihl >= 5 && lb_take(cursor, size);
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
	__be16 offset; /* in bytes, and the lowest bit says that more follow */
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

/* Steps over one extension header; the next header's number, or a negative outcome. */
static __always_inline int lb_skip_extension(struct lb_cursor *cursor, __u8 header, struct lb_packet *packet)
{
	const struct ipv6_opt_hdr *option;

	switch (header) {
	case IPPROTO_HOPOPTS:
	case IPPROTO_ROUTING:
	case IPPROTO_DSTOPTS:
		option = lb_take(cursor, sizeof(*option));
		if (!option || !lb_take(cursor, option->hdrlen * 8 + 6))
			return -LB_OUTCOME_malformed;
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

/* Steps over the first headers of a quoted packet; what comes behind, or a negative outcome. */
static __always_inline int lb_skip_quoted(struct lb_cursor *cursor, int header, struct lb_packet *packet)
{
	for (int i = 0; i < LB_V6_QUOTED && lb_is_extension(header) && packet->part != LB_LATER_FRAGMENT;
	     i++) {
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
	return lb_parse_quoted(cursor, ip->protocol, packet);
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
	header = lb_skip_quoted(cursor, ip->nexthdr, packet);
	if (header < 0)
		return -header;
	if (packet->part == LB_LATER_FRAGMENT)
		return LB_OUTCOME_fragment;
	packet->part = LB_WHOLE;
	return lb_parse_quoted(cursor, (__u8)header, packet);
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

/* From the cursor at `packet->transport`: ports, steps, or what an ICMP error is about. */
static __always_inline enum lb_outcome lb_parse_transport(struct lb_cursor *cursor, struct lb_packet *packet)
{
	if (packet->tuple.protocol == LB_ANY_PROTOCOL)
		return lb_parse_icmp(cursor, packet);
	if (packet->part == LB_LATER_FRAGMENT)
		return LB_FINE;
	switch (packet->tuple.protocol) {
	case LB_TCP:
		return lb_parse_tcp(cursor, packet);
	case LB_UDP:
		return lb_parse_udp(cursor, packet);
	default:
		return lb_parse_sctp(cursor, packet);
	}
}

static __always_inline enum lb_outcome lb_transport_is(struct lb_cursor *cursor, __u8 protocol,
						       struct lb_packet *packet)
{
	packet->transport = lb_offset(cursor);
	if (packet->transport > LB_MAX_OFFSET - LB_REACH)
		return LB_OUTCOME_other_protocol;
	packet->next = protocol;
	packet->tuple.protocol = lb_protocol_of(protocol);
	return LB_FINE;
}

/* Segments of more than 64 KiB (BIG TCP) have zero in the length field. */
static __always_inline __u16 lb_length(__u16 field, __u32 available)
{
	return !field && available > 0xffff ? 0xffff : field;
}

static __always_inline enum lb_outcome lb_parse_ipv4(struct lb_cursor *cursor, struct lb_packet *packet,
						     __u32 available)
{
	const struct iphdr *ip = lb_take(cursor, sizeof(*ip));

	if (!ip || ip->version != 4 || !lb_skip_options(cursor, ip))
		return LB_OUTCOME_malformed;
	packet->length = lb_length(bpf_ntohs(ip->tot_len), available);
	if (packet->length > available || packet->length < ip->ihl * 4)
		return LB_OUTCOME_malformed;
	packet->part =
		lb_part_of(ip->frag_off & bpf_htons(LB_IP_OFFSET), ip->frag_off & bpf_htons(LB_IP_MORE));
	packet->id = ip->id;
	lb_mapped(&packet->tuple.source, ip->saddr);
	lb_mapped(&packet->tuple.destination, ip->daddr);
	packet->tuple.family = LB_IPV4;
	packet->hops = ip->ttl;
	return lb_transport_is(cursor, ip->protocol, packet);
}

static __always_inline enum lb_outcome lb_parse_ipv6(struct lb_cursor *cursor, struct lb_packet *packet,
						     __u32 available)
{
	const struct ipv6hdr *ip = lb_take(cursor, sizeof(*ip));
	__u32 length;
	int header;

	if (!ip || ip->version != 6 || sizeof(*ip) + bpf_ntohs(ip->payload_len) > available)
		return LB_OUTCOME_malformed;
	length = sizeof(*ip) + lb_length(bpf_ntohs(ip->payload_len), available - sizeof(*ip));
	packet->length = length > 0xffff ? 0xffff : (__u16)length;
	__builtin_memcpy(&packet->tuple.source, &ip->saddr, 16);
	__builtin_memcpy(&packet->tuple.destination, &ip->daddr, 16);
	packet->tuple.family = LB_IPV6;
	packet->hops = ip->hop_limit;
	/* Not by the function for quoted ones: in one loop with that the verifier has twice as much to look at. */
	header = ip->nexthdr;
	for (int i = 0; i < LB_V6_HEADERS && lb_is_extension(header) && packet->part != LB_LATER_FRAGMENT;
	     i++) {
		header = lb_skip_extension(cursor, header, packet);
		if (header < 0)
			return -header;
	}
	/* What follows the packet in its frame, as padding does, is no header of it. */
	if (lb_beyond(cursor, packet))
		return LB_OUTCOME_malformed;
	return lb_transport_is(cursor, (__u8)header, packet);
}

/* Addresses and the place of the transport header. `total`: bytes of the whole packet, beyond what is linear too. */
static __always_inline enum lb_outcome lb_parse_network(struct lb_cursor *cursor, struct lb_packet *packet,
							__u32 total)
{
	const struct ethhdr *ethernet = lb_take(cursor, sizeof(*ethernet));
	__u32 available = total - sizeof(*ethernet);

	__builtin_memset(packet, 0, sizeof(*packet));
	if (!ethernet)
		return LB_OUTCOME_malformed;
	packet->network = lb_offset(cursor);
	switch (ethernet->h_proto) {
	case bpf_htons(ETH_P_IP):
		return lb_parse_ipv4(cursor, packet, available);
	case bpf_htons(ETH_P_IPV6):
		return lb_parse_ipv6(cursor, packet, available);
	}
	return LB_OUTCOME_not_ip;
}

#endif
