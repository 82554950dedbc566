/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counters of outcomes, the configuration and the clock. Included by every program. */
#ifndef SLUICE_BPF_STATS_H
#define SLUICE_BPF_STATS_H

#include "maps/abi/choices.h"
#include "maps/abi/maps.bpf.h"

/*
 * A function that the verifier checks once, separately; for the verifier, its pointers may be null. Weak,
 * because several objects contain it and are linked into one.
 */
#define LB_FUNCTION __weak __attribute__((noinline))

/*
 * A number about which the compiler has no information. Older verifiers (before 6.10) track a bound only in
 * the compared register, not in its 32-bit copies, and do not know the range of a function's return value; so
 * an index or an outcome passes through here once, and is then compared and used in this one 64-bit
 * register.
 */
static __always_inline __u64 lb_opaque(__u64 number)
{
	asm volatile("" : "+r"(number));
	return number;
}

/* Set by the agent before load. One object for all programs of the linked file. */
const volatile struct lb_config lb_config __weak = {
	.clock_factor = (1ULL << 32) / 250,
	.unassured_seconds = LB_UNASSURED_SECONDS,
	.first_port = 1024,
	.last_port = 29999,
	.high_first_port = 61000,
	.high_last_port = 65535,
};

/* Likewise. */
const volatile struct lb_choices lb_choices __weak = {
	.tc_fastpath = LB_YES,
	.xdp_fastpath = LB_YES,
	.egress_verdicts = LB_YES,
};

enum lb_action {
	LB_ACTION_PASS,
	LB_ACTION_STACK,
	LB_ACTION_REDIRECT,
	LB_ACTION_ANSWER,
	LB_ACTION_DROP,
	LB_ACTION_CALL,
	LB_ACTION_EVENT,
};

/* The table from outcomes to actions. */
static __always_inline enum lb_action lb_action(enum lb_outcome outcome)
{
	switch (outcome) {
#define LB_OUTCOME_ACTION(name, action, meaning)                                                             \
	case LB_OUTCOME_##name:                                                                              \
		return LB_ACTION_##action;
		LB_OUTCOMES(LB_OUTCOME_ACTION)
#undef LB_OUTCOME_ACTION
	default:
		return LB_ACTION_PASS;
	}
}

static __always_inline __u64 *lb_counter(enum lb_outcome outcome)
{
	__u32 zero = 0;
	struct lb_stats *stats = bpf_map_lookup_elem(&lb_stats, &zero);
	__u64 index = lb_opaque(outcome);

	return stats && index < LB_OUTCOME_COUNT ? (__u64 *)stats + index : NULL;
}

/*
 * Whether a task may preempt another one within a packet hook, and run a packet hook on the same CPU: on
 * PREEMPT_RT, where disabling bottom halves disables no preemption. Older ones have a lock that keeps the
 * other task waiting (later PREEMPT_RT_NEEDS_BH_LOCK); programs cannot see whether there is one.
 */
static __always_inline int lb_is_preemptible(void)
{
	return lb_config.preemptible == LB_YES;
}

/* For packet hooks, which run with bottom halves disabled: elsewhere no other counting on this CPU meanwhile. */
static __always_inline void lb_count(enum lb_outcome outcome)
{
	__u64 *counter = lb_counter(outcome);

	if (counter && lb_is_preemptible())
		__sync_fetch_and_add(counter, 1);
	else if (counter)
		*counter += 1;
}

/* For socket hooks, which may interrupt one another. */
static __always_inline void lb_count_call(enum lb_outcome outcome)
{
	__u64 *counter = lb_counter(outcome);

	if (counter)
		__sync_fetch_and_add(counter, 1);
}

/* Coarse seconds: reading jiffies is thirty times cheaper than reading the clock. */
static __always_inline __u32 lb_clock(void)
{
	return (__u32)(bpf_jiffies64() * lb_config.clock_factor >> 32);
}

#endif
