/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Claiming the reply's tuple for a new flow, with another source port where it is taken.
 *
 * A tuple has one owner: whose entry lb_flows has, or else whose young entry counts. The kernel deletes by key alone, so
 * whoever deletes what he has looked at may delete what another processor has claimed since. So all that makes an owner
 * (a claim, a claim that takes an old one over, a displacement, the proof) holds the tuple's lock from its first look to its
 * last write. What ends an entry without the lock (eviction, expiry, a new start) makes no owner.
 */
#ifndef SLUICE_BPF_NAT_H
#define SLUICE_BPF_NAT_H

#include "bpf/flow/tuple_in_use.h"

/* With nine ports of ten in use, one flow in a million finds none. */
#define LB_PROBES 128

/* Locks of tuples: 0 or 1. Many, so that two processors seldom meet on one; and pinned, so that old programs share them. */
#define LB_LOCKS 1024
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LB_LOCKS);
	__type(key, __u32);
	__type(value, __u64);
} lb_locks SEC(".maps") __weak;

/* A microsecond or several: a holder has at most five looks into tables to do. */
#define LB_LOCK_TRIES 64

/* NULL: another processor is at it for too long. No program ends, and none interrupts another, while it holds one. */
static __always_inline __u64 *lb_lock(const struct lb_tuple *tuple)
{
	const __u64 *words = (const __u64 *)tuple;
	__u32 place = (__u32)(lb_mix(words[1] ^ words[3], words[4]) >> 32) % LB_LOCKS;
	__u64 *lock = bpf_map_lookup_elem(&lb_locks, &place);

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

/* LB_CLAIM_YOUNG: taken by a flow that is not proven two-way, whose entry is in `work->there`. */
enum lb_claim { LB_CLAIMED, LB_CLAIM_TAKEN, LB_CLAIM_YOUNG, LB_CLAIM_REFUSED };

/* Keyed, so that nobody outside can aim at a backend or at a port. */
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

/* Primes: a step that is no divisor of how many ports there are comes to each of them before it repeats one. */
#define LB_STEPS 16
static const __u16 lb_steps[LB_STEPS] = {
	1009, 1511, 2003, 2503, 3001, 3511, 4001, 4507, 5003, 5501, 6007, 6521, 7001, 7919, 8009, 9973,
};

/*
 * The port of a probe: both ranges in a row, from a place and in steps that the hash decides, so that flows which meet
 * on one port part on the next. 0: no range at all.
 */
static __always_inline __u16 lb_source_port(__u64 hash, __u32 probe)
{
	__u32 low = lb_low_ports(), all = lb_all_ports();
	__u32 step = lb_steps[(hash >> 32) % LB_STEPS];
	__u32 place;

	if (!all)
		return 0;
	if (!(all % step))
		step = 1;
	place = (__u32)(((hash & 0xffffffff) * all >> 32) + (__u64)probe * step) % all;
	return (__u16)(place < low ? lb_config.first_port + place : lb_config.high_first_port + place - low);
}

/*
 * A retransmission finds its own claim. One that lost to lb_flows stays behind as a young entry, which lb_flows hides.
 * With the lock held.
 */
static __always_inline enum lb_claim lb_claim_locked(struct lb_work *work)
{
	struct lb_track *live;
	long error;

	error = lb_flow_insert(LB_YOUNG, &work->other, &work->half, BPF_NOEXIST);
	if (error && error != -EEXIST)
		return LB_CLAIM_REFUSED;
	if (lb_flow_find(LB_FLOWS, &work->other, &work->there))
		return lb_same_tuple(&work->there.leaving, &work->half.leaving) ? LB_CLAIMED : LB_CLAIM_TAKEN;
	if (!error)
		return LB_CLAIMED;
	live = lb_young_find(&work->other, &work->there);
	if (live && !lb_same_tuple(&work->there.leaving, &work->half.leaving))
		return LB_CLAIM_YOUNG;
	if (live) {
		lb_flow_touch(live, &work->there.track, work->half.track.seen);
		return LB_CLAIMED;
	}
	/* Too old to count: taken over. */
	lb_flow_erase(LB_YOUNG, &work->other);
	return lb_flow_insert(LB_YOUNG, &work->other, &work->half, BPF_NOEXIST) ? LB_CLAIM_REFUSED
										: LB_CLAIMED;
}

/* Claims `work->other` for the flow whose reply entry is `work->half`. */
LB_FUNCTION int lb_claim_tuple(void)
{
	struct lb_work *work = lb_work_here();
	enum lb_claim claim;
	__u64 *lock;

	if (!work)
		return LB_CLAIM_REFUSED;
	lock = lb_lock(&work->other);
	if (!lock)
		return LB_CLAIM_TAKEN;
	claim = lb_claim_locked(work);
	lb_unlock(lock);
	return claim;
}

/* Gives the claim back, if it is still the flow's own. */
LB_FUNCTION int lb_unclaim(void)
{
	struct lb_work *work = lb_work_here();
	__u64 *lock;

	if (!work)
		return 0;
	lock = lb_lock(&work->other);
	if (!lock)
		return 0;
	if (lb_flow_find(LB_YOUNG, &work->other, &work->there) &&
	    lb_same_tuple(&work->there.leaving, &work->half.leaving))
		lb_flow_erase(LB_YOUNG, &work->other);
	lb_unlock(lock);
	return 1;
}

/* Neither the kernel's nor a node port, as which a source port would make the reply look like a client. */
static __always_inline int lb_port_usable(__u16 port)
{
	__u32 place = port / 64;
	const __u64 *word = bpf_map_lookup_elem(&lb_reserved, &place);

	return port && word && !(lb_load(word) >> port % 64 & 1);
}

/* Remembers the claim that `work->there` is, if it is the oldest so far that nobody has proven. */
static __always_inline void lb_note_oldest(struct lb_work *work)
{
	__u32 age = lb_clock() - work->there.track.seen + 1;

	if (work->flow.track.source_nat == LB_NO || age <= work->oldest_age)
		return;
	work->oldest_age = age;
	work->oldest_port = work->flow.leaving.source_port;
	work->oldest = work->there.leaving;
}

/* Is the claim still that of the flow that was the oldest, and not proven? With the lock held. */
static __always_inline int lb_displaceable(struct lb_work *work)
{
	return !lb_flow_find(LB_FLOWS, &work->other, &work->there) &&
	       lb_flow_find(LB_YOUNG, &work->other, &work->there) &&
	       lb_same_tuple(&work->there.leaving, &work->oldest);
}

/*
 * Takes the oldest unproven claim among the probes over, so that a flood of flows that nobody answers cannot use the
 * ports up. The loser's packets begin anew.
 */
LB_FUNCTION enum lb_outcome lb_displace(void)
{
	struct lb_work *work = lb_work_here();
	long refused = 1;
	__u64 *lock;

	if (!work || !work->oldest_age)
		return LB_OUTCOME_ports_exhausted;
	work->flow.leaving.source_port = (__u16)work->oldest_port;
	lb_reverse(&work->flow.leaving, &work->other);
	lock = lb_lock(&work->other);
	if (!lock)
		return LB_OUTCOME_ports_exhausted;
	if (lb_displaceable(work)) {
		lb_flow_erase(LB_YOUNG, &work->other);
		refused = lb_flow_insert(LB_YOUNG, &work->other, &work->half, BPF_NOEXIST);
	}
	lb_unlock(lock);
	if (refused)
		return LB_OUTCOME_ports_exhausted;
	lb_reverse(&work->oldest, &work->turned);
	lb_flow_erase(LB_YOUNG, &work->turned);
	lb_count(LB_OUTCOME_port_displaced);
	return LB_FINE;
}

/* No port twice, and one at least. */
static __always_inline __u32 lb_probes(void)
{
	__u32 all = lb_all_ports();

	return all == 0 ? 1 : all < LB_PROBES ? all : LB_PROBES;
}

/* What all probes of one claim share. */
struct lb_probing {
	void *ctx;
	struct lb_work *work;
	enum lb_outcome outcome;
};

/* Is the flow's own claim there already, as a retransmission finds it? Its connection is then the one that the kernel tracks. */
static __always_inline int lb_is_claimed(struct lb_work *work)
{
	return (lb_flow_find(LB_FLOWS, &work->other, &work->there) ||
		lb_young_find(&work->other, &work->there)) &&
	       lb_same_tuple(&work->there.leaving, &work->half.leaving);
}

/*
 * The client's own port: as nobody chose it, the client may have a connection straight to the backend by it. That one keeps the
 * tuple, and this flow another port (as the kernel's own NAT does); a forged packet would else turn its answers around.
 */
LB_FUNCTION int LB_OWN(lb_claim_own_port)(void *ctx __arg_ctx)
{
	struct lb_work *work = lb_work_here();
	int claim;

	if (!work)
		return LB_CLAIM_REFUSED;
	lb_reverse(&work->flow.leaving, &work->other);
	if (!lb_is_claimed(work) &&
	    LB_OWN(lb_is_direct)(ctx, &work->other, work->packet.step == LB_STEP_OPEN)) {
		lb_count(LB_OUTCOME_tuple_held);
		claim = LB_CLAIM_TAKEN;
	} else {
		claim = lb_claim_tuple();
	}
	if (claim == LB_CLAIM_TAKEN || claim == LB_CLAIM_YOUNG)
		lb_count(LB_OUTCOME_port_collision);
	return claim;
}

/* One probe of a port that we choose; 1 ends them. */
static long LB_OWN(lb_probe)(__u32 probe, struct lb_probing *probing)
{
	struct lb_work *work = probing->work;
	int claim = LB_CLAIM_TAKEN;

	work->flow.leaving.source_port = lb_source_port(work->hash, probe);
	lb_reverse(&work->flow.leaving, &work->other);
	if (!lb_port_usable(work->flow.leaving.source_port))
		;
	else if (LB_OWN(lb_taken)(probing->ctx, &work->other))
		lb_count(LB_OUTCOME_tuple_held);
	else
		claim = lb_claim_tuple();
	if (claim == LB_CLAIM_YOUNG)
		lb_note_oldest(work);
	if (claim == LB_CLAIM_TAKEN || claim == LB_CLAIM_YOUNG) {
		lb_count(LB_OUTCOME_port_collision);
		return 0;
	}
	probing->outcome = claim == LB_CLAIMED ? LB_FINE : LB_OUTCOME_flow_table_full;
	return 1;
}

/*
 * Claims a source port for `work->flow`, whose reply's track stands in `work->half`: the client's own where only the destination
 * changes, if it can be had, or one of ours. LB_FINE, or the outcome that ends the packet.
 */
LB_FUNCTION enum lb_outcome LB_OWN(lb_claim)(void *ctx __arg_ctx)
{
	struct lb_work *work = lb_work_here();
	struct lb_probing probing = {.ctx = ctx, .work = work, .outcome = LB_OUTCOME_ports_exhausted};
	int claim;

	if (!work)
		return LB_OUTCOME_flow_table_full;
	work->oldest_age = 0;
	lb_reverse(&work->packet.tuple, &work->half.leaving);
	if (work->flow.track.source_nat == LB_NO) {
		claim = LB_OWN(lb_claim_own_port)(ctx);
		if (claim == LB_CLAIMED || claim == LB_CLAIM_REFUSED)
			return claim == LB_CLAIMED ? LB_FINE : LB_OUTCOME_flow_table_full;
	}
	bpf_loop(lb_probes(), LB_OWN(lb_probe), &probing, 0);
	return probing.outcome == LB_OUTCOME_ports_exhausted ? lb_displace() : probing.outcome;
}

#endif
