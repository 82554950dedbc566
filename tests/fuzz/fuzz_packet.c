/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * REL-17: the packet parser and the rewriting of headers, compiled natively: bpf/packet/parse.h and bpf/rewrite/rewrite.h
 * unchanged, because they call no BPF helpers. Input: how much of the frame is linear (in 255ths), then the frame.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* libbpf's macro dereferences a null pointer, which UBSan reports. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>
#undef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)

#include <linux/if_ether.h>

#include "bpf/packet/encapsulated.h"
#include "bpf/packet/packet.h"
#include "bpf/packet/parse.h"
#include "bpf/rewrite/rewrite.h"

#define ALIGN 2    /* bytes that drivers leave before a frame, to align the IP header (NET_IP_ALIGN) */
#define MOST 65536 /* bytes of the largest frame */

struct frame {
	__u8 *memory; /* ends with the frame, so that an access beyond it is detected */
	__u8 *data;
	__u32 size;
};

static void require(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "oracle: %s\n", what);
	abort();
}

static struct frame frame_of(const __u8 *bytes, __u32 size)
{
	struct frame frame = {.memory = malloc(ALIGN + size), .size = size};

	require(frame.memory != NULL, "there is memory");
	frame.data = frame.memory + ALIGN;
	if (size)
		memcpy(frame.data, bytes, size);
	return frame;
}

/* As lb_skb_outer() and lb_skb_inner() do it. */
static enum lb_outcome parse_within(struct lb_cursor *cursor, struct lb_packet *packet, __u32 total)
{
	enum lb_outcome outcome = lb_skip_outer(cursor, packet, total);

	if (outcome != LB_OUTCOME_NONE)
		return outcome;
	*cursor = lb_cursor_at(cursor->start, cursor->end, packet->network & LB_MAX_OFFSET);
	return lb_parse_encapsulated(cursor, packet, total);
}

/*
 * As lb_skb_read() and the XDP program do it: the frame is all that is linear of `total` bytes. Or as lb_skb_parse_within(), without
 * the pull: headers beyond the linear part make the packet malformed.
 */
static enum lb_outcome parse_by(enum lb_outcome (*network)(struct lb_cursor *, struct lb_packet *, __u32),
				const struct frame *frame, __u32 total, struct lb_packet *packet)
{
	void *end = frame->data + frame->size;
	struct lb_cursor cursor = lb_cursor_at(frame->data, end, 0);
	enum lb_outcome outcome = network(&cursor, packet, total);

	if (outcome != LB_OUTCOME_NONE)
		return outcome;
	cursor = lb_cursor_at(frame->data, end, packet->transport & LB_MAX_OFFSET);
	return lb_parse_transport(&cursor, packet);
}

static enum lb_outcome parse(const struct frame *frame, __u32 total, struct lb_packet *packet)
{
	enum lb_outcome outcome = parse_by(lb_parse_network, frame, total, packet), within;
	struct lb_packet inner = {0};

	if (outcome != LB_OUTCOME_not_ip && outcome != LB_OUTCOME_other_protocol)
		return outcome;
	within = parse_by(parse_within, frame, total, &inner);
	if (within == LB_OUTCOME_NONE)
		*packet = inner;
	return within == LB_OUTCOME_NONE ? within : frame->size < total ? LB_OUTCOME_malformed : outcome;
}

static enum lb_outcome parse_bytes(const __u8 *bytes, __u32 size, __u32 total, struct lb_packet *packet)
{
	struct frame frame = frame_of(bytes, size);
	enum lb_outcome outcome = parse(&frame, total, packet);

	free(frame.memory);
	return outcome;
}

static void check_outcome(enum lb_outcome outcome)
{
	require(outcome == LB_OUTCOME_NONE || outcome == LB_OUTCOME_malformed ||
			outcome == LB_OUTCOME_not_ip || outcome == LB_OUTCOME_other_protocol ||
			outcome == LB_OUTCOME_fragment,
		"the outcome is one of the parser's");
}

/* The size of an IPv4 header with its options, or of an IPv6 header without its extension headers. */
static __u32 header_size(const struct lb_packet *packet, const __u8 *header)
{
	return packet->tuple.family == LB_IPV4 ? 4u * (header[0] & 15) : sizeof(struct ipv6hdr);
}

static int follows(const struct lb_packet *packet, const __u8 *bytes, __u32 network, __u32 transport)
{
	__u32 least = network + header_size(packet, bytes + network);

	return packet->tuple.family == LB_IPV4 ? transport == least : transport >= least;
}

