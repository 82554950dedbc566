/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Both ends of bench/frames.cpp's packets: a sender that makes frames of many flows, a receiver that replies to packets that open
 * a flow, counts the others and checks their destination, and a program that drops replies to a sender without sockets.
 */
#include <stddef.h>

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "bench/frames.h"

struct frame {
	struct ethhdr ethernet;
	struct iphdr ip;
	union {
		struct {
			struct udphdr header;
			struct lb_frame_load load;
		} udp;
		struct {
			struct tcphdr header;
			struct lb_frame_load load;
		} tcp;
	};
} __attribute__((packed));

/* The frame that is sent, as the first flow's packet; the next flows have the following source addresses. */
__u64 lb_frame[LB_FRAME_BYTES / 8];
__u32 lb_first;
__u32 lb_flows = 1;
static __u32 next_flow;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} received SEC(".maps");

/* Counts packets that are not in `received`: those to no endpoint, or to another one than their flow's first packet. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} misrouted SEC(".maps");

/* By flow, the destination of its first packet; 0 before that. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LB_FRAME_FLOWS);
	__type(key, __u32);
	__type(value, __be32);
} backends SEC(".maps");

/* The endpoints: the first address, the number of addresses, and their port; in host order. */
const volatile __u32 lb_first_endpoint;
const volatile __u32 lb_endpoints;
const volatile __u16 lb_endpoint_port;

/* The one's complement checksum `check` after `from` is replaced by `to`. */
static __always_inline __u16 replaced(__u16 check, __u32 from, __u32 to)
{
	__u64 sum = (__u16)~check + (__u64)(__u32)~from + to;

	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__u16)~sum;
}

/* A recycled page has the content that its last receiver left, so the whole frame is written each time. */
SEC("xdp")
int lb_send(struct xdp_md *xdp)
{
	__u64 *words = (void *)(long)xdp->data;
	struct frame *frame = (void *)words;
	__u32 number = lb_first + next_flow;
	__be32 flow = bpf_htonl(number);
	__be32 source;
	__u16 check;

	if ((void *)(words + LB_FRAME_BYTES / 8) > (void *)(long)xdp->data_end)
		return XDP_ABORTED;
	for (unsigned at = 0; at < LB_FRAME_BYTES / 8; at++)
		words[at] = lb_frame[at];
	next_flow = next_flow + 1 < lb_flows ? next_flow + 1 : 0;
	source = bpf_htonl(bpf_ntohl(frame->ip.saddr) + number);
	frame->ip.check = replaced(frame->ip.check, frame->ip.saddr, source);
	if (frame->ip.protocol == IPPROTO_UDP) {
		check = replaced(frame->udp.header.check, frame->ip.saddr, source);
		frame->udp.header.check = replaced(check, frame->udp.load.flow, flow);
		frame->udp.load.flow = flow;
	} else {
		check = replaced(frame->tcp.header.check, frame->ip.saddr, source);
		frame->tcp.header.check = replaced(check, frame->tcp.load.flow, flow);
		frame->tcp.load.flow = flow;
	}
	frame->ip.saddr = source;
	return XDP_TX;
}

/* Swaps source and destination; checksums do not change. */
static __always_inline void turn(struct frame *frame)
{
	__u8 mac[ETH_ALEN];
	__be32 address = frame->ip.saddr;
	/* Both protocols' headers begin with the ports. */
	__be16 port = frame->udp.header.source;

	__builtin_memcpy(mac, frame->ethernet.h_source, ETH_ALEN);
	__builtin_memcpy(frame->ethernet.h_source, frame->ethernet.h_dest, ETH_ALEN);
	__builtin_memcpy(frame->ethernet.h_dest, mac, ETH_ALEN);
	frame->ip.saddr = frame->ip.daddr;
	frame->ip.daddr = address;
	frame->udp.header.source = frame->udp.header.dest;
	frame->udp.header.dest = port;
}

static __always_inline void count_received(void)
{
	__u32 first = 0;
	__u64 *count = bpf_map_lookup_elem(&received, &first);

	if (count)
		(*count)++;
}

