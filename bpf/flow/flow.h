/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The flow tables: map the tuple of an arriving packet to the tuple with which it leaves. Only this file
 * distinguishes the two address widths. A value is copied and checked against its key before use; a failed
 * check counts as a miss.
 */
#ifndef SLUICE_BPF_FLOW_H
#define SLUICE_BPF_FLOW_H

#include <asm/errno.h>

#include "bpf/flow/scratch.h"
#include "bpf/packet/packet.h"
#include "bpf/packet/stats.h"
#include "bpf/select/service.h"
#include "maps/abi/maps.bpf.h"

enum lb_table { LB_ASSURED, LB_UNASSURED };

/* Independent multiplications, so they overlap; every input bit reaches the top of the sum. */
#define LB_ODD_0 0x9e3779b97f4a7c15ULL
#define LB_ODD_1 0xbf58476d1ce4e5b9ULL
#define LB_ODD_2 0x94d049bb133111ebULL
#define LB_ODD_3 0xd6e8feb86659fd93ULL
#define LB_ODD_4 0xa0761d6478bd642fULL
#define LB_ODD_5 0xe7037ed1a0b428dbULL
#define LB_ODD_6 0x8ebc6af09c88c6e3ULL
#define LB_ODD_7 0x589965cc75374cc3ULL
#define LB_ODD_8 0x1d8e4e27c47d124fULL
#define LB_ODD_9 0xeb44accab455d165ULL
#define LB_ODD_A 0xc2b2ae3d27d4eb4fULL
#define LB_ODD_B 0x165667b19e3779f9ULL

static __always_inline void lb_reverse(const struct lb_tuple *tuple, struct lb_tuple *reversed)
{
	reversed->source = tuple->destination;
	reversed->destination = tuple->source;
	reversed->source_port = tuple->destination_port;
	reversed->destination_port = tuple->source_port;
	reversed->protocol = tuple->protocol;
	reversed->family = tuple->family;
	__builtin_memset(reversed->pad, 0, sizeof(reversed->pad));
}

static __always_inline int lb_same_tuple(const struct lb_tuple *one, const struct lb_tuple *other)
{
	const __u64 *a = (const __u64 *)one, *b = (const __u64 *)other;

	return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3] && a[4] == b[4];
}

static __always_inline void *lb_flow_map(enum lb_table table, enum lb_family family)
{
	if (table == LB_ASSURED)
		return family == LB_IPV4 ? (void *)&lb_flows4 : (void *)&lb_flows6;
	return family == LB_IPV4 ? (void *)&lb_unassured4 : (void *)&lb_unassured6;
}

/*
 * ---- The track's part that is constant, and tied to the key like the addresses. It is read in the words in
 * which it is copied: reading a whole word that a program stored in pieces would stall. ----
 */

LB_ASSERT(offsetof(struct lb_track, backend) == 0 && offsetof(struct lb_track, service) == 4);
LB_ASSERT(offsetof(struct lb_track, side) == 24 && offsetof(struct lb_track, state) == 28);
#define LB_ALL_BUT_STATE 0xffffff00ffffffffULL

static __always_inline __u64 lb_track_ids(const struct lb_track *track)
{
	return *(const __u64 *)track;
}

static __always_inline __u64 lb_track_attributes(const struct lb_track *track)
{
	return ((const __u64 *)track)[3] & LB_ALL_BUT_STATE;
}

/*
 * The device may be learnt later, so no check covers it: it is read before everything that is checked. If the
 * element was reused in between, the other words are another entry's, and the check fails.
 */
static __always_inline void lb_copy_device(const struct lb_track *from, struct lb_track *to)
{
	((__u64 *)to)[1] = lb_load((const __u64 *)from + 1);
}

static __always_inline void lb_copy_rest(const struct lb_track *from, struct lb_track *to)
{
	__u64 *words = (__u64 *)to;

	words[0] = lb_load((const __u64 *)from);
	words[2] = lb_load((const __u64 *)from + 2);
	words[3] = lb_load((const __u64 *)from + 3);
	barrier(); /* the check reads the words again: registers would be spilled */
}

/* ---- IPv4: 16-byte keys, and ends of one word each. ---- */

static __always_inline void lb_key4(const struct lb_tuple *tuple, struct lb_flow4_key *key)
{
	__u64 *words = (__u64 *)key;

	words[0] = (__u64)tuple->destination.words[3] << 32 | tuple->source.words[3];
	words[1] = (__u64)tuple->protocol << 32 | (__u64)tuple->destination_port << 16 | tuple->source_port;
}

