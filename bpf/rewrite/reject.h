/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Generated replies: ICMP port unreachable, fragmentation needed (packet too big), time exceeded, and TCP reset. Sent back where
 * the packet came from.
 */
#ifndef SLUICE_BPF_REJECT_H
#define SLUICE_BPF_REJECT_H

#include <linux/bpf.h>
#include <linux/icmpv6.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>

#include <bpf/bpf_endian.h>

#include "bpf/flow/scratch.h"
#include "bpf/packet/headers.h"
#include "bpf/packet/icmp_inner.h"
#include "bpf/packet/length.h"
#include "bpf/packet/packet.h"
#include "bpf/packet/stats.h"
#include "bpf/rewrite/rewrite.h"
#include "bpf/rewrite/skb.h"
#include "bpf/select/service.h"

#define LB_ANSWERS_PER_SECOND 1000 /* for each kind and CPU; like the kernel's own limit */
#define LB_ANSWER_HOPS 64
#define LB_LEAST_QUOTE 28      /* an IPv4 header and eight bytes */
#define LB_PACKET_OTHER_HOST 3 /* a bridge port sees frames for the bridge's own address so */

struct lb_answer4 {
	struct iphdr ip;
	struct lb_icmp4 icmp;
};

struct lb_reset4 {
	struct iphdr ip;
	struct tcphdr tcp;
};

struct lb_reset6 {
	struct ipv6hdr ip;
	struct tcphdr tcp;
};

struct lb_answer6 {
	struct ipv6hdr ip;
	struct icmp6hdr icmp;
};

/* RFC 1122, RFC 4443: no answer to packets not sent only to us, nor to a sender that is not a single host. */
static __always_inline int lb_answerable(const struct __sk_buff *skb, const struct lb_tuple *tuple,
					 __u32 hook)
{
	if (skb->pkt_type != LB_PACKET_HOST &&
	    (hook != LB_HOOK_POD_INGRESS || skb->pkt_type != LB_PACKET_OTHER_HOST))
		return 0;
	return !lb_is_no_host(tuple->family, &tuple->source);
}

/*
 * Each kind has its own budget, so that a flood of one does not block the others. Path MTU has no limit, as
 * in the kernel's own icmp_global_allow(): without that answer a client's large packets are lost for good,
 * and a flood of large packets would exhaust any budget. It is useless for reflection: one answer for each
 * packet, to its sender, and much smaller than the packet.
 */
static __always_inline int lb_answer_allowed(struct lb_scratch *scratch, enum lb_answer what)
{
	__u32 now = lb_clock();

	if (what >= LB_LIMITED_ANSWERS)
		return 1;
	if (scratch->answer_second != now) {
		scratch->answer_second = now;
		__builtin_memset(scratch->answers, 0, sizeof(scratch->answers));
	}
	return scratch->answers[what]++ < LB_ANSWERS_PER_SECOND;
}

static __always_inline enum lb_answer lb_answer_of(enum lb_outcome outcome)
{
	switch (outcome) {
	case LB_OUTCOME_hop_limit:
		return LB_ANSWER_TIME;
	case LB_OUTCOME_too_big:
	case LB_OUTCOME_not_fragmented:
		return LB_ANSWER_TOO_BIG;
	default:
		return LB_ANSWER_PORT;
	}
}

/*
 * The answer's source: the service for its ports and routes; this node, like any router, for packets that
 * expired.
 */
static __always_inline const union lb_ip *lb_answers_as(const struct lb_tuple *tuple, enum lb_answer what)
{
	const union lb_ip *node = (const union lb_ip *)lb_node_source(tuple->family == LB_IPV4);

	return what == LB_ANSWER_TIME && node && !lb_is_no_host(tuple->family, node) ? node
										     : &tuple->destination;
}

/*
 * Number of bytes to quote: the headers up to the ports, and for TCP the whole fixed header. A multiple of 4.
 */
static __always_inline __u32 lb_quote_size(const struct lb_packet *packet)
{
	return packet->transport - packet->network + (packet->tuple.protocol == LB_TCP ? 20 : 8);
}