static __always_inline void count_misrouted(void)
{
	__u32 first = 0;
	__u64 *count = bpf_map_lookup_elem(&misrouted, &first);

	if (count)
		__sync_fetch_and_add(count, 1);
}

static __always_inline void answer_syn(struct frame *frame)
{
	__be32 number = bpf_htonl(LB_FRAME_SEQUENCE);
	__be32 acknowledged = bpf_htonl(bpf_ntohl(frame->tcp.header.seq) + 1);
	__u16 check = frame->tcp.header.check;

	check = replaced(check, frame->tcp.header.seq, number);
	check = replaced(check, frame->tcp.header.ack_seq, acknowledged);
	/* Flags are the second byte of their word. */
	frame->tcp.header.check = replaced(check, 0, bpf_htons(0x10));
	frame->tcp.header.seq = number;
	frame->tcp.header.ack_seq = acknowledged;
	frame->tcp.header.ack = 1;
}

static __always_inline struct frame *frame_of(__u32 data, __u32 end)
{
	struct frame *frame = (void *)(long)data;

	if ((void *)(frame + 1) > (void *)(long)end || frame->ethernet.h_proto != bpf_htons(ETH_P_IP) ||
	    frame->ip.ihl != 5)
		return NULL;
	return frame;
}

/* The payload of a packet that may be ours, or NULL. */
static __always_inline const struct lb_frame_load *load_of(const struct frame *frame)
{
	if (frame->ip.protocol == IPPROTO_UDP)
		return &frame->udp.load;
	return frame->ip.protocol == IPPROTO_TCP ? &frame->tcp.load : NULL;
}

/* Whether a packet's destination is correct: an endpoint, and the one of its flow's first packet. */
static __always_inline int arrived_well(const struct frame *frame, const struct lb_frame_load *load)
{
	__u32 flow = bpf_ntohl(load->flow);
	__be32 *backend = bpf_map_lookup_elem(&backends, &flow);

	/* Both protocols' headers begin with the ports. */
	if (!backend || frame->udp.header.dest != bpf_htons(lb_endpoint_port) ||
	    bpf_ntohl(frame->ip.daddr) - lb_first_endpoint >= lb_endpoints)
		return 0;
	if (*backend == 0)
		*backend = frame->ip.daddr;
	return *backend == frame->ip.daddr;
}

SEC("xdp")
int lb_receive(struct xdp_md *xdp)
{
	const struct frame *frame = frame_of(xdp->data, xdp->data_end);
	const struct lb_frame_load *load = frame ? load_of(frame) : NULL;

	if (!load || load->kind != LB_FRAME_DATA)
		return XDP_PASS;
	if (arrived_well(frame, load))
		count_received();
	else
		count_misrouted();
	return XDP_DROP;
}

/* Not XDP_TX, with which a veth lost a packet that had been a live frame and then a socket buffer (6.18). */
SEC("tcx/ingress")
int lb_answer(struct __sk_buff *skb)
{
	const struct lb_frame_load *load;
	struct frame *frame;

	bpf_skb_pull_data(skb, sizeof(*frame));
	frame = frame_of(skb->data, skb->data_end);
	load = frame ? load_of(frame) : NULL;
	if (!load || load->kind != LB_FRAME_OPEN)
		return TCX_NEXT;
	if (!arrived_well(frame, load))
		count_misrouted();
	if (frame->ip.protocol == IPPROTO_TCP)
		answer_syn(frame);
	turn(frame);
	return (int)bpf_redirect(skb->ifindex, 0);
}

/* The sender has no sockets, and a stack without sockets would reset its flows. */
SEC("xdp")
int lb_swallow(struct xdp_md *xdp)
{
	struct frame *frame = frame_of(xdp->data, xdp->data_end);

	if (!frame || (bpf_ntohl(frame->ip.daddr) & LB_FRAME_CLIENTS_MASK) != LB_FRAME_CLIENTS)
		return XDP_PASS;
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
