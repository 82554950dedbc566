/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The minimum cost of a load balancer's program here: reading headers; the same plus one hash lookup and a rewrite of addresses,
 * ports and checksums; and the same plus a counter and a redirect. For bench/programs.cpp only.
 */
#include <stddef.h>

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "maps/abi/abi.h"

struct floor4 {
	__be32 source;
	__be32 destination;
	__be16 source_port;
	__be16 destination_port;
	__u32 protocol;
};

struct floor6 {
	struct in6_addr source;
	struct in6_addr destination;
	__be16 source_port;
	__be16 destination_port;
	__u32 protocol;
};

/* The packet's new tuple, and the difference that it makes to the checksums. */
struct floor_value4 {
	struct floor4 to;
	__u32 addresses;
	__u32 all;
};

struct floor_value6 {
	struct floor6 to;
	__u32 all;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, LB_MAX_FLOWS);
	__type(key, struct floor4);
	__type(value, struct floor_value4);
} floor_flows4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, LB_MAX_FLOWS);
	__type(key, struct floor6);
	__type(value, struct floor_value6);
} floor_flows6 SEC(".maps");

/* With the types and the size of the table of unassured flows. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, LB_MAX_UNASSURED);
	__type(key, struct lb_flow4_key);
	__type(value, struct lb_flow4);
} floor_young4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, LB_MAX_UNASSURED);
	__type(key, struct lb_flow6_key);
	__type(value, struct lb_flow6);
} floor_young6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
	__uint(max_entries, LB_MAX_DEVICES);
	__type(key, __u32);
	__type(value, __u32);
} floor_ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} floor_sent SEC(".maps");

__u64 floor_inserted;

static __always_inline __u16 floor_sum(__u16 check, __u64 difference)
{
	__u64 sum = (__u16)~check + difference;

	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__u16)~sum;
}

static __always_inline int floor_rewrite4(struct iphdr *ip, struct tcphdr *tcp)
{
	struct floor4 key = {ip->saddr, ip->daddr, tcp->source, tcp->dest, ip->protocol};
	const struct floor_value4 *value = bpf_map_lookup_elem(&floor_flows4, &key);

	if (!value)
		return 0;
	ip->saddr = value->to.source;
	ip->daddr = value->to.destination;
	ip->check = floor_sum(ip->check, value->addresses);
	tcp->source = value->to.source_port;
	tcp->dest = value->to.destination_port;
	tcp->check = floor_sum(tcp->check, value->all);
	return 1;
}

static __always_inline int floor_rewrite6(struct ipv6hdr *ip, struct tcphdr *tcp)
{
	struct floor6 key = {ip->saddr, ip->daddr, tcp->source, tcp->dest, ip->nexthdr};
	const struct floor_value6 *value = bpf_map_lookup_elem(&floor_flows6, &key);

	if (!value)
		return 0;
	ip->saddr = value->to.source;
	ip->daddr = value->to.destination;
	tcp->source = value->to.source_port;
	tcp->dest = value->to.destination_port;
	tcp->check = floor_sum(tcp->check, value->all);
	return 1;
}

/* Returns 0 if the packet is not TCP over IP; 1 if it was read (and rewritten, if `rewrite`). */
static __always_inline int floor(void *data, void *end, int rewrite)
{
	struct ethhdr *ethernet = data;
	struct iphdr *ip = data + sizeof(*ethernet);
	struct ipv6hdr *ip6 = data + sizeof(*ethernet);
	struct tcphdr *tcp;

	if ((void *)(ip + 1) > end)
		return 0;
	if (ethernet->h_proto == bpf_htons(ETH_P_IP)) {
		tcp = (void *)(ip + 1);
		if (ip->ihl != 5 || ip->protocol != IPPROTO_TCP || (void *)(tcp + 1) > end)
			return 0;
		return rewrite ? floor_rewrite4(ip, tcp) : 1;
	}
	tcp = (void *)(ip6 + 1);
	if (ethernet->h_proto != bpf_htons(ETH_P_IPV6) || (void *)(tcp + 1) > end ||
	    ip6->nexthdr != IPPROTO_TCP)
		return 0;
	return rewrite ? floor_rewrite6(ip6, tcp) : 1;
}

SEC("xdp")
int floor_xdp_parse(struct xdp_md *xdp)
{
	return floor((void *)(long)xdp->data, (void *)(long)xdp->data_end, 0) ? XDP_TX : XDP_PASS;
}

SEC("xdp")
int floor_xdp(struct xdp_md *xdp)
{
	return floor((void *)(long)xdp->data, (void *)(long)xdp->data_end, 1) ? XDP_TX : XDP_PASS;
}

/* Inserts a new key each time: its first bytes are a hashed counter. */
static __always_inline int floor_insert(__u16 ethernet_protocol)
{
	__u64 mixed = ++floor_inserted * 0x9e3779b97f4a7c15ULL;

	if (ethernet_protocol == bpf_htons(ETH_P_IP)) {
		struct lb_flow4_key key = {};
		struct lb_flow4 value = {};

		__builtin_memcpy(&key, &mixed, sizeof(mixed));
		return !bpf_map_update_elem(&floor_young4, &key, &value, BPF_NOEXIST);
	}
	struct lb_flow6_key key = {};
	struct lb_flow6 value = {};

	__builtin_memcpy(&key, &mixed, sizeof(mixed));
	return !bpf_map_update_elem(&floor_young6, &key, &value, BPF_NOEXIST);
}

SEC("xdp")
int floor_xdp_insert(struct xdp_md *xdp)
{
	struct ethhdr *ethernet = (void *)(long)xdp->data;

	if ((void *)(ethernet + 1) > (void *)(long)xdp->data_end)
		return XDP_PASS;
	return floor_insert(ethernet->h_proto) ? XDP_TX : XDP_PASS;
}

SEC("tc")
int floor_tc_insert(struct __sk_buff *skb)
{
	return floor_insert(skb->protocol) ? TC_ACT_STOLEN : TC_ACT_OK;
}

SEC("tc")
int floor_tc_parse(struct __sk_buff *skb)
{
	return floor((void *)(long)skb->data, (void *)(long)skb->data_end, 0) ? TC_ACT_STOLEN : TC_ACT_OK;
}

SEC("tc")
int floor_tc(struct __sk_buff *skb)
{
	return floor((void *)(long)skb->data, (void *)(long)skb->data_end, 1) ? TC_ACT_STOLEN : TC_ACT_OK;
}

static __always_inline void floor_count(void)
{
	__u32 zero = 0;
	__u64 *sent = bpf_map_lookup_elem(&floor_sent, &zero);

	if (sent)
		*sent += 1;
}

SEC("xdp")
int floor_xdp_send(struct xdp_md *xdp)
{
	if (!floor((void *)(long)xdp->data, (void *)(long)xdp->data_end, 1))
		return XDP_PASS;
	floor_count();
	return bpf_redirect_map(&floor_ports, xdp->ingress_ifindex, XDP_PASS);
}

SEC("tc")
int floor_tc_send(struct __sk_buff *skb)
{
	if (!floor((void *)(long)skb->data, (void *)(long)skb->data_end, 1))
		return TC_ACT_OK;
	floor_count();
	return bpf_redirect_neigh(skb->ifindex, NULL, 0, 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
