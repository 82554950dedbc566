/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ICMP answers of our own: port unreachable, and the size that a way out allows. Sent back where the packet came from. */
#ifndef SLUICE_BPF_REJECT_H
#define SLUICE_BPF_REJECT_H

#include "skb.h"

#define LB_ANSWERS_PER_SECOND 1000 /* on each CPU; the kernel's own limit is as high */
#define LB_ANSWER_HOPS 64
#define LB_PACKET_OTHER_HOST 3 /* as a bridge's port sees what is for the bridge's own address */
#define LB_PACKET_HOST 0

struct lb_answer4 {
	struct iphdr ip;
	struct lb_icmp4 icmp;
};

struct lb_answer6 {
	struct ipv6hdr ip;
	struct icmp6hdr icmp;
};

/* RFC 1122, RFC 4443: no answer to what was not sent to us alone, nor to a sender that is no single host. */
static __always_inline int lb_answerable(const struct __sk_buff *skb, const struct lb_tuple *tuple,
					 __u32 hook)
{
	const union lb_ip *source = &tuple->source;

	if (skb->pkt_type != LB_PACKET_HOST &&
	    (hook != LB_HOOK_POD_INGRESS || skb->pkt_type != LB_PACKET_OTHER_HOST))
		return 0;
	if (tuple->family == LB_IPV6)
		return source->bytes[0] != 0xff && (source->longs[0] || source->longs[1]);
	return source->words[3] && source->bytes[12] < 224;
}

static __always_inline int lb_answer_allowed(struct lb_work *work)
{
	__u32 now = lb_clock();

	if (work->answer_second != now) {
		work->answer_second = now;
		work->answers = 0;
	}
	return work->answers++ < LB_ANSWERS_PER_SECOND;
}

/* Bytes to quote: the headers that lead to the ports, and of TCP the whole fixed header. A multiple of 4. */
static __always_inline __u32 lb_quote_size(const struct lb_packet *packet)
{
	return packet->transport - packet->network + (packet->tuple.protocol == LB_TCP ? 20 : 8);
}

static __always_inline void lb_fill4(struct lb_work *work, struct lb_answer4 *answer, __u32 size)
{
	int too_big = work->mtu != 0;
	__s64 sum;

	__builtin_memset(answer, 0, sizeof(*answer));
	answer->ip.version = 4;
	answer->ip.ihl = 5;
	answer->ip.tos = 0xc0;
	answer->ip.tot_len = bpf_htons((__u16)(sizeof(*answer) + size));
	answer->ip.ttl = LB_ANSWER_HOPS;
	answer->ip.protocol = IPPROTO_ICMP;
	answer->ip.saddr = work->packet.tuple.destination.words[3];
	answer->ip.daddr = work->packet.tuple.source.words[3];
	answer->ip.check =
		(__u16)~lb_fold16(bpf_csum_diff(NULL, 0, (__be32 *)&answer->ip, sizeof(answer->ip), 0));
	answer->icmp.type = LB_ICMP4_UNREACHABLE;
	answer->icmp.code = too_big ? LB_ICMP4_TOO_BIG : LB_ICMP4_PORT;
	answer->icmp.mtu = bpf_htons((__u16)work->mtu);
	sum = bpf_csum_diff(NULL, 0, (__be32 *)&answer->icmp, sizeof(answer->icmp), 0);
	sum = bpf_csum_diff(NULL, 0, (__be32 *)work->quote, size, (__u32)sum);
	answer->icmp.checksum = (__u16)~lb_fold16((__u32)sum);
}

static __always_inline void lb_fill6(struct lb_work *work, struct lb_answer6 *answer, __u32 size)
{
	int too_big = work->mtu != 0;
	__u32 length = sizeof(answer->icmp) + size;
	__s64 sum;

	__builtin_memset(answer, 0, sizeof(*answer));
	answer->ip.version = 6;
	answer->ip.payload_len = bpf_htons((__u16)length);
	answer->ip.nexthdr = IPPROTO_ICMPV6;
	answer->ip.hop_limit = LB_ANSWER_HOPS;
	__builtin_memcpy(&answer->ip.saddr, &work->packet.tuple.destination, 16);
	__builtin_memcpy(&answer->ip.daddr, &work->packet.tuple.source, 16);
	answer->icmp.icmp6_type = too_big ? ICMPV6_PKT_TOOBIG : ICMPV6_DEST_UNREACH;
	answer->icmp.icmp6_code = too_big ? 0 : ICMPV6_PORT_UNREACH;
	answer->icmp.icmp6_mtu = bpf_htonl(work->mtu);
	sum = bpf_csum_diff(NULL, 0, (__be32 *)&answer->ip.saddr, 32, bpf_htonl(length + IPPROTO_ICMPV6));
	sum = bpf_csum_diff(NULL, 0, (__be32 *)&answer->icmp, sizeof(answer->icmp), (__u32)sum);
	sum = bpf_csum_diff(NULL, 0, (__be32 *)work->quote, size, (__u32)sum);
	answer->icmp.icmp6_cksum = (__u16)~lb_fold16((__u32)sum);
}

/* Keeps the quoted start of the packet, makes room before it, and turns the Ethernet header around. */
static __always_inline int lb_make_room(struct __sk_buff *skb, struct lb_work *work, __u32 size, __u32 room)
{
	__u8 addresses[2 * ETH_ALEN];

	if (bpf_skb_load_bytes(skb, work->packet.network, work->quote, size) ||
	    bpf_skb_load_bytes(skb, 0, addresses + ETH_ALEN, ETH_ALEN) ||
	    bpf_skb_load_bytes(skb, ETH_ALEN, addresses, ETH_ALEN))
		return -1;
	if (bpf_skb_change_tail(skb, work->packet.network + size, 0) ||
	    bpf_skb_adjust_room(skb, (__s32)room, BPF_ADJ_ROOM_MAC, 0))
		return -1;
	return bpf_skb_store_bytes(skb, 0, addresses, sizeof(addresses), 0);
}

/* Turns the packet into the answer and sends it back by the device it came by; drops it where it must not. */
LB_FUNCTION int lb_answer(struct __sk_buff *skb, struct lb_work *work)
{
	union {
		struct lb_answer4 v4;
		struct lb_answer6 v6;
	} answer;
	__u32 size;
	int ipv4, failed;

	if (!work)
		return 0;
	size = lb_quote_size(&work->packet);
	ipv4 = work->packet.tuple.family == LB_IPV4;
	if (size < 28 || size > LB_QUOTE || work->packet.part == LB_LATER_FRAGMENT ||
	    !lb_answerable(skb, &work->packet.tuple, work->hook)) {
		lb_count(LB_OUTCOME_answer_refused);
		return 0;
	}
	if (!lb_answer_allowed(work)) {
		lb_count(LB_OUTCOME_answer_limited);
		return 0;
	}
	if (lb_make_room(skb, work, size, ipv4 ? sizeof(answer.v4) : sizeof(answer.v6)))
		return 0;
	if (ipv4) {
		lb_fill4(work, &answer.v4, size);
		failed = bpf_skb_store_bytes(skb, ETH_HLEN, &answer.v4, sizeof(answer.v4),
					     BPF_F_RECOMPUTE_CSUM);
	} else {
		lb_fill6(work, &answer.v6, size);
		failed = bpf_skb_store_bytes(skb, ETH_HLEN, &answer.v6, sizeof(answer.v6),
					     BPF_F_RECOMPUTE_CSUM);
	}
	return !failed;
}

#endif
