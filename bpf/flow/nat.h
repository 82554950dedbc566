/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Claims the reply tuple for a new flow, with another source port if it is taken.
 *
 * A tuple has one owner: the flow whose entry is in lb_flows, or else in the unassured table. The kernel
 * deletes by key only, so a delete after a lookup may delete an entry that another CPU has claimed in
 * between. So every operation that makes a flow the owner (a claim, taking over an old claim, a displacement,
 * becoming assured) holds the tuple's lock from its first lookup to its last write. Operations that remove an
 * entry without the lock (eviction, expiry, a restart) make no flow an owner.
 */
#ifndef SLUICE_BPF_NAT_H
#define SLUICE_BPF_NAT_H

#include <asm/errno.h>

#include "bpf/flow/flow.h"
#include "bpf/flow/scratch.h"
#include "bpf/flow/tuple_in_use.h"
#include "bpf/packet/packet.h"
#include "bpf/packet/stats.h"
#include "bpf/select/service.h"
#include "maps/abi/checks.h"
#include "maps/abi/maps.bpf.h"

/* With 90 % of the ports in use, one flow in a million finds none. */
#define LB_PROBES 128
/* An existing claim is one of the first, unless most ports are in use. */
#define LB_CLAIM_PROBES 8

/*
 * Tuple locks: 0 or 1. Many, so that two CPUs rarely contend for one; pinned, so that old programs share
 * them.
 */
#define LB_LOCKS 1024
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LB_LOCKS);
	__type(key, __u32);
	__type(value, __u64);
} lb_locks SEC(".maps") __weak;

/* A few microseconds: a holder makes at most eight map operations. */
#define LB_LOCK_TRIES 64

/*
 * Returns NULL if another CPU holds the lock for too long. No program ends, and none interrupts another,
 * while it holds a lock; on PREEMPT_RT a task may preempt the holder, and gets NULL, too. BPF's atomic
 * operations that return a value order all accesses before them against all after them, on every CPU.
 */
static __always_inline __u64 *lb_lock(const struct lb_tuple *tuple)
{
	const __u64 *words = (const __u64 *)tuple;
	__u32 index = (__u32)(lb_mix(words[1] ^ words[3], words[4]) >> 32) % LB_LOCKS;
	__u64 *lock = bpf_map_lookup_elem(&lb_locks, &index);

	for (int try = 0; lock && try < LB_LOCK_TRIES; try++) {
		if (!__sync_val_compare_and_swap(lock, 0, 1))
			return lock;
	}
	return NULL;
}

static __always_inline void lb_unlock(__u64 *lock)
{
	__sync_lock_test_and_set(lock, 0);
}

/*
 * What an unassured entry's `number` may be instead of the number that the client must acknowledge. A server
 * chooses one of these once in 2^32 handshakes.
 */
enum lb_unassured_number {
	LB_NO_SYNACK,    /* none was seen */
	LB_NO_HANDSHAKE, /* UDP, or opened in mid-connection */
	LB_PROVED,       /* shown to be two-way, but lb_flows refused the entries; tried again each second */
};

/* LB_CLAIM_UNASSURED: taken by an unassured flow, whose entry is in `scratch->existing`. */
enum lb_claim_result { LB_CLAIMED, LB_CLAIM_TAKEN, LB_CLAIM_UNASSURED, LB_CLAIM_REFUSED };

/* Keyed with the node's secret, so that a sender cannot choose its backend or port. */
static __always_inline __u64 lb_hash(const struct lb_tuple *tuple, const __u64 *key)
{
	const __u64 *words = (const __u64 *)tuple;
	__u64 state = key[0];

	for (int i = 0; i < 5; i++)
		state = lb_mix(state, words[i]);
	return lb_mix(state, key[1]);
}

static __always_inline __u32 lb_low_ports(void)
{
	return lb_config.first_port ? lb_config.last_port - lb_config.first_port + 1 : 0;
}

static __always_inline __u32 lb_all_ports(void)
{
	__u32 high = lb_config.high_first_port ? lb_config.high_last_port - lb_config.high_first_port + 1 : 0;

	return lb_low_ports() + high;
}

