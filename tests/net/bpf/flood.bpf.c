/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A SYN flood from random addresses and ports: rewrites each frame of a live test run and sends it. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define LB_NEXT -1 /* TCX_NEXT */

enum {
	LB_FRAME4 = ETH_HLEN + sizeof(struct iphdr) + sizeof(struct tcphdr),
	LB_FRAME6 = ETH_HLEN + sizeof(struct ipv6hdr) + sizeof(struct tcphdr),
};

/* Set before loading. The low bits of the source address, the source port and the sequence number are zero, and the
 * checksum fields hold uncomplemented sums.
 */
const volatile __u8 lb_frame[LB_FRAME6] = {};

static __always_inline __u16 complement(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (__u16) ~((sum & 0xffff) + (sum >> 16));
}

static __always_inline __u32 halves(__u32 word)
{
	return (word & 0xffff) + (word >> 16);
}

/* A recycled page has the content that its last receiver left, so the whole frame is written each time. */
static __always_inline void copy_frame(__u8 *to, unsigned size)
{
	for (unsigned at = 0; at < size; at++)
		to[at] = lb_frame[at];
}

/* sum: of the random bits of the source address. */
static __always_inline void renew_tcp(struct tcphdr *tcp, __u32 sum)
{
	__u32 number = bpf_get_prandom_u32();
	__u16 port = bpf_htons((__u16)(1024 + number % 60000));

	tcp->source = port;
	tcp->seq = number;
	tcp->check = complement(tcp->check + sum + port + halves(number));
}

SEC("xdp")
int lb_flood_send4(struct xdp_md *xdp)
{
	void *data = (void *)(long)xdp->data;
	struct iphdr *ip = data + ETH_HLEN;
	__u32 drawn = bpf_htonl(bpf_get_prandom_u32() & 0x7fffff);

	if (data + LB_FRAME4 > (void *)(long)xdp->data_end)
		return XDP_ABORTED;
	copy_frame(data, LB_FRAME4);
	ip->saddr |= drawn;
	ip->check = complement(ip->check + halves(drawn));
	renew_tcp((struct tcphdr *)(ip + 1), halves(drawn));
	return XDP_TX;
}

SEC("xdp")
int lb_flood_send6(struct xdp_md *xdp)
{
	void *data = (void *)(long)xdp->data;
	struct ipv6hdr *ip = data + ETH_HLEN;
	__u32 drawn = bpf_get_prandom_u32();

	if (data + LB_FRAME6 > (void *)(long)xdp->data_end)
		return XDP_ABORTED;
	copy_frame(data, LB_FRAME6);
	ip->saddr.in6_u.u6_addr32[3] = drawn;
	renew_tcp((struct tcphdr *)(ip + 1), halves(drawn));
	return XDP_TX;
}

/* The number of these frames that have reached a device, counted before any other program there. */
__u64 lb_flood_seen = 0;

SEC("tcx/ingress")
int lb_flood_count4(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data;
	struct iphdr *ip = data + ETH_HLEN;

	if (skb->protocol == bpf_htons(ETH_P_IP) && data + LB_FRAME4 <= (void *)(long)skb->data_end &&
	    (ip->saddr & bpf_htonl(0xff800000)) == bpf_htonl(0x0a800000))
		__sync_fetch_and_add(&lb_flood_seen, 1);
	return LB_NEXT;
}

SEC("tcx/ingress")
int lb_flood_count6(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data;
	struct ipv6hdr *ip = data + ETH_HLEN;

	if (skb->protocol == bpf_htons(ETH_P_IPV6) && data + LB_FRAME6 <= (void *)(long)skb->data_end &&
	    ip->saddr.in6_u.u6_addr32[0] == bpf_htonl(0x20010db8) &&
	    ip->saddr.in6_u.u6_addr32[1] == bpf_htonl(0x000f0000))
		__sync_fetch_and_add(&lb_flood_seen, 1);
	return LB_NEXT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
