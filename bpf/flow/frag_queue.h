/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fragments that arrive before the first one of their datagram, which alone has the ports. It is unknown
 * whether they are for a service, so they are passed to the stack, and a copy of each is queued. If the first
 * fragment is for a service, it is received again, followed by the copies. Only tc: XDP leaves fragments to
 * tc.
 */
#ifndef SLUICE_BPF_FRAG_QUEUE_H
#define SLUICE_BPF_FRAG_QUEUE_H

#include <linux/bpf.h>
#include <linux/if_ether.h>

#include "bpf/flow/fragment.h"
#include "bpf/flow/scratch.h"
#include "bpf/packet/length.h"
#include "bpf/packet/stats.h"
#include "maps/abi/abi.h"

#define LB_FRAG_QUEUE_SIZE 256   /* copies: of four datagrams of the largest size */
#define LB_FRAG_QUEUE_FRAME 1536 /* bytes; larger fragments are not queued */

/*
 * The CPU that has set LB_FRAG_BUSY owns the copy until it sets another state. Other CPUs do not wait, but
 * skip the copy. Both are atomic operations that return a value, so the copy's contents are read after the
 * first and written before the second. Tags only show where to look, and may be seen early or late.
 */
enum lb_frag_state { LB_FRAG_FREE, LB_FRAG_BUSY, LB_FRAG_QUEUED };

struct lb_frag_queue {
	struct lb_fragment_key datagram;
	__u32 device; /* interface index of the device that received it, */
	__u32 hook; /* and enum lb_hook: a datagram may pass us more than once, with other frames around it */
	__u32 state;
	__u32 seen;
	__u32 length;
	__u32 behind; /* the slot of the next copy of this datagram, plus one */
	__u8 frame[LB_FRAG_QUEUE_FRAME];
};

/* The oldest copy is replaced: a flood of fragments displaces only such copies. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LB_FRAG_QUEUE_SIZE);
	__type(key, __u32);
	__type(value, struct lb_frag_queue);
} lb_frag_queue SEC(".maps") __weak;

/* Index of the copies; each copy itself identifies its datagram. */
struct lb_frag_index {
	__u32 next; /* number of slots assigned so far */
	__u32 seen; /* time of the last assignment */
	__u32 tags[LB_FRAG_QUEUE_SIZE];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lb_frag_index);
} lb_frag_index SEC(".maps") __weak;

static __always_inline struct lb_frag_index *lb_frag_queue_slots(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&lb_frag_index, &zero);
}

/* Never 0, which marks a free slot. */
static __always_inline __u32 lb_frag_tag(const struct lb_fragment_key *datagram, __u32 device, __u32 hook)
{
	return lb_fragment_check(datagram, (__u64)device << 32 | hook) | 1;
}

static __always_inline int lb_frag_acquire(struct lb_frag_queue *copy, __u32 state)
{
	return state != LB_FRAG_BUSY &&
	       __sync_val_compare_and_swap(&copy->state, state, LB_FRAG_BUSY) == state;
}

static __always_inline void lb_frag_set_state(struct lb_frag_queue *copy, enum lb_frag_state state)
{
	__sync_lock_test_and_set(&copy->state, state);
}

/* Queues a copy of a later fragment in the slot of the oldest one; 0 if impossible. */
LB_FUNCTION int lb_frag_enqueue(struct __sk_buff *skb)
{
	const struct lb_scratch *scratch = lb_scratch_get();
	struct lb_frag_index *index = lb_frag_queue_slots();
	struct lb_fragment_key datagram;
	struct lb_frag_queue *copy;
	__u32 length = skb->len;
	__u32 slot;
	long failed;

	if (!scratch || !index || length < sizeof(struct ethhdr) || length > LB_FRAG_QUEUE_FRAME)
		return 0;
	slot = __sync_fetch_and_add(&index->next, 1) % LB_FRAG_QUEUE_SIZE;
	copy = bpf_map_lookup_elem(&lb_frag_queue, &slot);
	if (!copy || !lb_frag_acquire(copy, *(volatile __u32 *)&copy->state))
		return 0;
	lb_fragment_key_of(&scratch->packet, &datagram);
	copy->datagram = datagram;
	copy->device = scratch->device;
	copy->hook = scratch->hook;
	copy->seen = lb_clock();
	copy->length = length;
	failed = lb_load_bytes(skb, 0, copy->frame,
			       lb_bounded(length, sizeof(struct ethhdr), LB_FRAG_QUEUE_FRAME));
	*(volatile __u32 *)&index->tags[slot % LB_FRAG_QUEUE_SIZE] =
		lb_frag_tag(&datagram, scratch->device, scratch->hook);
	*(volatile __u32 *)&index->seen = copy->seen;
	lb_frag_set_state(copy, failed ? LB_FRAG_FREE : LB_FRAG_QUEUED);
	if (!failed)
		lb_count(LB_OUTCOME_frag_queued);
	return !failed;
}

/* The state of searching and sending copies. `first` is the slot of the oldest copy found, plus one. */
struct lb_frag_replay {
	struct __sk_buff *skb;
	struct lb_frag_index *index;
	struct lb_fragment_key datagram;
	__u32 device;
	__u32 hook;
	__u32 tag;
	__u32 newest;
	__u32 first;
};