static __always_inline void lb_icmp4(struct lb_icmp4 *icmp, enum lb_answer what, __u32 mtu)
{
	icmp->type = what == LB_ANSWER_TIME ? LB_ICMP4_TIME : LB_ICMP4_UNREACHABLE;
	icmp->code = what == LB_ANSWER_TOO_BIG ? LB_ICMP4_TOO_BIG
		     : what == LB_ANSWER_PORT  ? LB_ICMP4_PORT
					       : 0;
	icmp->mtu = what == LB_ANSWER_TOO_BIG ? bpf_htons((__u16)mtu) : 0;
}

static __always_inline void lb_icmp6(struct icmp6hdr *icmp, enum lb_answer what, __u32 mtu)
{
	icmp->icmp6_type = what == LB_ANSWER_TIME      ? ICMPV6_TIME_EXCEED
			   : what == LB_ANSWER_TOO_BIG ? ICMPV6_PKT_TOOBIG
						       : ICMPV6_DEST_UNREACH;
	icmp->icmp6_code = what == LB_ANSWER_PORT ? ICMPV6_PORT_UNREACH : 0;
	icmp->icmp6_mtu = what == LB_ANSWER_TOO_BIG ? bpf_htonl(mtu) : 0;
}

/* `quoted`: the sum over the quote. */
static __always_inline void lb_fill4(struct lb_scratch *scratch, struct lb_answer4 *answer, __u32 size,
				     __u32 quoted, enum lb_answer what)
{
	__s64 sum;

	__builtin_memset(answer, 0, sizeof(*answer));
	answer->ip.version = 4;
	answer->ip.ihl = 5;
	answer->ip.tos = 0xc0;
	answer->ip.tot_len = bpf_htons((__u16)(sizeof(*answer) + size));
	answer->ip.ttl = LB_ANSWER_HOPS;
	answer->ip.protocol = IPPROTO_ICMP;
	answer->ip.saddr = lb_answers_as(&scratch->packet.tuple, what)->words[3];
	answer->ip.daddr = scratch->packet.tuple.source.words[3];
	answer->ip.check =
		(__u16)~lb_fold16(bpf_csum_diff(NULL, 0, (__be32 *)&answer->ip, sizeof(answer->ip), 0));
	lb_icmp4(&answer->icmp, what, scratch->mtu);
	sum = bpf_csum_diff(NULL, 0, (__be32 *)&answer->icmp, sizeof(answer->icmp), quoted);
	answer->icmp.checksum = (__u16)~lb_fold16((__u32)sum);
}

static __always_inline void lb_fill6(struct lb_scratch *scratch, struct lb_answer6 *answer, __u32 size,
				     __u32 quoted, enum lb_answer what)
{
	__u32 length = sizeof(answer->icmp) + size;
	__s64 sum;

	__builtin_memset(answer, 0, sizeof(*answer));
	answer->ip.version = 6;
	answer->ip.payload_len = bpf_htons((__u16)length);
	answer->ip.nexthdr = IPPROTO_ICMPV6;
	answer->ip.hop_limit = LB_ANSWER_HOPS;
	__builtin_memcpy(&answer->ip.saddr, lb_answers_as(&scratch->packet.tuple, what), 16);
	__builtin_memcpy(&answer->ip.daddr, &scratch->packet.tuple.source, 16);
	lb_icmp6(&answer->icmp, what, scratch->mtu);
	sum = bpf_csum_diff(NULL, 0, (__be32 *)&answer->ip.saddr, 32, bpf_htonl(length + IPPROTO_ICMPV6));
	sum = bpf_csum_diff(NULL, 0, (__be32 *)&answer->icmp, sizeof(answer->icmp), (__u32)sum);
	answer->icmp.icmp6_cksum = (__u16)~lb_fold16((__u64)(__u32)sum + quoted);
}

/* Copies the start of the packet that the answer quotes. */
static __always_inline int lb_quote(struct __sk_buff *skb, struct lb_scratch *scratch, __u32 size)
{
	return lb_load_bytes(skb, scratch->packet.network, scratch->quote,
			     lb_bounded(size, LB_LEAST_QUOTE, LB_QUOTE));
}

static __always_inline __u32 lb_quote_sum(const struct lb_scratch *scratch, __u32 size)
{
	return (__u32)lb_csum_diff(NULL, 0, (const __be32 *)scratch->quote,
				   lb_bounded(size, LB_LEAST_QUOTE, LB_QUOTE), 0);
}

