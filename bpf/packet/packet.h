/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A parsed packet: its addresses and ports, the offsets of its headers, its role in its connection.
 */
#ifndef SLUICE_BPF_PACKET_H
#define SLUICE_BPF_PACKET_H

#include <linux/tcp.h>

#include <bpf/bpf_endian.h>

#include "bpf/packet/cursor.h"
#include "bpf/packet/stats.h"
#include "maps/abi/abi.h"

/* The common header and a chunk's beginning (RFC 9260). */
struct lb_sctp {
	__be16 source;
	__be16 destination;
	__be32 tag;
	__le32 checksum;
};

struct lb_sctp_chunk {
	__u8 type;
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

/* Whether the address is multicast, broadcast or unspecified. 240.0.0.0/4 is unicast, as in Linux. */
static __always_inline int lb_is_no_host(enum lb_family family, const union lb_ip *address)
{
	__u8 first = address->bytes[12];

	if (family == LB_IPV4)
		return first == 0 || (first >= 224 && first < 240) || address->words[3] == 0xffffffff;
	return address->bytes[0] == 0xff || (!address->longs[0] && !address->longs[1]);
}

/* One direction's addresses and ports; directly used as the key of the IPv6 tables. */
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

/* Sets ports in network order and the rest as one word, so that reading the whole word does not stall. */
static __always_inline void lb_set_ends(struct lb_tuple *tuple, __be32 ports, enum lb_protocol protocol,
					enum lb_family family)
{
	__u32 swapped = bpf_ntohl(ports);

	*(__u64 *)&tuple->source_port =
		(__u64)family << 40 | (__u64)protocol << 32 | (__u32)(swapped << 16) | swapped >> 16;
}

/* A packet's role in its connection: one set of values for TCP's flags and SCTP's chunks. */
LB_BYTE_ENUM lb_step {
	LB_STEP_NONE,   /* the protocol has no connections */
	LB_STEP_SYN,    /* SYN, INIT */
	LB_STEP_SYNACK, /* SYN-ACK, INIT-ACK */
	LB_STEP_RST,    /* RST, ABORT */
	LB_STEP_FIN,    /* FIN, SHUTDOWN-COMPLETE */
	LB_STEP_DATA,   /* anything else */
};

LB_BYTE_ENUM lb_part {
	LB_WHOLE,
	LB_FIRST_FRAGMENT,
	LB_LATER_FRAGMENT, /* has no ports of its own */
};

/*
 * For an ICMP error the tuple is that of the quoted packet, reversed: the direction in which the error itself
 * travels. So it finds the same flow entry as that direction's packets.
 */
struct lb_packet {
	struct lb_tuple tuple;
	union lb_ip outer_source; /* of an ICMP error */
	union lb_ip outer_destination;
	__u32 expected_ack;  /* TCP: sequence number + 1; INIT-ACK: its tag; for the peer to acknowledge */
	__u32 ack;           /* what this packet acknowledges: TCP's number, SCTP's tag */
	__u32 end_seq;       /* of TCP: the number after its last byte, including SYN and FIN */
	__u16 length;        /* of the IP packet */
	__u16 network;       /* offset of the IP header */
	__u16 transport;     /* offset of the TCP, UDP or ICMP header */
	__u16 inner_network; /* of an ICMP error, else 0: offset of the quoted IP header */
	__u16 inner_transport; /* and of the ports after it */
	LB_BYTE_ENUM lb_step step;
	LB_BYTE_ENUM lb_part part;
	__u32 id; /* of a fragmented datagram */
	LB_BYTE_ENUM lb_bool echo;         /* an ICMP echo request */
	__u8 hops;                 /* TTL or hop limit */
	__u8 next; /* IP protocol number */
	LB_BYTE_ENUM lb_bool may_fragment; /* IPv4 without "don't fragment" */
	LB_BYTE_ENUM lb_bool encapsulated; /* inside an encapsulation; `network` is after it */
};

#define LB_MAX_OFFSET 0x7ff /* maximum offset of a header */
#define LB_REACH 128        /* maximum access after the start of the transport header */

/* Instead of an outcome: processing continues. */
#define LB_OUTCOME_NONE LB_OUTCOME_COUNT

static __always_inline void lb_mapped(union lb_ip *address, __be32 v4)
{
	address->longs[0] = 0;
	address->words[2] = bpf_htonl(0xffff);
	address->words[3] = v4;
}

/* Bytes from the transport header to the end of the IP packet, without the frame's padding. */
static __always_inline __u32 lb_transport_room(const struct lb_packet *packet)
{
	__u32 headers = packet->transport - packet->network;

	return packet->length > headers ? packet->length - headers : 0;
}

static __always_inline int lb_beyond(const struct lb_cursor *cursor, const struct lb_packet *packet)
{
	return lb_offset(cursor) - packet->network > packet->length;
}

#endif