/* An end is one word: address, port, check. */
#define LB_END4_CHECK 48
#define LB_END4_PLACE ((1ULL << LB_END4_CHECK) - 1)

static __always_inline __u64 lb_place4(const union lb_ip *address, __u16 port)
{
	return (__u64)port << 32 | address->words[3];
}

/* The check of one end (0: source, 1: destination), over key, end, and half of the track's constant part. */
static __always_inline __u64 lb_sum4(const struct lb_flow4_key *key, __u64 end, const struct lb_track *track,
				     int which)
{
	const __u64 *words = (const __u64 *)key;
	__u64 place = end & LB_END4_PLACE, sum = words[0] * LB_ODD_0 + words[1] * LB_ODD_1;

	return sum + (which ? place * LB_ODD_2 + lb_track_attributes(track) * LB_ODD_4
			    : place * LB_ODD_3 + lb_track_ids(track) * LB_ODD_5);
}

static __always_inline int lb_checks4(const struct lb_flow4_key *key, const __u64 *ends,
				      const struct lb_track *track)
{
	return !((lb_sum4(key, ends[0], track, 0) ^ ends[0]) >> LB_END4_CHECK |
		 (lb_sum4(key, ends[1], track, 1) ^ ends[1]) >> LB_END4_CHECK);
}

static __always_inline __u64 lb_end4(const struct lb_flow4_key *key, __u64 place,
				     const struct lb_track *track, int which)
{
	return place | (lb_sum4(key, place, track, which) & ~LB_END4_PLACE);
}

static __always_inline void lb_leaving4(const __u64 *ends, const struct lb_tuple *arriving,
					struct lb_tuple *leaving)
{
	lb_mapped(&leaving->source, (__u32)ends[0]);
	lb_mapped(&leaving->destination, (__u32)ends[1]);
	leaving->source_port = (__u16)(ends[0] >> 32);
	leaving->destination_port = (__u16)(ends[1] >> 32);
	leaving->protocol = arriving->protocol;
	leaving->family = LB_IPV4;
	__builtin_memset(leaving->pad, 0, sizeof(leaving->pad));
}

static __always_inline struct lb_track *lb_find4(void *map, const struct lb_tuple *arriving,
						 struct lb_flow *flow)
{
	struct lb_flow4_key key;
	struct lb_flow4 *value;
	__u64 ends[2];

	lb_key4(arriving, &key);
	value = bpf_map_lookup_elem(map, &key);
	if (!value)
		return NULL;
	lb_copy_device(&value->track, &flow->track);
	ends[0] = lb_load(&value->source);
	ends[1] = lb_load(&value->destination);
	lb_copy_rest(&value->track, &flow->track);
	if (!lb_checks4(&key, ends, &flow->track)) {
		lb_count(LB_OUTCOME_check_failed);
		return NULL;
	}
	lb_leaving4(ends, arriving, &flow->leaving);
	return &value->track;
}

static __always_inline long lb_insert4(void *map, const struct lb_tuple *arriving, const struct lb_flow *flow,
				       __u64 flags)
{
	struct lb_scratch *scratch = lb_scratch_get();
	struct lb_flow4_key key;
	struct lb_flow4 *value;

	if (!scratch)
		return -EINVAL;
	value = &scratch->inserted.v4;
	lb_key4(arriving, &key);
	*(__u64 *)&value->source =
		lb_end4(&key, lb_place4(&flow->leaving.source, flow->leaving.source_port), &flow->track, 0);
	*(__u64 *)&value->destination = lb_end4(
		&key, lb_place4(&flow->leaving.destination, flow->leaving.destination_port), &flow->track, 1);
	value->track = flow->track;
	return bpf_map_update_elem(map, &key, value, flags);
}

/* ---- IPv6: the tuple itself is the key. ---- */

static __always_inline __u32 lb_check6(const struct lb_tuple *key, const struct lb_flow *flow)
{
	const __u64 *k = (const __u64 *)key, *v = (const __u64 *)&flow->leaving;
	__u64 ports = (__u64)flow->leaving.source_port << 16 | flow->leaving.destination_port;

	return (__u32)((k[0] * LB_ODD_0 + k[1] * LB_ODD_1 + k[2] * LB_ODD_2 + k[3] * LB_ODD_3 +
			k[4] * LB_ODD_4 + v[0] * LB_ODD_5 + v[1] * LB_ODD_6 + v[2] * LB_ODD_7 +
			v[3] * LB_ODD_8 + ports * LB_ODD_9 + lb_track_ids(&flow->track) * LB_ODD_A +
			lb_track_attributes(&flow->track) * LB_ODD_B) >>
		       32);
}

