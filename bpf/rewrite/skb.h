/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Functions only for tc: linear headers, checksums by the kernel's helpers, GSO sizes. */
#ifndef SLUICE_BPF_SKB_H
#define SLUICE_BPF_SKB_H

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

#include "bpf/flow/scratch.h"
#include "bpf/packet/cursor.h"
#include "bpf/packet/encapsulated.h"
#include "bpf/packet/kernel.h"
#include "bpf/packet/packet.h"
#include "bpf/packet/parse.h"
#include "bpf/packet/stats.h"
#include "bpf/rewrite/rewrite.h"

/* Bytes made linear before a second parse: the longest supported chain of headers, and TCP's. */
#define LB_HEADERS 256
/* skb->gso_size of segments that are separate skbs: the kernel's GSO_BY_FRAGS. */
#define LB_GSO_BY_FRAGS 0xffff
/* Below this size no device's MTU can be too small, and its check is skipped. */
#define LB_SMALL 576

LB_FUNCTION enum lb_outcome lb_skb_network(struct __sk_buff *skb, struct lb_packet *packet)
{
	struct lb_cursor cursor = lb_cursor_at((void *)(long)skb->data, (void *)(long)skb->data_end, 0);

	return packet ? lb_parse_network(&cursor, packet, skb->len) : LB_OUTCOME_malformed;
}

/*
 * Whether the skb is several packets that the kernel's SCTP passes down as one: only the common header is
 * linear, and the chunks of each packet, including data, are an skb of the fragment list. Pulling them into
 * the linear part would break the packets, and the receiver would abort the association.
 */
static __always_inline int lb_is_sctp_gso(const struct __sk_buff *skb, const struct lb_packet *packet)
{
	__u32 linear = skb->data_end - skb->data;

	return skb->gso_size == LB_GSO_BY_FRAGS && packet->tuple.protocol == LB_SCTP &&
	       linear >= packet->transport + sizeof(struct lb_sctp);
}

LB_FUNCTION enum lb_outcome lb_skb_transport(struct __sk_buff *skb, struct lb_packet *packet)
{
	struct lb_cursor cursor;
	enum lb_outcome outcome;

	if (!packet)
		return LB_OUTCOME_malformed;
	cursor = lb_cursor_at((void *)(long)skb->data, (void *)(long)skb->data_end,
			      packet->transport & LB_MAX_OFFSET);
	outcome = lb_parse_transport(&cursor, packet);
	return outcome == LB_OUTCOME_malformed && lb_is_sctp_gso(skb, packet) ? LB_OUTCOME_NONE : outcome;
}

#define LB_PACKET_HOST 0 /* skb->pkt_type: for this host only */
#define LB_VLAN_ID 0x0fff

/*
 * Whether the frame is tagged for a VLAN. The kernel has removed the tag, and the frame belongs to the VLAN's
 * device, whose programs see it next. A tag of VLAN 0 only sets a priority (IEEE 802.1Q, 9.6): the frame
 * belongs to the device itself.
 */
static __always_inline int lb_is_tagged(const struct __sk_buff *skb)
{
	return skb->vlan_present && (skb->vlan_tci & LB_VLAN_ID);
}

/* Frames that we send out have no priority tag, like those that the kernel forwards. */
static __always_inline void lb_untag(struct __sk_buff *skb)
{
	if (skb->vlan_present)
		bpf_skb_vlan_pop(skb);
}

static __always_inline enum lb_outcome lb_skb_read(struct __sk_buff *skb, struct lb_packet *packet)
{
	enum lb_outcome outcome = lb_skb_network(skb, packet);

	return outcome == LB_OUTCOME_NONE ? lb_skb_transport(skb, packet) : outcome;
}

/* Headers may be outside the linear part; then they are pulled in and parsed again. */
static __always_inline enum lb_outcome lb_skb_parse(struct __sk_buff *skb, struct lb_packet *packet)
{
	enum lb_outcome outcome = lb_skb_read(skb, packet);
	__u32 linear = skb->data_end - skb->data;

	if (lb_is_tagged(skb))
		return LB_OUTCOME_not_ip;
	if (outcome != LB_OUTCOME_malformed || linear >= skb->len || linear >= LB_HEADERS)
		return outcome;
	if (bpf_skb_pull_data(skb, skb->len < LB_HEADERS ? skb->len : LB_HEADERS))
		return outcome;
	return lb_skb_read(skb, packet);
}

