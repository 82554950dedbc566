/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Caches results of FIB lookups for an eighth of a second: a lookup for each packet of a known flow took a
 * large part of XDP's time per packet. A change of a route, rule or neighbour takes effect up to that much
 * later. The key is all that the lookup of a packet in XDP depends on, and the flow's device.
 */
#ifndef SLUICE_BPF_FIB_CACHE_H
#define SLUICE_BPF_FIB_CACHE_H

#include <linux/if_ether.h>

#include <bpf/bpf_endian.h>

#include "bpf/flow/scratch.h"
#include "bpf/packet/packet.h"
#include "bpf/packet/stats.h"

#define LB_FIB_CACHE_SIZE 256 /* a power of two */
#define LB_EIGHTHS_BITS 3     /* fraction bits of the time */

struct lb_fib_cache_entry {
	union lb_ip source;
	union lb_ip destination;
	__u32 ingress_ifindex;
	__u32 eighths; /* time of the lookup in eighths of a second */
	__u32 egress_ifindex;
	__u16 mtu;
	__u8 ethernet[2 * ETH_ALEN]; /* the beginning of the new header */
	__u8 protocol;
	__u8 pad[5];
};

/* Per-CPU memory, like lb_scratch. Unused if tasks interleave: one could read what another has half written. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LB_FIB_CACHE_SIZE);
	__type(key, __u32);
	__type(value, struct lb_fib_cache_entry);
} lb_fib_cache SEC(".maps") __weak;

static __always_inline __u32 lb_clock_eighths(void)
{
	return (__u32)(bpf_jiffies64() * lb_config.clock_factor >> (32 - LB_EIGHTHS_BITS));
}

static __always_inline struct lb_fib_cache_entry *lb_fib_cache_slot(const struct lb_tuple *leaving,
								    __u32 egress_ifindex)
{
	__u32 slot = leaving->source.words[3] ^ bpf_htonl(leaving->destination.words[3]) ^ egress_ifindex;

	slot = (slot ^ slot >> 16) % LB_FIB_CACHE_SIZE;
	return bpf_map_lookup_elem(&lb_fib_cache, &slot);
}

/* The cached result for a packet that becomes `leaving`; NULL: look up the FIB, or the packet is too long. */
static __always_inline const struct lb_fib_cache_entry *lb_fib_cache_find(const struct lb_tuple *leaving,
									  __u32 ingress_ifindex,
									  __u32 egress_ifindex, __u16 length)
{
	const struct lb_fib_cache_entry *entry = lb_fib_cache_slot(leaving, egress_ifindex);

	if (lb_is_preemptible() || !entry || entry->eighths != lb_clock_eighths() ||
	    entry->ingress_ifindex != ingress_ifindex || entry->egress_ifindex != egress_ifindex ||
	    entry->protocol != leaving->protocol || length > entry->mtu)
		return NULL;
	return lb_same_address(&entry->source, &leaving->source) &&
			       lb_same_address(&entry->destination, &leaving->destination)
		       ? entry
		       : NULL;
}

/* Stores the FIB result of `scratch->fib`. */
static __always_inline void lb_fib_cache_store(const struct lb_scratch *scratch)
{
	const struct lb_tuple *leaving = &scratch->flow.leaving;
	struct lb_fib_cache_entry *entry = lb_fib_cache_slot(leaving, scratch->fib.ifindex);

	if (lb_is_preemptible() || !entry)
		return;
	entry->source = leaving->source;
	entry->destination = leaving->destination;
	entry->protocol = leaving->protocol;
	entry->ingress_ifindex = scratch->device;
	entry->eighths = lb_clock_eighths();
	entry->egress_ifindex = scratch->fib.ifindex;
	entry->mtu = scratch->fib.mtu_result;
	__builtin_memcpy(entry->ethernet, scratch->fib.dmac, ETH_ALEN);
	__builtin_memcpy(entry->ethernet + ETH_ALEN, scratch->fib.smac, ETH_ALEN);
}

#endif
