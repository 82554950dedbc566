/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* SYNs from ever other addresses and ports: makes each frame of a live test run anew and sends it. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/tcp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define LB_NEXT -1 /* TCX_NEXT */

struct frame {
	struct ethhdr ethernet;
	struct iphdr ip;
	struct tcphdr tcp;
} __attribute__((packed));

/* Set before loading. Its sender, port and number are zero, and its two sums are not yet complemented. */
const volatile __u8 lb_frame[sizeof(struct frame)] = {};

static __always_inline __u16 complement(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (__u16) ~((sum & 0xffff) + (sum >> 16));
}

/* A page comes back as its last receiver left it, so all of it is written each time. */
SEC("xdp")
int lb_flood_send(struct xdp_md *xdp)
{
	struct frame *frame = (void *)(long)xdp->data;
	__u32 source = bpf_htonl(0x0a800000 | (bpf_get_prandom_u32() & 0x7fffff));
	__u32 random = bpf_get_prandom_u32();
	__u16 port = bpf_htons((__u16)(1024 + random % 60000));
	__u32 number = random;
	__u32 sum = (source & 0xffff) + (source >> 16);

	if ((void *)(frame + 1) > (void *)(long)xdp->data_end)
		return XDP_ABORTED;
	for (unsigned at = 0; at < sizeof(*frame); at++)
		((__u8 *)frame)[at] = lb_frame[at];
	frame->ip.saddr = source;
	frame->ip.check = complement(frame->ip.check + sum);
	frame->tcp.source = port;
	frame->tcp.seq = number;
	frame->tcp.check = complement(frame->tcp.check + sum + port + (number & 0xffff) + (number >> 16));
	return XDP_TX;
}

/* How many of them have got through to a device, seen before anybody else there sees them. */
__u64 lb_flood_seen = 0;

SEC("tcx/ingress")
int lb_flood_count(struct __sk_buff *skb)
{
	struct frame *frame = (void *)(long)skb->data;

	if ((void *)(frame + 1) > (void *)(long)skb->data_end)
		return LB_NEXT;
	if (skb->protocol == bpf_htons(ETH_P_IP) &&
	    (frame->ip.saddr & bpf_htonl(0xff800000)) == bpf_htonl(0x0a800000))
		__sync_fetch_and_add(&lb_flood_seen, 1);
	return LB_NEXT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
