/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Writes a tuple into a packet, and updates the checksums by one's complement differences, so the payload is
 * never read.
 */
#ifndef SLUICE_BPF_REWRITE_H
#define SLUICE_BPF_REWRITE_H

#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>

#include "bpf/packet/packet.h"
#include "bpf/rewrite/sctp.h"

/* The kernel's flag from 6.16 on, which libc's headers may lack. Used only if it was probed. */
#define LB_F_IPV6 (1ULL << 7)

enum lb_hops { LB_KEEP_HOPS, LB_COUNT_HOP };

/* Differences of the addresses and of the ports, as 32-bit one's complement sums in network order. */
struct lb_change {
	__u32 addresses;
	__u32 ports;
};

static __always_inline __u32 lb_fold32(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	return (__u32)((sum & 0xffffffff) + (sum >> 32));
}

static __always_inline __u16 lb_fold16(__u64 sum)
{
	sum = lb_fold32(sum);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__u16)((sum & 0xffff) + (sum >> 16));
}

/* IPv4's mapped prefix is the same on both sides and adds nothing. */
static __always_inline struct lb_change lb_change_of(const struct lb_tuple *from, const struct lb_tuple *to)
{
	const __u32 *old = (const __u32 *)from, *new = (const __u32 *)to;
	__u64 addresses = 0, ports;

	for (int i = 0; i < 8; i++)
		addresses += (__u64)(__u32)~old[i] + new[i];
	ports = (__u64)(__u16)~bpf_htons(from->source_port) + bpf_htons(to->source_port) +
		(__u16)~bpf_htons(from->destination_port) + bpf_htons(to->destination_port);
	return (struct lb_change){.addresses = lb_fold32(addresses), .ports = lb_fold32(ports)};
}

static __always_inline __u16 lb_apply(__u16 check, __u64 difference)
{
	return (__u16)~lb_fold16((__u64)(__u16)~check + difference);
}

/* A UDP checksum of zero means none, so a result of zero is written in its other form. */
static __always_inline void lb_apply_to(__u16 *check, int udp, __u64 difference)
{
	*check = lb_apply(*check, difference);
	if (udp && !*check)
		*check = 0xffff;
}

static __always_inline void lb_write_ipv4(struct iphdr *ip, const struct lb_tuple *to, __u32 addresses,
					  enum lb_hops hops)
{
	__u64 difference = addresses;

	ip->saddr = to->source.words[3];
	ip->daddr = to->destination.words[3];
	if (hops == LB_COUNT_HOP) {
		ip->ttl--;
		difference += (__u16)~bpf_htons(0x0100);
	}
	ip->check = lb_apply(ip->check, difference);
}

static __always_inline void lb_write_ipv6(struct ipv6hdr *ip, const struct lb_tuple *to, enum lb_hops hops)
{
	__builtin_memcpy(&ip->saddr, &to->source, 16);
	__builtin_memcpy(&ip->daddr, &to->destination, 16);
	if (hops == LB_COUNT_HOP)
		ip->hop_limit--;
}

/*
 * SCTP's checksum covers the whole message, whose length only the last fragment has: with new ports no
 * fragment can be corrected.
 */
static __always_inline int lb_is_sctp_part(const struct lb_packet *packet, const struct lb_tuple *to)
{
	return packet->tuple.protocol == LB_SCTP && packet->part != LB_WHOLE &&
	       (packet->tuple.source_port != to->source_port ||
		packet->tuple.destination_port != to->destination_port);
}

/*
 * SCTP's checksum covers no addresses, so it needs no help of the kernel. A checksum still to be computed is
 * 0, and must stay 0: skb_crc32c_csum_help or the network card, which computes it, includes that field. A
 * finished checksum of 0 occurs once in four thousand million.
 */
static __always_inline int lb_write_sctp(void *data, void *end, const struct lb_packet *packet,
					 const struct lb_tuple *to)
{
	struct lb_sctp *sctp = data + (packet->transport & LB_MAX_OFFSET);
	__u32 length = packet->length - (packet->transport - packet->network);
	__u32 old, new;

	if ((void *)(sctp + 1) > end)
		return -1;
	old = (__u32)bpf_htons(packet->tuple.source_port) | (__u32)bpf_htons(packet->tuple.destination_port)
								    << 16;
	new = (__u32)bpf_htons(to->source_port) | (__u32)bpf_htons(to->destination_port) << 16;
	if (old != new && sctp->checksum)
		sctp->checksum ^= lb_crc_change(old ^ new, length & 0xffff);
	return 0;
}

/* Writes addresses and hops. Returns 0, or -1 if the packet is shorter than parsed. */
static __always_inline int lb_write_network(void *network, void *end, const struct lb_tuple *to,
					    __u32 addresses, enum lb_hops hops)
{
	if (to->family == LB_IPV4) {
		if (network + sizeof(struct iphdr) > end)
			return -1;
		lb_write_ipv4(network, to, addresses, hops);
	} else {
		if (network + sizeof(struct ipv6hdr) > end)
			return -1;
		lb_write_ipv6(network, to, hops);
	}
	return 0;
}

/* Writes everything but the transport's checksum. Returns 0, or -1 if the packet is shorter than parsed. */
static __always_inline int lb_write_headers(void *data, void *end, const struct lb_packet *packet,
					    const struct lb_tuple *to, __u32 addresses, enum lb_hops hops)
{
	void *network = data + (packet->network & LB_MAX_OFFSET);
	__be16 *ports = data + (packet->transport & LB_MAX_OFFSET);

	if (packet->part != LB_LATER_FRAGMENT) {
		if ((void *)(ports + 2) > end)
			return -1;
		ports[0] = bpf_htons(to->source_port);
		ports[1] = bpf_htons(to->destination_port);
	}
	return lb_write_network(network, end, to, addresses, hops);
}

/* Offset of the checksum in a TCP or UDP header. */
static __always_inline __u32 lb_check_place(enum lb_protocol protocol)
{
	return protocol == LB_TCP ? offsetof(struct tcphdr, check) : offsetof(struct udphdr, check);
}

static __always_inline __u32 lb_check_offset(const struct lb_packet *packet)
{
	return packet->transport + lb_check_place(packet->tuple.protocol);
}

/* For XDP, where checksums are complete. UDP without a checksum keeps none. */
static __always_inline int lb_write_check(void *data, void *end, const struct lb_packet *packet,
					  struct lb_change change)
{
	__u16 *check = data + (lb_check_offset(packet) & LB_MAX_OFFSET);
	int udp = packet->tuple.protocol == LB_UDP;

	if ((void *)(check + 1) > end)
		return -1;
	if (udp && !*check)
		return 0;
	lb_apply_to(check, udp, (__u64)change.addresses + change.ports);
	return 0;
}

#endif