/* Primes: a step that does not divide the number of ports reaches each port before it repeats one. */
#define LB_STEPS 16
static const __u16 lb_steps[LB_STEPS] = {
	1009, 1511, 2003, 2503, 3001, 3511, 4001, 4507, 5003, 5501, 6007, 6521, 7001, 7919, 8009, 9973,
};

/*
 * The port of a probe: from both ranges in sequence, from an offset and in steps that the hash selects, so
 * that flows which collide on one port differ on the next. 0: no range is configured.
 */
static __always_inline __u16 lb_source_port(__u64 hash, __u32 probe)
{
	__u32 low = lb_low_ports(), all = lb_all_ports();
	__u32 step = lb_steps[(hash >> 32) % LB_STEPS];
	__u32 index;

	if (!all)
		return 0;
	if (!(all % step))
		step = 1;
	index = (__u32)(((hash & 0xffffffff) * all >> 32) + (__u64)probe * step) % all;
	return (__u16)(index < low ? lb_config.first_port + index : lb_config.high_first_port + index - low);
}

/*
 * The flow's own claim exists; the LRU may have evicted its forward entry. `scratch->reply` becomes the entry
 * found, from which that one is restored. A SYN begins another handshake, which has to be proved anew.
 */
static __always_inline void lb_claim_again(struct lb_scratch *scratch, struct lb_track *live)
{
	lb_flow_touch(live, &scratch->existing.track, scratch->reply.track.seen);
	if (scratch->reply.track.number == LB_NO_SYNACK)
		live->number = LB_NO_SYNACK;
	else
		scratch->reply.track = scratch->existing.track;
}

/* Whether two entries are of the same backend in the same service. */
static __always_inline int lb_same_backend(const struct lb_track *one, const struct lb_track *other)
{
	return one->backend == other->backend && one->service == other->service;
}

/*
 * A retransmission finds its own claim. A claim that lost to an entry of lb_flows remains as an unassured
 * entry, which lb_flows hides. The lock is held.
 */
static __always_inline enum lb_claim_result lb_claim_locked(struct lb_scratch *scratch)
{
	struct lb_track *live;
	long error;

	error = lb_flow_insert(LB_UNASSURED, &scratch->reply_tuple, &scratch->reply, BPF_NOEXIST);
	if (error && error != -EEXIST)
		return LB_CLAIM_REFUSED;
	if (lb_flow_find(LB_ASSURED, &scratch->reply_tuple, &scratch->existing)) {
		if (!lb_same_tuple(&scratch->existing.leaving, &scratch->reply.leaving))
			return LB_CLAIM_TAKEN;
		if (lb_flow_find(LB_ASSURED, &scratch->packet.tuple, &scratch->existing))
			return LB_CLAIMED;
		/* Left over without its forward entry. Replies that found it would not assure the flow again. */
		lb_flow_erase(LB_ASSURED, &scratch->reply_tuple);
	}
	if (!error)
		return LB_CLAIMED;
	live = lb_unassured_find(&scratch->reply_tuple, &scratch->existing);
	if (live && !lb_same_tuple(&scratch->existing.leaving, &scratch->reply.leaving))
		return LB_CLAIM_UNASSURED;
	if (live && lb_same_backend(&scratch->existing.track, &scratch->reply.track)) {
		lb_claim_again(scratch, live);
		return LB_CLAIMED;
	}
	/* Too old, or of the service that had the frontend before: take it over. */
	lb_flow_erase(LB_UNASSURED, &scratch->reply_tuple);
	return lb_flow_insert(LB_UNASSURED, &scratch->reply_tuple, &scratch->reply, BPF_NOEXIST)
		       ? LB_CLAIM_REFUSED
		       : LB_CLAIMED;
}

/*
 * Whether the flow's own claim exists already, for example in a retransmission. The kernel then tracks this
 * flow's connection.
 */
static __always_inline int lb_is_claimed(struct lb_scratch *scratch)
{
	return lb_flow_find_any(&scratch->reply_tuple, &scratch->existing) &&
	       lb_same_tuple(&scratch->existing.leaving, &scratch->reply.leaving);
}