static void check_places(const struct lb_packet *packet, const __u8 *bytes, __u32 size)
{
	__u32 end = packet->network + packet->length;

	require(packet->encapsulated == LB_YES ? packet->network > sizeof(struct ethhdr)
					       : packet->network == sizeof(struct ethhdr),
		"IP follows Ethernet, or what a route adds");
	require(packet->length == 0xffff || end <= size, "the IP packet ends in the frame");
	require(follows(packet, bytes, packet->network, packet->transport), "the transport follows IP");
	require(packet->transport + LB_REACH <= LB_MAX_OFFSET, "offsets stay below what the verifier knows");
	require(packet->part == LB_LATER_FRAGMENT || packet->transport + 8u <= end,
		"ports are in the IP packet");
	if (!packet->inner_network)
		return;
	require(packet->inner_network == packet->transport + 8, "an error quotes behind its header");
	require(packet->inner_transport + LB_REACH <= LB_MAX_OFFSET, "quoted offsets stay below it, too");
	require(follows(packet, bytes, packet->inner_network, packet->inner_transport) &&
			packet->inner_transport + 8u <= end,
		"the quoted ports are in the IP packet");
}

static void check_ports(const struct lb_packet *packet, const __u8 *bytes)
{
	__u32 at = packet->inner_network ? packet->inner_transport : packet->transport;
	__u16 first = (__u16)(bytes[at] << 8 | bytes[at + 1]);
	__u16 second = (__u16)(bytes[at + 2] << 8 | bytes[at + 3]);
	const struct lb_tuple *tuple = &packet->tuple;

	if (packet->inner_network)
		require(tuple->destination_port == first && tuple->source_port == second,
			"an error has the ports it quotes, reversed");
	else
		require(tuple->source_port == first && tuple->destination_port == second,
			"ports are as sent");
}

static void check_udp(const struct lb_packet *packet, const __u8 *bytes)
{
	__u32 length = (__u32)(bytes[packet->transport + 4] << 8 | bytes[packet->transport + 5]);

	require(length >= 8, "a datagram has a header");
	require(packet->part != LB_WHOLE || packet->transport + length <= packet->network + packet->length,
		"a datagram is in the IP packet");
}

static int same(const struct lb_packet *one, const struct lb_packet *other)
{
	return !memcmp(one, other, sizeof(*one));
}

/* Headers outside the linear part make a packet malformed until they are pulled in, and have no other effect. */
static void check_linear(const __u8 *bytes, __u32 linear, __u32 size, enum lb_outcome outcome,
			 const struct lb_packet *packet)
{
	struct lb_packet seen;
	enum lb_outcome with = parse_bytes(bytes, linear, size, &seen);

	require(with == LB_OUTCOME_malformed || (with == outcome && same(&seen, packet)),
		"a part of the packet gives the same or nothing");
}

/* Bytes of a frame after its IP packet do not affect the result. */
static void check_padding(const __u8 *bytes, __u32 size, const struct lb_packet *packet)
{
	__u32 end = packet->network + packet->length;
	struct lb_packet seen;

	/* Without it the outer packet would be cut. */
	if (end >= size || packet->encapsulated == LB_YES)
		return;
	require(parse_bytes(bytes, end, end, &seen) == LB_OUTCOME_NONE && same(&seen, packet),
		"padding changes nothing");
}

/* The one's complement sum of words (RFC 1071): the reference for checksums updated from differences. */
static __u32 sum(const __u8 *bytes, __u32 size)
{
	__u32 total = 0;

	for (__u32 i = 0; i + 1 < size; i += 2)
		total += (__u32)(bytes[i] << 8 | bytes[i + 1]);
	while (total >> 16)
		total = (total & 0xffff) + (total >> 16);
	return total == 0xffff ? 0 : total; /* zero has two forms */
}

/*
 * CRC32c bit by bit (RFC 9260, appendix A) of an SCTP packet, combined with its checksum field: 0 if the checksum is correct, and if the field
 * is 0, because then the checksum is still to be computed and the field must stay 0 until then.
 */
static __u32 sctp_difference(const __u8 *bytes, __u32 size)
{
	__u32 remainder = ~0u, there;

	memcpy(&there, bytes + 8, sizeof(there));
	if (!there)
		return 0;
	for (__u32 i = 0; i < size; i++) {
		remainder ^= i >= 8 && i < 12 ? 0 : bytes[i];
		for (int bit = 0; bit < 8; bit++)
			remainder = remainder >> 1 ^ (LB_CRC32C & -(remainder & 1));
	}
	return ~remainder ^ there;
}

/* What a rewrite preserves: the sum of each checksum's written coverage; for SCTP, the checksum's error. */
struct sums {
	__u32 network;
	__u32 transport;
};

/* The offset of the checksum that covers ports and addresses; 0: there is none. */
static __u32 check_place(const struct lb_packet *packet)
{
	return packet->part == LB_LATER_FRAGMENT || packet->tuple.protocol == LB_SCTP
		       ? 0
		       : lb_check_offset(packet);
}