/* Keeps the quoted start of the packet, makes room before it, and reverses the Ethernet header. */
static __always_inline int lb_make_room(struct __sk_buff *skb, struct lb_scratch *scratch, __u32 size,
					__u32 room)
{
	__u8 addresses[2 * ETH_ALEN];

	if (lb_quote(skb, scratch, size) || bpf_skb_load_bytes(skb, 0, addresses + ETH_ALEN, ETH_ALEN) ||
	    bpf_skb_load_bytes(skb, ETH_ALEN, addresses, ETH_ALEN))
		return -1;
	if (bpf_skb_change_tail(skb, scratch->packet.network + size, 0) ||
	    bpf_skb_adjust_room(skb, (__s32)room, BPF_ADJ_ROOM_MAC, 0))
		return -1;
	return bpf_skb_store_bytes(skb, 0, addresses, sizeof(addresses), 0);
}

/* ---- Resets. ---- */

/*
 * Whether to answer by a reset: an established TCP connection ignores ICMP errors, and so may a pod's
 * sandbox. A new connection from outside gets kube-proxy's answer.
 */
static __always_inline int lb_wants_reset(const struct lb_scratch *scratch)
{
	return scratch->packet.tuple.protocol == LB_TCP &&
	       (scratch->hook == LB_HOOK_POD_INGRESS || scratch->packet.step != LB_STEP_SYN);
}

/* The sum over the pseudo header; IPv4's mapped prefixes add nothing to it. */
static __always_inline __u64 lb_pseudo_sum(const struct lb_tuple *tuple, __u32 length)
{
	__u64 sum = (__u64)bpf_htons(IPPROTO_TCP) + bpf_htonl(length);

	for (int i = 0; i < 4; i++)
		sum += (__u64)tuple->source.words[i] + tuple->destination.words[i];
	return sum;
}

/*
 * Whether the checksum is still to be finished, by hardware or by the receiver's kernel: then it covers only
 * the pseudo header.
 */
static __always_inline int lb_sum_unfinished(struct __sk_buff *skb, const struct lb_packet *packet)
{
	__u16 check;

	if (bpf_skb_load_bytes(skb, lb_check_offset(packet), &check, sizeof(check)))
		return 0;
	return check == lb_fold16(lb_pseudo_sum(&packet->tuple, lb_transport_room(packet)));
}

/* RFC 9293, 3.10.7.1: uses the number that the sender acknowledged, or acknowledges all that it sent. */
static __always_inline void lb_fill_reset(const struct lb_packet *packet, struct tcphdr *tcp, int unfinished)
{
	const __u16 *words = (const __u16 *)tcp;
	__u64 sum = lb_pseudo_sum(&packet->tuple, sizeof(*tcp));

	__builtin_memset(tcp, 0, sizeof(*tcp));
	tcp->source = bpf_htons(packet->tuple.destination_port);
	tcp->dest = bpf_htons(packet->tuple.source_port);
	tcp->doff = sizeof(*tcp) / 4;
	tcp->rst = 1;
	if (packet->step == LB_STEP_SYN) {
		tcp->ack = 1;
		tcp->ack_seq = bpf_htonl(packet->end_seq);
	} else {
		tcp->seq = bpf_htonl(packet->ack);
	}
	for (__u32 i = 0; i < sizeof(*tcp) / 2; i++)
		sum += unfinished ? 0 : words[i];
	tcp->check = unfinished ? lb_fold16(sum) : (__u16)~lb_fold16(sum);
}

/* Makes room for the content after the Ethernet header, and reverses that header. */
static __always_inline int lb_turn_ethernet(struct __sk_buff *skb, __u32 size)
{
	__u8 addresses[2 * ETH_ALEN];

	if (bpf_skb_load_bytes(skb, 0, addresses + ETH_ALEN, ETH_ALEN) ||
	    bpf_skb_load_bytes(skb, ETH_ALEN, addresses, ETH_ALEN) ||
	    bpf_skb_change_tail(skb, ETH_HLEN + size, 0))
		return -1;
	return bpf_skb_store_bytes(skb, 0, addresses, sizeof(addresses), 0);
}