/* Claims `scratch->reply_tuple` for the flow whose reply entry is `scratch->reply`. */
LB_FUNCTION int lb_claim_tuple(void)
{
	struct lb_scratch *scratch = lb_scratch_get();
	enum lb_claim_result claim;
	__u64 *lock;

	if (!scratch)
		return LB_CLAIM_REFUSED;
	if (scratch->needs_claim == LB_YES && !lb_is_claimed(scratch))
		return LB_CLAIM_TAKEN;
	lock = lb_lock(&scratch->reply_tuple);
	if (!lock)
		return LB_CLAIM_TAKEN;
	claim = lb_claim_locked(scratch);
	lb_unlock(lock);
	return claim;
}

/* Releases the claim if it is still the flow's. */
LB_FUNCTION int lb_unclaim(void)
{
	struct lb_scratch *scratch = lb_scratch_get();
	__u64 *lock;

	if (!scratch)
		return 0;
	lock = lb_lock(&scratch->reply_tuple);
	if (!lock)
		return 0;
	if (lb_flow_find(LB_UNASSURED, &scratch->reply_tuple, &scratch->existing) &&
	    lb_same_tuple(&scratch->existing.leaving, &scratch->reply.leaving))
		lb_flow_erase(LB_UNASSURED, &scratch->reply_tuple);
	lb_unlock(lock);
	return 1;
}

/*
 * Whether the port is neither reserved by the kernel nor a node port: a reply to a node port would look like
 * a client's packet.
 */
static __always_inline int lb_port_usable(__u16 port)
{
	__u32 index = port / 64;
	const __u64 *word = bpf_map_lookup_elem(&lb_reserved, &index);

	return port && word && !(lb_load(word) >> port % 64 & 1);
}

/* Stores the claim of `scratch->existing` if it is the oldest unassured one so far. */
static __always_inline void lb_note_oldest(struct lb_scratch *scratch)
{
	__u32 age = lb_clock() - scratch->existing.track.seen + 1;

	if (scratch->flow.track.source_nat == LB_NO || age <= scratch->oldest_age)
		return;
	scratch->oldest_age = age;
	scratch->oldest_port = scratch->flow.leaving.source_port;
	scratch->oldest = scratch->existing.leaving;
}

/*
 * Whether the claim still belongs to the flow that was the oldest, and is still unassured. The lock is held.
 */
static __always_inline int lb_displaceable(struct lb_scratch *scratch)
{
	return !lb_flow_find(LB_ASSURED, &scratch->reply_tuple, &scratch->existing) &&
	       lb_flow_find(LB_UNASSURED, &scratch->reply_tuple, &scratch->existing) &&
	       lb_same_tuple(&scratch->existing.leaving, &scratch->oldest);
}

/*
 * Takes over the oldest unassured claim among the probed ports, so that a flood of flows without replies
 * cannot exhaust the ports. The next packet of the displaced flow opens a new one.
 */
LB_FUNCTION enum lb_outcome lb_displace(void)
{
	struct lb_scratch *scratch = lb_scratch_get();
	long refused = 1;
	__u64 *lock;

	if (!scratch || !scratch->oldest_age)
		return LB_OUTCOME_ports_exhausted;
	scratch->flow.leaving.source_port = (__u16)scratch->oldest_port;
	lb_reverse(&scratch->flow.leaving, &scratch->reply_tuple);
	lock = lb_lock(&scratch->reply_tuple);
	if (!lock)
		return LB_OUTCOME_ports_exhausted;
	if (lb_displaceable(scratch)) {
		lb_flow_erase(LB_UNASSURED, &scratch->reply_tuple);
		refused = lb_flow_insert(LB_UNASSURED, &scratch->reply_tuple, &scratch->reply, BPF_NOEXIST);
	}
	lb_unlock(lock);
	if (refused)
		return LB_OUTCOME_ports_exhausted;
	lb_reverse(&scratch->oldest, &scratch->existing_reply);
	lb_flow_erase(LB_UNASSURED, &scratch->existing_reply);
	lb_count(LB_OUTCOME_port_displaced);
	return LB_OUTCOME_NONE;
}

/* The number of probes: each port at most once, and at least one. */
static __always_inline __u32 lb_probes(const struct lb_scratch *scratch)
{
	__u32 most = scratch->needs_claim == LB_YES ? LB_CLAIM_PROBES : LB_PROBES, all = lb_all_ports();

	return all == 0 ? 1 : all < most ? all : most;
}

