/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The state of the packet that is being processed, in per-CPU memory: the programs' stacks are
 * too small for it. Packet hooks run with bottom halves disabled, so no two use it at once.
 */
#ifndef SLUICE_BPF_SCRATCH_H
#define SLUICE_BPF_SCRATCH_H

#include <linux/bpf.h>

#include "bpf/packet/packet.h"
#include "maps/abi/abi.h"

/* The longest start of a packet that an ICMP answer quotes. */
#define LB_QUOTE 128

enum lb_hook {
	LB_HOOK_TC_INGRESS, /* of an uplink */
	LB_HOOK_TC_EGRESS,
	LB_HOOK_XDP,
	LB_HOOK_POD_INGRESS, /* from a pod, at the host's end of its device */
	LB_HOOK_POD_EGRESS,  /* to a pod */
};

/* What the sender of a packet that ends here gets; the first ones at a limited rate, each kind by itself. */
enum lb_answer {
	LB_ANSWER_PORT,
	LB_ANSWER_RESET,
	LB_ANSWER_TIME,
	LB_LIMITED_ANSWERS,
	LB_ANSWER_TOO_BIG = LB_LIMITED_ANSWERS,
};

/* One entry of a flow table, whatever its family. */
struct lb_flow {
	struct lb_tuple leaving;
	struct lb_track track;
};

struct lb_scratch {
	struct lb_packet packet;
	struct lb_flow flow;            /* the packet's entry: what it becomes */
	struct lb_tuple reply_tuple;    /* the tuple of the other direction, as it arrives */
	struct lb_flow reply;           /* and its entry */
	struct lb_flow existing;        /* an entry that was in the way */
	struct lb_tuple existing_reply; /* the key of that one's reply entry */
	struct bpf_fib_lookup fib;
	struct lb_backend backend;
	struct lb_frontend_key asked; /* where the packet asks for a service */
	__u64 hash;   /* keyed, of the packet's tuple, for source ports: the same for every retransmission */
	__u32 mark;   /* of the packet, as routing rules may ask for it; XDP's have none */
	__u32 device; /* interface index the packet is seen on */
	__u32 backend_id;
	__u32 hook; /* enum lb_hook */
	__u32 missed; /* enum lb_bool: the flow table was asked already, and has no flow of the packet's that acts here */
	__u32 unassured;  /* enum lb_bool: the packet's entry is of a flow that was not proven before it */
	__u32 mtu;        /* of the way out, where the packet was too big for it */
	__u32 masquerade; /* enum lb_bool: outside of choice C this client gets the node's address */
	__u32 xfrm;       /* enum lb_bool: IPsec policies may cover the way to the backend */
	__u32 forwarded;  /* enum lb_bool: at egress, a packet that came by another device */
	__u32 oldest_age; /* seconds, of the oldest unproven claim among the probes, plus one; 0: there is none */
	__u32 oldest_port;      /* and its port */
	struct lb_tuple oldest; /* and what it makes of the packets there: whose it is */
	__u32 answers
		[LB_LIMITED_ANSWERS]; /* asked for in `answer_second`, of each kind; these two outlive the packet */
	__u32 answer_second;
	__u8 quote[LB_QUOTE]; /* what an ICMP answer quotes */
	union {
		struct lb_flow4 v4;
		struct lb_flow6 v6;
	} inserted; /* an entry as it goes into its table */
};

/* Scratch memory: what a dump shows of it means nothing. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lb_scratch);
} lb_scratch SEC(".maps") __weak;

/*
 * What this CPU is working on. Functions that the verifier checks by themselves (LB_FUNCTION) ask for it here and never get it
 * as an argument: from a look-up it is a map's value, parts of which may be keys of other maps; an argument's memory may
 * not before Linux 6.2.
 */
static __always_inline struct lb_scratch *lb_scratch_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&lb_scratch, &zero);
}

static __always_inline struct lb_scratch *lb_scratch_begin(enum lb_hook hook, __u32 device,
							   enum lb_bool missed)
{
	struct lb_scratch *scratch = lb_scratch_get();

	if (scratch) {
		scratch->hook = hook;
		scratch->device = device;
		scratch->missed = missed;
		scratch->unassured = LB_NO;
	}
	return scratch;
}

#endif