static __always_inline int lb_frag_matches(const struct lb_frag_queue *copy,
					   const struct lb_frag_replay *replay)
{
	return copy->device == replay->device && copy->hook == replay->hook &&
	       !__builtin_memcmp(&copy->datagram, &replay->datagram, sizeof(copy->datagram)) &&
	       lb_clock() - copy->seen <= LB_FRAGMENT_SECONDS;
}

/* Collects the copy in one slot, newest first, if it is of this datagram. */
static long lb_frag_collect(__u32 back, struct lb_frag_replay *replay)
{
	__u32 slot = (replay->newest - 1 - back) % LB_FRAG_QUEUE_SIZE;
	struct lb_frag_queue *copy;

	if (*(volatile __u32 *)&replay->index->tags[slot] != replay->tag)
		return 0;
	copy = bpf_map_lookup_elem(&lb_frag_queue, &slot);
	if (!copy || !lb_frag_acquire(copy, LB_FRAG_QUEUED))
		return 0;
	if (!lb_frag_matches(copy, replay)) {
		lb_frag_set_state(copy, LB_FRAG_QUEUED);
		return 0;
	}
	copy->behind = replay->first;
	replay->first = slot + 1;
	return 0;
}

/* An ingress hook's packets are received again, an egress hook's are sent again. */
static __always_inline long lb_frag_reinject(struct __sk_buff *skb, __u32 hook)
{
	return bpf_clone_redirect(skb, skb->ifindex,
				  hook == LB_HOOK_TC_EGRESS || hook == LB_HOOK_POD_EGRESS ? 0
											  : BPF_F_INGRESS);
}

/* Gives the packet the copy's length and its content after the Ethernet header, which is equal. */
static __always_inline long lb_frag_restore(struct __sk_buff *skb, const struct lb_frag_queue *copy)
{
	const __u32 header = sizeof(struct ethhdr);
	__u32 length = *(const volatile __u32 *)&copy->length;

	if (length <= header || length > LB_FRAG_QUEUE_FRAME || bpf_skb_change_tail(skb, length, 0))
		return -1;
	return lb_store_bytes(skb, header, copy->frame + header,
			      lb_bounded(length - header, 1, LB_FRAG_QUEUE_FRAME - header),
			      BPF_F_RECOMPUTE_CSUM);
}

/* The next copy to send, or NULL after the last one. */
static __always_inline struct lb_frag_queue *lb_frag_next(struct lb_frag_replay *replay)
{
	__u32 slot = replay->first - 1;
	struct lb_frag_queue *copy = bpf_map_lookup_elem(&lb_frag_queue, &slot);

	if (copy)
		replay->first = copy->behind;
	return copy;
}

/* Sends the next copy by means of the packet, and frees its slot; 1 ends the replay. */
static long lb_frag_replay_one(__u32 number, struct lb_frag_replay *replay)
{
	struct lb_frag_queue *copy = lb_frag_next(replay);

	(void)number;
	if (!copy)
		return 1;
	if (!lb_frag_restore(replay->skb, copy) && !lb_frag_reinject(replay->skb, replay->hook))
		lb_count(LB_OUTCOME_frag_replayed);
	lb_frag_set_state(copy, LB_FRAG_FREE);
	return 0;
}

static long lb_frag_drop(__u32 number, struct lb_frag_replay *replay)
{
	struct lb_frag_queue *copy = lb_frag_next(replay);

	(void)number;
	if (!copy)
		return 1;
	lb_frag_set_state(copy, LB_FRAG_FREE);
	return 0;
}

/*
 * For the first fragment of a service's datagram, whose ports are stored by now. If copies of other fragments
 * are queued, it is received again, followed by them, and 1 is returned: this packet is consumed; no copy is
 * sent twice. Packets that are sent out again run these programs at once, so the CPU's scratch memory is
 * invalid afterwards.
 */
LB_FUNCTION int lb_frag_replay_all(struct __sk_buff *skb)
{
	const struct lb_scratch *scratch = lb_scratch_get();
	struct lb_frag_replay replay = {.skb = skb, .index = lb_frag_queue_slots()};

	if (!scratch || !replay.index ||
	    lb_clock() - *(volatile __u32 *)&replay.index->seen > LB_FRAGMENT_SECONDS)
		return 0;
	lb_fragment_key_of(&scratch->packet, &replay.datagram);
	replay.device = scratch->device;
	replay.hook = scratch->hook;
	replay.tag = lb_frag_tag(&replay.datagram, replay.device, replay.hook);
	replay.newest = *(volatile __u32 *)&replay.index->next;
	bpf_loop(LB_FRAG_QUEUE_SIZE, lb_frag_collect, &replay, 0);
	if (!replay.first)
		return 0;
	if (lb_frag_reinject(skb, replay.hook)) {
		bpf_loop(LB_FRAG_QUEUE_SIZE, lb_frag_drop, &replay, 0);
		return 0;
	}
	bpf_loop(LB_FRAG_QUEUE_SIZE, lb_frag_replay_one, &replay, 0);
	return 1;
}

#endif
