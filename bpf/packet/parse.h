/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Parses bytes to a tuple: Ethernet, IPv4 and IPv6, TCP, UDP, SCTP, fragments of them and ICMP errors about
 * them. Reads only; never past the end.
 */
#ifndef SLUICE_BPF_PARSE_H
#define SLUICE_BPF_PARSE_H

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>

#include "bpf/packet/cursor.h"
#include "bpf/packet/headers.h"
#include "bpf/packet/icmp_inner.h"
#include "bpf/packet/packet.h"
#include "maps/abi/outcomes.h"

#define LB_V6_HEADERS 8 /* a longer chain of extension headers is left to the stack */

static __always_inline enum lb_step lb_tcp_step(const struct tcphdr *tcp)
{
	if (tcp->rst)
		return LB_STEP_RST;
	if (tcp->syn)
		return tcp->ack ? LB_STEP_SYNACK : LB_STEP_SYN;
	return tcp->fin ? LB_STEP_FIN : LB_STEP_DATA;
}

static __always_inline enum lb_outcome lb_parse_tcp(struct lb_cursor *cursor, struct lb_packet *packet)
{
	const struct tcphdr *tcp = lb_take(cursor, sizeof(*tcp));

	if (!tcp || tcp->doff < 5 || tcp->doff * 4 > lb_transport_room(packet))
		return LB_OUTCOME_malformed;
	packet->tuple.source_port = bpf_ntohs(tcp->source);
	packet->tuple.destination_port = bpf_ntohs(tcp->dest);
	packet->expected_ack = bpf_ntohl(tcp->seq) + 1;
	packet->ack = bpf_ntohl(tcp->ack_seq);
	packet->end_seq =
		bpf_ntohl(tcp->seq) + lb_transport_room(packet) - tcp->doff * 4 + tcp->syn + tcp->fin;
	packet->step = lb_tcp_step(tcp);
	return LB_OUTCOME_NONE;
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
	return LB_OUTCOME_NONE;
}

static __always_inline enum lb_step lb_sctp_step(__u8 chunk)
{
	switch (chunk) {
	case LB_SCTP_INIT:
		return LB_STEP_SYN;
	case LB_SCTP_INIT_ACK:
		return LB_STEP_SYNACK;
	case LB_SCTP_ABORT:
		return LB_STEP_RST;
	case LB_SCTP_SHUTDOWN_COMPLETE:
		return LB_STEP_FIN;
	}
	return LB_STEP_DATA;
}

/* The server's tag from its INIT-ACK is in every later packet of the client. */
static __always_inline enum lb_outcome lb_parse_sctp(struct lb_cursor *cursor, struct lb_packet *packet)
{
	const struct lb_sctp *sctp = lb_take(cursor, sizeof(*sctp));
	const struct lb_sctp_chunk *chunk;
	const __be32 *tag;

	if (!sctp || lb_beyond(cursor, packet))
		return LB_OUTCOME_malformed;
	packet->tuple.source_port = bpf_ntohs(sctp->source);
	packet->tuple.destination_port = bpf_ntohs(sctp->destination);
	packet->ack = bpf_ntohl(sctp->tag);
	packet->step = LB_STEP_DATA;
	chunk = lb_take(cursor, sizeof(*chunk));
	if (!chunk || lb_beyond(cursor, packet))
		return LB_OUTCOME_malformed;
	packet->step = lb_sctp_step(chunk->type);
	if (packet->step != LB_STEP_SYNACK)
		return LB_OUTCOME_NONE;
	tag = lb_take(cursor, sizeof(*tag));
	if (!tag || lb_beyond(cursor, packet))
		return LB_OUTCOME_malformed;
	packet->expected_ack = bpf_ntohl(*tag);
	return LB_OUTCOME_NONE;
}

/* Parses from the cursor at `packet->transport`: ports, steps, or the packet quoted by an ICMP error. */
static __always_inline enum lb_outcome lb_parse_transport(struct lb_cursor *cursor, struct lb_packet *packet)
{
	if (packet->tuple.protocol == LB_ANY_PROTOCOL)
		return lb_parse_icmp(cursor, packet);
	if (packet->part == LB_LATER_FRAGMENT)
		return LB_OUTCOME_NONE;
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
	return LB_OUTCOME_NONE;
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
	if (ip->ihl > 5 && lb_is_source_routed(ip, cursor->end))
		return LB_OUTCOME_other_protocol;
	packet->part =
		lb_part_of(ip->frag_off & bpf_htons(LB_IP_OFFSET), ip->frag_off & bpf_htons(LB_IP_MORE));
	packet->may_fragment = ip->frag_off & bpf_htons(LB_IP_DONT) ? LB_NO : LB_YES;
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
	/*
	 * Does not use lb_skip_inner(): with both loops in one function the verifier has twice as much to
	 * check.
	 */
	header = ip->nexthdr;
	for (int i = 0; i < LB_V6_HEADERS && lb_is_extension(header) && packet->part != LB_LATER_FRAGMENT;
	     i++) {
		header = lb_skip_extension(cursor, header, packet);
		if (header < 0)
			return -header;
	}
	/* Bytes after the packet in its frame, such as padding, are not part of its headers. */
	if (lb_beyond(cursor, packet))
		return LB_OUTCOME_malformed;
	return lb_transport_is(cursor, (__u8)header, packet);
}

/*
 * Parses addresses and finds the transport header. `total`: size of the whole packet, including its
 * non-linear part.
 */
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