LB_FUNCTION enum lb_outcome lb_skb_outer(struct __sk_buff *skb, struct lb_packet *packet)
{
	struct lb_cursor cursor = lb_cursor_at((void *)(long)skb->data, (void *)(long)skb->data_end, 0);

	return packet ? lb_skip_outer(&cursor, packet, skb->len) : LB_OUTCOME_malformed;
}

LB_FUNCTION enum lb_outcome lb_skb_inner(struct __sk_buff *skb, struct lb_packet *packet)
{
	struct lb_cursor cursor;

	if (!packet)
		return LB_OUTCOME_malformed;
	cursor = lb_cursor_at((void *)(long)skb->data, (void *)(long)skb->data_end,
			      packet->network & LB_MAX_OFFSET);
	return lb_parse_encapsulated(&cursor, packet, skb->len);
}

/*
 * Parses the packet inside a route's encapsulation; if there is none, returns `outcome`, with the packet as
 * parsed before.
 */
static __always_inline enum lb_outcome lb_skb_parse_within(struct __sk_buff *skb, struct lb_packet *packet,
							   enum lb_outcome outcome)
{
	if ((outcome != LB_OUTCOME_not_ip && outcome != LB_OUTCOME_other_protocol) || lb_is_tagged(skb))
		return outcome;
	if (skb->data_end - skb->data < LB_HEADERS)
		bpf_skb_pull_data(skb, skb->len < LB_HEADERS ? skb->len : LB_HEADERS);
	if (lb_skb_outer(skb, packet) == LB_OUTCOME_NONE && lb_skb_inner(skb, packet) == LB_OUTCOME_NONE &&
	    lb_skb_transport(skb, packet) == LB_OUTCOME_NONE)
		return LB_OUTCOME_NONE;
	lb_skb_read(skb, packet);
	return outcome;
}

/*
 * Updates a checksum that hardware computed over the packet (CHECKSUM_COMPLETE) after our own writes, unless
 * a checksum within the packet compensates for them. No-op without such a checksum.
 */
static __always_inline void lb_skb_sum(struct __sk_buff *skb, __u64 difference)
{
	if (difference)
		bpf_csum_update(skb, lb_fold32(difference));
}

/* No checksum covers a hop limit; one covers a TTL. */
static __always_inline __u64 lb_hop_difference(enum lb_family family, __u32 hops)
{
	return family == LB_IPV6 && hops == LB_COUNT_HOP ? (__u16)~bpf_htons(1) : 0;
}

/* The kernel's helpers handle partial checksums and hardware checksums; we see neither. */
static __always_inline int lb_skb_checksum(struct __sk_buff *skb, enum lb_family family, __u32 offset,
					   __u64 flags, struct lb_change change)
{
	__u64 pseudo = flags | BPF_F_PSEUDO_HDR;

	if (family == LB_IPV6 && lb_config.csum_ipv6)
		pseudo |= LB_F_IPV6;
	if (change.addresses && bpf_l4_csum_replace(skb, offset, 0, change.addresses, pseudo))
		return -1;
	/*
	 * Without that flag the helper assumes IPv4 addresses, for which the IP header's checksum
	 * compensates.
	 */
	if (family == LB_IPV6 && !lb_config.csum_ipv6)
		lb_skb_sum(skb, change.addresses);
	return change.ports ? bpf_l4_csum_replace(skb, offset, 0, change.ports, flags) : 0;
}

/* Whether an Internet checksum covers the ports and addresses. UDP may have none. */
static __always_inline int lb_skb_summed(const struct __sk_buff *skb, const struct lb_packet *packet)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u16 *check = data + (lb_check_offset(packet) & LB_MAX_OFFSET);

	if (packet->part == LB_LATER_FRAGMENT || packet->tuple.protocol == LB_SCTP)
		return 0;
	return packet->tuple.protocol == LB_TCP || ((void *)(check + 1) <= end && *check);
}

/*
 * For packets without one: updates SCTP's own checksum; returns the difference for the whole packet, or -1.
 */
