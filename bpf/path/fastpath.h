/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The fast path for nearly every packet: unfragmented, UDP or TCP in mid-connection, of an assured flow that
 * had a packet in this second, or of no flow of ours. The packet is read, looked up and decided in one pass.
 * Rarer packets are passed unchanged to the slow path (balance.h), which handles every packet, and handles
 * these equally.
 */
#ifndef SLUICE_BPF_FASTPATH_H
#define SLUICE_BPF_FASTPATH_H

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>

#include "bpf/flow/flow.h"
#include "bpf/flow/handshake.h"
#include "bpf/flow/scratch.h"
#include "bpf/flow/track.h"
#include "bpf/packet/headers.h"
#include "bpf/packet/packet.h"
#include "bpf/packet/stats.h"
#include "bpf/path/client.h"
#include "bpf/select/service.h"
#include "maps/abi/maps.bpf.h"

/* The result of the fast path. */
enum lb_fastpath_result {
	LB_FASTPATH_UNDECIDED, /* unchanged; the slow path must process it */
	LB_FASTPATH_NO_FLOW,   /* unchanged, without an assured flow; the slow path must process the rest */
	LB_FASTPATH_PASSED,
	LB_FASTPATH_REDIRECTED,
	LB_FASTPATH_DROPPED,
};

#define LB_IPV4_NO_OPTIONS 0x45 /* the first byte without options */
#define LB_TCP_FLAGS 13         /* offset of the byte with these flags: */
#define LB_TCP_FIN_SYN_RST 0x07

struct lb_fastpath {
	struct lb_packet packet;
	struct lb_flow flow;
};

static __always_inline int lb_fastpath_ipv4(const struct iphdr *ip, struct lb_packet *packet)
{
	if (*(const __u8 *)ip != LB_IPV4_NO_OPTIONS || ip->frag_off & bpf_htons(LB_IP_MORE | LB_IP_OFFSET))
		return 0;
	packet->length = bpf_ntohs(ip->tot_len);
	lb_mapped(&packet->tuple.source, ip->saddr);
	lb_mapped(&packet->tuple.destination, ip->daddr);
	packet->next = ip->protocol;
	packet->hops = ip->ttl;
	return packet->length > sizeof(*ip);
}

static __always_inline int lb_fastpath_ipv6(const struct ipv6hdr *ip, struct lb_packet *packet)
{
	__u16 payload = bpf_ntohs(ip->payload_len);

	if (ip->version != 6)
		return 0;
	packet->length = payload + sizeof(*ip);
	packet->tuple.source = *(const union lb_ip *)&ip->saddr;
	packet->tuple.destination = *(const union lb_ip *)&ip->daddr;
	packet->next = ip->nexthdr;
	packet->hops = ip->hop_limit;
	return packet->length > sizeof(*ip) && payload <= 0xffff - sizeof(*ip);
}

/* Reads ports and step; `room`: bytes of the packet from here on. */
static __always_inline int lb_fastpath_transport(const void *transport, const void *end, __u32 room,
						 __u8 protocol, enum lb_family family,
						 struct lb_packet *packet)
{
	const struct tcphdr *tcp = transport;
	const struct udphdr *udp = transport;

	if ((const void *)(udp + 1) > end)
		return 0;
	if (protocol == IPPROTO_UDP) {
		lb_set_ends(&packet->tuple, *(const __be32 *)udp, LB_UDP, family);
		packet->step = LB_STEP_NONE;
		return udp->check && bpf_ntohs(udp->len) >= sizeof(*udp) && bpf_ntohs(udp->len) <= room;
	}
	lb_set_ends(&packet->tuple, *(const __be32 *)tcp, LB_TCP, family);
	packet->step = LB_STEP_DATA;
	return protocol == IPPROTO_TCP && (const void *)(tcp + 1) <= end && tcp->doff >= 5 &&
	       tcp->doff * 4 <= room && !(((const __u8 *)tcp)[LB_TCP_FLAGS] & LB_TCP_FIN_SYN_RST);
}

