/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The reply tuples of recent SYNs, as a filter: a server may answer a SYN by an ACK alone (RFC 9293, 3.10.7.4;
 * RFC 5961), which looks like a packet in mid-connection of no flow. Such packets are so many that only those
 * that the filter knows are looked up in the unassured table.
 */
#ifndef SLUICE_BPF_AWAITED_H
#define SLUICE_BPF_AWAITED_H

#include "bpf/flow/flow.h"
#include "bpf/packet/packet.h"
#include "bpf/packet/stats.h"
#include "maps/abi/abi.h"

/* 16 KiB; above some thousand SYNs a second more and more packets without a flow are looked up in vain. */
#define LB_AWAITED 8192
#define LB_AWAITED_SHIFT (64 - 13)
LB_ASSERT(LB_AWAITED == 1 << (64 - LB_AWAITED_SHIFT));

/* The answer comes within a round trip, and each repeated SYN asks for another one. */
#define LB_AWAITED_SECONDS 3

/* By the tuple's hash: the last second (lb_clock, shortened) in which an answer may come. */
__u16 lb_awaited_until[LB_AWAITED] __weak;

static __always_inline __u16 *lb_awaited_slot(const struct lb_tuple *tuple)
{
	const __u64 *words = (const __u64 *)tuple;
	__u64 sum = words[1] * LB_ODD_1 + words[3] * LB_ODD_3 + words[4] * LB_ODD_4;

	return &lb_awaited_until[sum >> LB_AWAITED_SHIFT];
}

/* Written once a second at most, so that its cache line stays clean. */
static __always_inline void lb_await_answer(const struct lb_tuple *reply)
{
	__u16 until = (__u16)(lb_clock() + LB_AWAITED_SECONDS);
	__u16 *slot = lb_awaited_slot(reply);

	if (*slot != until)
		*slot = until;
}

static __always_inline int lb_is_awaited(const struct lb_tuple *reply)
{
	return (__u16)(*lb_awaited_slot(reply) - lb_clock()) <= LB_AWAITED_SECONDS;
}

#endif