/* Whether the packet has a checksum; UDP may omit it. */
static int has_check(const struct frame *frame, const struct lb_packet *packet)
{
	const __u8 *check = frame->data + check_place(packet);

	return check_place(packet) && (packet->tuple.protocol == LB_TCP || check[0] || check[1]);
}

static struct sums sums_of(const struct frame *frame, const struct lb_packet *packet)
{
	int v4 = packet->tuple.family == LB_IPV4;
	const __u8 *network = frame->data + packet->network, *transport = frame->data + packet->transport;
	struct sums sums = {};
	__u8 covered[2 * 16 + 4 + 2] = {};

	if (v4)
		sums.network = sum(network, sizeof(struct iphdr));
	if (packet->part == LB_WHOLE && packet->tuple.protocol == LB_SCTP)
		sums.transport = sctp_difference(transport, lb_transport_room(packet));
	if (!has_check(frame, packet))
		return sums;
	memcpy(covered, network + (v4 ? 12 : 8), v4 ? 8 : 32);
	memcpy(covered + 32, transport, 4);
	memcpy(covered + 36, frame->data + check_place(packet), 2);
	sums.transport = sum(covered, sizeof(covered));
	return sums;
}

static void write_tuple(struct frame *frame, const struct lb_packet *packet, const struct lb_tuple *to)
{
	void *end = frame->data + frame->size;
	struct lb_change change = lb_change_of(&packet->tuple, to);

	require(!lb_write_headers(frame->data, end, packet, to, change.addresses, LB_KEEP_HOPS),
		"what was parsed can be written");
	if (packet->part == LB_LATER_FRAGMENT)
		return;
	if (packet->tuple.protocol == LB_SCTP)
		require(!lb_write_sctp(frame->data, end, packet, to), "SCTP's checksum can be written");
	else
		require(!lb_write_check(frame->data, end, packet, change), "the checksum can be written");
}

/* Another tuple with the same family and protocol. */
static struct lb_tuple another(const struct lb_packet *packet)
{
	struct lb_tuple to = packet->tuple;

	to.source.words[3] ^= 0x12345678;
	to.destination.bytes[13] += 77;
	if (packet->part != LB_LATER_FRAGMENT) {
		to.source_port = (__u16)(to.source_port + 12345);
		to.destination_port ^= 0xbeef;
	}
	return to;
}

/* A frame that is rewritten and rewritten back is unchanged, except for the form of zero in its checksums. */
static void check_equal(const struct frame *frame, const __u8 *bytes, const struct lb_packet *packet)
{
	__u32 checks[2] = {packet->tuple.family == LB_IPV4 ? packet->network + 10u : 0, check_place(packet)};

	for (__u32 i = 0; i < frame->size; i++) {
		int zero = 0;

		for (int j = 0; j < 2; j++)
			zero |= checks[j] && (i | 1) == (checks[j] | 1) && !sum(bytes + checks[j], 2);
		require(zero || frame->data[i] == bytes[i], "a rewrite that is taken back leaves no trace");
	}
}

static void check_rewrite(const __u8 *bytes, __u32 size, const struct lb_packet *packet)
{
	struct frame frame = frame_of(bytes, size);
	struct sums before = sums_of(&frame, packet), after;
	struct lb_tuple to = another(packet);
	struct lb_packet seen;

	write_tuple(&frame, packet, &to);
	require(parse(&frame, size, &seen) == LB_OUTCOME_NONE && !memcmp(&seen.tuple, &to, sizeof(to)),
		"a rewritten packet has the tuple that was written");
	after = sums_of(&frame, packet);
	require(before.network == after.network && before.transport == after.transport,
		"checksums follow what is written");
	write_tuple(&frame, &seen, &packet->tuple);
	check_equal(&frame, bytes, packet);
	free(frame.memory);
}

static void check_packet(const __u8 *bytes, __u32 size, const struct lb_packet *packet)
{
	check_places(packet, bytes, size);
	check_padding(bytes, size, packet);
	if (packet->part != LB_LATER_FRAGMENT)
		check_ports(packet, bytes);
	if (packet->inner_network)
		return;
	if (packet->tuple.protocol == LB_UDP && packet->part != LB_LATER_FRAGMENT)
		check_udp(packet, bytes);
	check_rewrite(bytes, size, packet);
}

int LLVMFuzzerTestOneInput(const __u8 *data, size_t size);

int LLVMFuzzerTestOneInput(const __u8 *data, size_t size)
{
	enum lb_outcome outcome;
	struct lb_packet packet;
	__u32 length, linear;

	if (size < 1 || size > MOST)
		return 0;
	length = (__u32)size - 1;
	linear = length * data[0] / 255;
	outcome = parse_bytes(data + 1, length, length, &packet);
	check_outcome(outcome);
	check_linear(data + 1, linear, length, outcome, &packet);
	if (outcome == LB_OUTCOME_NONE)
		check_packet(data + 1, length, &packet);
	return 0;
}