/* `family` is a constant, so that each family has its own code. `total`: size of the frame. */
static __always_inline int lb_fastpath_read(const void *data, const void *end, __u32 total,
					    enum lb_family family, struct lb_packet *packet)
{
	__u32 headers = family == LB_IPV4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);
	const void *network = data + sizeof(struct ethhdr);

	if (network + headers > end)
		return 0;
	packet->network = sizeof(struct ethhdr);
	packet->transport = sizeof(struct ethhdr) + headers;
	packet->part = LB_WHOLE;
	if (family == LB_IPV4 ? !lb_fastpath_ipv4(network, packet) : !lb_fastpath_ipv6(network, packet))
		return 0;
	return packet->length <= total - sizeof(struct ethhdr) &&
	       lb_fastpath_transport(network + headers, end, packet->length - headers, packet->next, family,
				     packet);
}

/* Whether the packet of a flow only needs to be rewritten; LB_OUTCOME_NONE: the slow path must process it. */
static __always_inline enum lb_outcome lb_fastpath_known(enum lb_hook hook, __u32 device,
							 const struct lb_fastpath *fast)
{
	const struct lb_track *track = &fast->flow.track;

	if (lb_is_for_stack(track) && hook == LB_HOOK_XDP)
		return LB_OUTCOME_left_to_tc;
	if (track->seen != lb_clock() || track->state >= LB_CLOSING)
		return LB_OUTCOME_NONE;
	if (lb_is_for_stack(track)) {
		if (hook == LB_HOOK_TC_EGRESS && track->device && track->device != device)
			return LB_OUTCOME_NONE;
		return LB_OUTCOME_flow_stack;
	}
	if (fast->packet.hops <= 1 || !track->device)
		return LB_OUTCOME_NONE;
	return hook == LB_HOOK_XDP ? LB_OUTCOME_flow_xdp : LB_OUTCOME_flow_redirect;
}

/* TCP in mid-connection, without a flow and not for us; LB_OUTCOME_NONE: the slow path must process it. */
static __always_inline enum lb_outcome lb_fastpath_foreign(enum lb_hook hook, const struct lb_packet *packet)
{
	const struct lb_tuple *tuple = &packet->tuple;
	struct lb_frontend_key key =
		lb_frontend_at(&tuple->destination, tuple->destination_port, tuple->protocol);
	struct lb_frontend frontend;
	enum lb_address_kind kind;

	if (lb_may_be_unassured(packet))
		return LB_OUTCOME_NONE;
	if (hook == LB_HOOK_TC_EGRESS || hook == LB_HOOK_POD_EGRESS)
		return LB_OUTCOME_unrelated;
	if (lb_on_loopback(tuple, &tuple->source) || lb_on_loopback(tuple, &tuple->destination))
		return LB_OUTCOME_NONE;
	kind = lb_address_kind_of(key.address);
	if (kind != LB_NO_ADDRESS &&
	    (kind == LB_CLUSTER_ADDRESS || bpf_map_lookup_elem(&lb_frontends, &key) ||
	     (kind == LB_NODE_PORT_ADDRESS && lb_node_port_load(&key, &frontend))))
		return LB_OUTCOME_NONE;
	return hook == LB_HOOK_XDP ? LB_OUTCOME_left_to_tc : LB_OUTCOME_unrelated;
}

/* Finds the packet's flow; 0 if it has none that acts here. */
static __always_inline int lb_fastpath_find(enum lb_hook hook, struct lb_fastpath *fast)
{
	struct lb_tuple key = fast->packet.tuple; /* keys for helpers are in memory; the packet need not be */

	return lb_flow_find(LB_ASSURED, &key, &fast->flow) && lb_acts_here(&fast->flow.track, hook);
}

static __always_inline enum lb_fastpath_result lb_fastpath_end(enum lb_outcome outcome,
							       enum lb_fastpath_result result)
{
	lb_count(outcome);
	return result;
}

#endif