static __always_inline __s64 lb_skb_unsummed(struct __sk_buff *skb, const struct lb_packet *packet,
					     const struct lb_tuple *to, struct lb_change change)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct lb_sctp *sctp = data + (packet->transport & LB_MAX_OFFSET);
	__u64 difference = to->family == LB_IPV6 ? change.addresses : 0;

	if (packet->part == LB_LATER_FRAGMENT)
		return difference;
	difference += change.ports;
	if (packet->tuple.protocol != LB_SCTP)
		return difference;
	if ((void *)(sctp + 1) > end)
		return -1;
	difference += (__u32)~sctp->checksum;
	if (lb_write_sctp(data, end, packet, to))
		return -1;
	return difference + sctp->checksum;
}

/* The kernel's own view of a packet (6.2), without a helper call. */
void *bpf_cast_to_kern_ctx(void *ctx) __ksym __weak;

static __always_inline int lb_sees_sums(void)
{
	return lb_config.skb_sums && bpf_ksym_exists(bpf_cast_to_kern_ctx);
}

static __always_inline enum lb_summed lb_summed_of(struct __sk_buff *skb)
{
	struct sk_buff *kernel = bpf_cast_to_kern_ctx(skb);

	return BPF_CORE_READ_BITFIELD(kernel, ip_summed);
}

/*
 * Like the above for a whole TCP or UDP packet with a checksum whose state is visible: without helper calls.
 * A partial checksum covers the addresses only, and is not complemented yet.
 */
static __always_inline int lb_skb_write(struct __sk_buff *skb, const struct lb_packet *packet,
					const struct lb_tuple *to, __u32 hops)
{
	struct lb_change change = lb_change_of(&packet->tuple, to);
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u16 *check = data + (lb_check_offset(packet) & LB_MAX_OFFSET);
	enum lb_summed summed = lb_summed_of(skb);

	if ((void *)(check + 1) > end || lb_write_headers(data, end, packet, to, change.addresses, hops))
		return -1;
	if (summed != LB_SUMMED_PARTLY)
		lb_write_check(data, end, packet, change);
	else
		*check = lb_fold16((__u64)*check + change.addresses);
	if (summed == LB_SUMMED_WHOLE)
		bpf_csum_update(skb,
				to->family == LB_IPV4 ? ~change.addresses : lb_hop_difference(LB_IPV6, hops));
	return 0;
}

LB_FUNCTION int lb_skb_rewrite(struct __sk_buff *skb, __u32 hops)
{
	const struct lb_scratch *scratch = lb_scratch_get();
	const struct lb_packet *packet;
	struct lb_change change;
	__s64 difference;
	__u64 flags;

	if (!scratch)
		return -1;
	packet = &scratch->packet;
	if (lb_sees_sums() && packet->part == LB_WHOLE && lb_skb_summed(skb, packet))
		return lb_skb_write(skb, packet, &scratch->flow.leaving, hops);
	change = lb_change_of(&packet->tuple, &scratch->flow.leaving);
	flags = packet->tuple.protocol == LB_UDP ? BPF_F_MARK_MANGLED_0 : 0;

	if (lb_write_headers((void *)(long)skb->data, (void *)(long)skb->data_end, packet,
			     &scratch->flow.leaving, change.addresses, hops))
		return -1;
	lb_skb_sum(skb, lb_hop_difference(packet->tuple.family, hops));
	if (lb_skb_summed(skb, packet))
		return lb_skb_checksum(skb, packet->tuple.family, lb_check_offset(packet), flags, change);
	difference = lb_skb_unsummed(skb, packet, &scratch->flow.leaving, change);
	if (difference < 0)
		return -1;
	lb_skb_sum(skb, difference);
	return 0;
}

/*
 * Whether the packet, or each segment of it, is too large for the device by which it would leave. Stores that
 * device's MTU.
 */
static __always_inline int lb_exceeds(struct __sk_buff *skb, __u32 device, __u32 *mtu)
{
	return skb->len > LB_SMALL && bpf_check_mtu(skb, device, mtu, 0, BPF_MTU_CHK_SEGS) > 0;
}

static __always_inline int lb_too_big(struct __sk_buff *skb, struct lb_scratch *scratch)
{
	scratch->mtu = 0;
	return lb_exceeds(skb, scratch->flow.track.device, &scratch->mtu);
}

#endif