/* Copies directly to the caller's memory, to save stack. */
static __always_inline struct lb_track *lb_find6(void *map, const struct lb_tuple *arriving,
						 struct lb_flow *flow)
{
	struct lb_flow6 *value = bpf_map_lookup_elem(map, arriving);
	struct lb_tuple *leaving = &flow->leaving;
	const __u64 *from = (const __u64 *)value;
	__u64 last;

	if (!value)
		return NULL;
	lb_copy_device(&value->track, &flow->track);
	for (int i = 0; i < 4; i++)
		((__u64 *)leaving)[i] = lb_load(from + i);
	last = lb_load(from + 4);
	lb_copy_rest(&value->track, &flow->track);
	leaving->source_port = (__u16)last;
	leaving->destination_port = (__u16)(last >> 16);
	leaving->protocol = arriving->protocol;
	leaving->family = LB_IPV6;
	__builtin_memset(leaving->pad, 0, sizeof(leaving->pad));
	if ((__u32)(last >> 32) == lb_check6(arriving, flow))
		return &value->track;
	lb_count(LB_OUTCOME_check_failed);
	return NULL;
}

static __always_inline long lb_insert6(void *map, const struct lb_tuple *arriving, const struct lb_flow *flow,
				       __u64 flags)
{
	struct lb_tuple key = *arriving; /* before 6.2 the verifier accepts no key in an argument's memory */
	struct lb_scratch *scratch = lb_scratch_get();
	struct lb_flow6 *value;

	if (!scratch)
		return -EINVAL;
	value = &scratch->inserted.v6;
	*(union lb_ip *)value->source = flow->leaving.source;
	*(union lb_ip *)value->destination = flow->leaving.destination;
	value->source_port = flow->leaving.source_port;
	value->destination_port = flow->leaving.destination_port;
	value->check = lb_check6(arriving, flow);
	value->track = flow->track;
	return bpf_map_update_elem(map, &key, value, flags);
}

/* ---- Both families. ---- */

/* Copies the entry at that tuple and returns its live track, for updates of times and states. */
static __always_inline struct lb_track *lb_flow_find(enum lb_table table, const struct lb_tuple *arriving,
						     struct lb_flow *flow)
{
	if (arriving->family == LB_IPV4)
		return lb_find4(lb_flow_map(table, LB_IPV4), arriving, flow);
	return lb_find6(lb_flow_map(table, LB_IPV6), arriving, flow);
}

/* Returns 0, or the kernel's negative error: -EEXIST, -E2BIG, -ENOMEM, -EBUSY. */
LB_FUNCTION long lb_flow_insert(enum lb_table table, const struct lb_tuple *arriving,
				const struct lb_flow *flow, __u64 flags)
{
	if (!arriving || !flow)
		return -EINVAL;
	if (arriving->family == LB_IPV4)
		return table == LB_ASSURED ? lb_insert4(&lb_flows4, arriving, flow, flags)
					   : lb_insert4(&lb_unassured4, arriving, flow, flags);
	return table == LB_ASSURED ? lb_insert6(&lb_flows6, arriving, flow, flags)
				   : lb_insert6(&lb_unassured6, arriving, flow, flags);
}

/* Returns 0 to the caller that has removed the entry. */
static __always_inline long lb_flow_erase(enum lb_table table, const struct lb_tuple *arriving)
{
	struct lb_flow4_key key;

	if (arriving->family == LB_IPV6)
		return bpf_map_delete_elem(lb_flow_map(table, LB_IPV6), arriving);
	lb_key4(arriving, &key);
	return bpf_map_delete_elem(lb_flow_map(table, LB_IPV4), &key);
}

/* An unassured entry that is too old counts as absent. */
static __always_inline struct lb_track *lb_unassured_find(const struct lb_tuple *arriving,
							  struct lb_flow *flow)
{
	struct lb_track *track = lb_flow_find(LB_UNASSURED, arriving, flow);

	if (track && lb_clock() - flow->track.seen > lb_config.unassured_seconds)
		return NULL;
	return track;
}

/* The entry in either table. */
static __always_inline struct lb_track *lb_flow_find_any(const struct lb_tuple *arriving,
							 struct lb_flow *flow)
{
	struct lb_track *track = lb_flow_find(LB_ASSURED, arriving, flow);

	return track ? track : lb_unassured_find(arriving, flow);
}

/* Time is written only when its second changes, so a hot entry's cache line stays clean. */
static __always_inline int lb_flow_touch(struct lb_track *live, const struct lb_track *copy, __u32 now)
{
	if (copy->seen == now)
		return 0;
	live->seen = now;
	return 1;
}

#endif