static __always_inline int lb_reset4(struct __sk_buff *skb, const struct lb_packet *packet, int unfinished)
{
	struct lb_reset4 reset = {};

	reset.ip.version = 4;
	reset.ip.ihl = 5;
	reset.ip.frag_off = bpf_htons(LB_IP_DONT);
	reset.ip.tot_len = bpf_htons(sizeof(reset));
	reset.ip.ttl = LB_ANSWER_HOPS;
	reset.ip.protocol = IPPROTO_TCP;
	reset.ip.saddr = packet->tuple.destination.words[3];
	reset.ip.daddr = packet->tuple.source.words[3];
	reset.ip.check = (__u16)~lb_fold16(bpf_csum_diff(NULL, 0, (__be32 *)&reset.ip, sizeof(reset.ip), 0));
	lb_fill_reset(packet, &reset.tcp, unfinished);
	return lb_turn_ethernet(skb, sizeof(reset)) ||
	       bpf_skb_store_bytes(skb, ETH_HLEN, &reset, sizeof(reset), BPF_F_RECOMPUTE_CSUM);
}

static __always_inline int lb_reset6(struct __sk_buff *skb, const struct lb_packet *packet, int unfinished)
{
	struct lb_reset6 reset = {};

	reset.ip.version = 6;
	reset.ip.payload_len = bpf_htons(sizeof(reset.tcp));
	reset.ip.nexthdr = IPPROTO_TCP;
	reset.ip.hop_limit = LB_ANSWER_HOPS;
	__builtin_memcpy(&reset.ip.saddr, &packet->tuple.destination, 16);
	__builtin_memcpy(&reset.ip.daddr, &packet->tuple.source, 16);
	lb_fill_reset(packet, &reset.tcp, unfinished);
	return lb_turn_ethernet(skb, sizeof(reset)) ||
	       bpf_skb_store_bytes(skb, ETH_HLEN, &reset, sizeof(reset), BPF_F_RECOMPUTE_CSUM);
}

LB_FUNCTION int lb_reset(struct __sk_buff *skb)
{
	const struct lb_scratch *scratch = lb_scratch_get();
	int unfinished, failed;

	if (!scratch)
		return 0;
	unfinished = lb_sum_unfinished(skb, &scratch->packet);
	failed = scratch->packet.tuple.family == LB_IPV4 ? lb_reset4(skb, &scratch->packet, unfinished)
							 : lb_reset6(skb, &scratch->packet, unfinished);
	if (!failed)
		lb_count(LB_OUTCOME_answered_reset);
	return !failed;
}

/* ---- All answers. ---- */

/*
 * Turns the packet into the answer and sends it back by the receiving device; drops it if no answer is
 * permitted. An ICMP error gets none.
 */
LB_FUNCTION int lb_answer(struct __sk_buff *skb, enum lb_answer what)
{
	struct lb_scratch *scratch = lb_scratch_get();
	union {
		struct lb_answer4 v4;
		struct lb_answer6 v6;
	} answer;
	__u32 size;
	int ipv4, failed;

	if (!scratch)
		return 0;
	size = lb_quote_size(&scratch->packet);
	ipv4 = scratch->packet.tuple.family == LB_IPV4;
	if (size < LB_LEAST_QUOTE || size > LB_QUOTE || scratch->packet.part == LB_LATER_FRAGMENT ||
	    scratch->packet.inner_network || !lb_answerable(skb, &scratch->packet.tuple, scratch->hook)) {
		lb_count(LB_OUTCOME_answer_refused);
		return 0;
	}
	if (what == LB_ANSWER_PORT && lb_wants_reset(scratch))
		what = LB_ANSWER_RESET;
	if (!lb_answer_allowed(scratch, what)) {
		lb_count(LB_OUTCOME_answer_limited);
		return 0;
	}
	if (what == LB_ANSWER_RESET)
		return lb_reset(skb);
	if (lb_make_room(skb, scratch, size, ipv4 ? sizeof(answer.v4) : sizeof(answer.v6)))
		return 0;
	if (ipv4) {
		lb_fill4(scratch, &answer.v4, size, lb_quote_sum(scratch, size), what);
		failed = bpf_skb_store_bytes(skb, ETH_HLEN, &answer.v4, sizeof(answer.v4),
					     BPF_F_RECOMPUTE_CSUM);
	} else {
		lb_fill6(scratch, &answer.v6, size, lb_quote_sum(scratch, size), what);
		failed = bpf_skb_store_bytes(skb, ETH_HLEN, &answer.v6, sizeof(answer.v6),
					     BPF_F_RECOMPUTE_CSUM);
	}
	return !failed;
}

#endif