static __always_inline void lb_note_collision(const struct lb_scratch *scratch)
{
	if (scratch->needs_claim == LB_NO)
		lb_count(LB_OUTCOME_port_collision);
}

/* The common state of all probes of one claim. */
struct lb_probing {
	void *ctx;
	struct lb_scratch *scratch;
	enum lb_outcome outcome;
};

/*
 * Claims the client's own port. Because we did not choose it, the client may also use it for a direct
 * connection to the backend. That connection keeps the tuple, and this flow gets another port (as with the
 * kernel's own NAT); otherwise a forged packet would divert its replies.
 */
LB_FUNCTION int LB_PER_OBJECT(lb_claim_own_port)(void *ctx __arg_ctx)
{
	struct lb_scratch *scratch = lb_scratch_get();
	int claim;

	if (!scratch)
		return LB_CLAIM_REFUSED;
	lb_reverse(&scratch->flow.leaving, &scratch->reply_tuple);
	if (!lb_is_claimed(scratch) &&
	    LB_PER_OBJECT(lb_is_direct)(ctx, &scratch->reply_tuple, scratch->packet.step == LB_STEP_SYN)) {
		lb_count(LB_OUTCOME_tuple_in_use);
		claim = LB_CLAIM_TAKEN;
	} else {
		claim = lb_claim_tuple();
	}
	if (claim == LB_CLAIM_TAKEN || claim == LB_CLAIM_UNASSURED)
		lb_note_collision(scratch);
	return claim;
}

/* Probes one port that we choose; returns 1 to stop. */
static long LB_PER_OBJECT(lb_probe)(__u32 probe, struct lb_probing *probing)
{
	struct lb_scratch *scratch = probing->scratch;
	int claim = LB_CLAIM_TAKEN;

	scratch->flow.leaving.source_port = lb_source_port(scratch->hash, probe);
	lb_reverse(&scratch->flow.leaving, &scratch->reply_tuple);
	if (!lb_port_usable(scratch->flow.leaving.source_port))
		;
	else if (LB_PER_OBJECT(lb_reply_in_use)(probing->ctx, &scratch->reply_tuple))
		lb_count(LB_OUTCOME_tuple_in_use);
	else
		claim = lb_claim_tuple();
	if (claim == LB_CLAIM_UNASSURED)
		lb_note_oldest(scratch);
	if (claim == LB_CLAIM_TAKEN || claim == LB_CLAIM_UNASSURED) {
		lb_note_collision(scratch);
		return 0;
	}
	probing->outcome = claim == LB_CLAIMED ? LB_OUTCOME_NONE : LB_OUTCOME_flow_table_full;
	return 1;
}

/*
 * Claims a source port for `scratch->flow`, whose reply track is in `scratch->reply`: the client's own port
 * if only the destination is rewritten and the port is free, or one of ours. Returns LB_OUTCOME_NONE, or the
 * packet's outcome.
 */
LB_FUNCTION enum lb_outcome LB_PER_OBJECT(lb_claim_source_port)(void *ctx __arg_ctx)
{
	struct lb_scratch *scratch = lb_scratch_get();
	struct lb_probing probing = {.ctx = ctx, .scratch = scratch, .outcome = LB_OUTCOME_ports_exhausted};
	int claim;

	if (!scratch)
		return LB_OUTCOME_flow_table_full;
	scratch->oldest_age = 0;
	lb_reverse(&scratch->packet.tuple, &scratch->reply.leaving);
	if (scratch->flow.track.source_nat == LB_NO) {
		claim = LB_PER_OBJECT(lb_claim_own_port)(ctx);
		if (claim == LB_CLAIMED || claim == LB_CLAIM_REFUSED)
			return claim == LB_CLAIMED ? LB_OUTCOME_NONE : LB_OUTCOME_flow_table_full;
	}
	bpf_loop(lb_probes(scratch), LB_PER_OBJECT(lb_probe), &probing, 0);
	if (probing.outcome != LB_OUTCOME_ports_exhausted)
		return probing.outcome;
	return scratch->needs_claim == LB_YES ? LB_OUTCOME_unrelated : lb_displace();
}

#endif
