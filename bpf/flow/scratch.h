/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The state of the packet being processed, in per-CPU memory: the programs' stacks are too small for it.
 * Packet hooks run with bottom halves disabled, so no two use it at once. On PREEMPT_RT they may, and then
 * each task claims one of several slots while it processes a packet.
 */
#ifndef SLUICE_BPF_SCRATCH_H
#define SLUICE_BPF_SCRATCH_H

#include <linux/bpf.h>

#include "bpf/packet/packet.h"
#include "bpf/packet/stats.h"
#include "maps/abi/abi.h"
#include "maps/abi/checks.h"

/* The maximum length of the packet's start that an ICMP answer quotes. */
#define LB_QUOTE 128

enum lb_hook {
	LB_HOOK_TC_INGRESS, /* of an uplink */
	LB_HOOK_TC_EGRESS,
	LB_HOOK_XDP,
	LB_HOOK_POD_INGRESS, /* from a pod, at the host's end of its device */
	LB_HOOK_POD_EGRESS,  /* to a pod */
};

/* Answers to the sender of a packet that ends here; the first ones are rate-limited, each kind separately. */
enum lb_answer {
	LB_ANSWER_PORT,
	LB_ANSWER_RESET,
	LB_ANSWER_TIME,
	LB_LIMITED_ANSWERS,
	LB_ANSWER_TOO_BIG = LB_LIMITED_ANSWERS,
};

/* An entry of a flow table, of either family. */
struct lb_flow {
	struct lb_tuple leaving;
	struct lb_track track;
};

struct lb_scratch {
	__u64 owner; /* PREEMPT_RT: the task whose packet this is; 0: none */
	struct lb_packet packet;
	struct lb_flow flow;            /* the packet's entry: its translation */
	struct lb_tuple reply_tuple;    /* the tuple of arriving packets of the other direction */
	struct lb_flow reply;           /* its entry */
	struct lb_flow existing;        /* a conflicting entry */
	struct lb_tuple existing_reply; /* the key of its reply entry */
	struct bpf_fib_lookup fib;
	struct lb_backend backend;
	struct lb_frontend_key asked; /* the packet's destination, as a frontend */
	__u64 hash;   /* keyed, of the packet's tuple, for source ports: the same for every retransmission */
	__u32 mark;   /* the packet's mark, for routing rules; 0 in XDP */
	__u32 device; /* interface index of the receiving device */
	__u32 backend_id;
	__u32 hook;        /* enum lb_hook */
	__u32 missed;      /* enum lb_bool: the fast path found no entry in the flow table that acts here */
	__u32 unassured;   /* enum lb_bool: the packet's entry was unassured when found */
	__u32 needs_claim; /* enum lb_bool: the packet opens no flow, but finds the reply entry of one */
	__u32 abandoned; /* enum lb_bool: its flow ended just now, because the backend or the frontend went */
	__u32 mtu;       /* of the route, if the packet is too big for it */
	__u32 masquerade; /* enum lb_bool: without choice C this client would get the node's address */
	__u32 xfrm;       /* enum lb_xfrm: which ways to backends IPsec policies may cover */
	__u32 forwarded;  /* enum lb_bool: at egress, a packet that arrived on another device */
	__u32 oldest_age; /* age in seconds of the oldest unassured claim among the probes, plus one; 0: none */
	__u32 oldest_port;      /* its port */
	struct lb_tuple oldest; /* its translation, which identifies the flow */
	__u32 answers
		[LB_LIMITED_ANSWERS]; /* asked for in `answer_second`, of each kind; these two outlive the packet */
	__u32 answer_second;
	__u8 quote[LB_QUOTE]; /* quoted by an ICMP answer */
	union {
		struct lb_flow4 v4;
		struct lb_flow6 v6;
	} inserted; /* an entry before it is inserted into its table */
};

/* Scratch memory: a dump of it has no meaning. The agent gives it LB_SCRATCH_SLOTS entries on PREEMPT_RT. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lb_scratch);
} lb_scratch SEC(".maps") __weak;

/* The same one as long as the task processes a packet, which it does on one CPU. */
static __always_inline __u32 lb_scratch_slot(void)
{
	if (!lb_is_preemptible())
		return 0;
	return (__u32)(lb_mix(0, bpf_get_current_task()) >> 32) % LB_SCRATCH_SLOTS;
}

/*
 * The state of the packet. Functions that the verifier checks separately (LB_FUNCTION) look it up here and do
 * not get it as an argument: a looked-up pointer is a map value, parts of which may be keys of other maps; an
 * argument's memory may not be before Linux 6.2.
 */
static __always_inline struct lb_scratch *lb_scratch_get(void)
{
	__u32 slot = lb_scratch_slot();

	return bpf_map_lookup_elem(&lb_scratch, &slot);
}

/*
 * Whether the task has the slot now. It may have it already: a packet that it sends out while it processes
 * another one runs the programs at once (lb_frag_replay_all), and the first one needs it no more.
 */
static __always_inline int lb_scratch_claim(struct lb_scratch *scratch)
{
	__u64 task, owner;

	if (!lb_is_preemptible())
		return 1;
	task = bpf_get_current_task();
	owner = __sync_val_compare_and_swap(&scratch->owner, 0, task);
	return !owner || owner == task;
}

static __always_inline void lb_scratch_end(struct lb_scratch *scratch)
{
	if (lb_is_preemptible())
		__sync_val_compare_and_swap(&scratch->owner, bpf_get_current_task(), 0);
}

/* For one packet, until lb_scratch_end(); NULL: another task has the slot. */
static __always_inline struct lb_scratch *lb_scratch_begin(enum lb_hook hook, __u32 device,
							   enum lb_bool missed)
{
	struct lb_scratch *scratch = lb_scratch_get();

	if (!scratch || !lb_scratch_claim(scratch))
		return NULL;
	scratch->hook = hook;
	scratch->device = device;
	scratch->missed = missed;
	scratch->unassured = LB_NO;
	scratch->abandoned = LB_NO;
	scratch->needs_claim = LB_NO;
	return scratch;
}

#endif
