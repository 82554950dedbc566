/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fragments that come before the first one of their datagram, which alone has the ports. They go to the stack, for they may
 * be anybody's; of each a copy is kept, and where the first one turns out to be a service's it is received again, with the
 * copies behind it. tc only: XDP leaves fragments to it.
 */
#ifndef SLUICE_BPF_FRAG_QUEUE_H
#define SLUICE_BPF_FRAG_QUEUE_H

#include <linux/if_ether.h>

#include "bpf/flow/fragment.h"

#define LB_MAX_EARLY 256    /* copies: of four datagrams of the largest size */
#define LB_EARLY_FRAME 1536 /* bytes; a larger fragment is not kept */

/* Who has set LB_EARLY_BUSY owns the copy until he sets another state; nobody waits for it. */
enum lb_early_state { LB_EARLY_FREE, LB_EARLY_BUSY, LB_EARLY_KEPT };

struct lb_early {
	struct lb_fragment_key datagram;
	__u32 device; /* interface index that it was seen on, */
	__u32 hook; /* and enum lb_hook: a datagram may pass us more than once, with other frames around it */
	__u32 state;
	__u32 seen;
	__u32 length;
	__u32 behind; /* the place of the next copy that goes with this one, plus one */
	__u8 frame[LB_EARLY_FRAME];
};

/* The oldest copy gives way: a flood of fragments displaces nothing but such copies. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LB_MAX_EARLY);
	__type(key, __u32);
	__type(value, struct lb_early);
} lb_early SEC(".maps") __weak;

/* Where to look for copies; the copy itself says whose it is. */
struct lb_early_index {
	__u32 next; /* how many places were given out */
	__u32 seen; /* when the last one was */
	__u32 tags[LB_MAX_EARLY];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lb_early_index);
} lb_early_index SEC(".maps") __weak;

static __always_inline struct lb_early_index *lb_early_places(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&lb_early_index, &zero);
}

/* Never 0, which is nobody's. */
static __always_inline __u32 lb_early_tag(const struct lb_fragment_key *datagram, __u32 device, __u32 hook)
{
	return lb_fragment_check(datagram, (__u64)device << 32 | hook) | 1;
}

static __always_inline int lb_early_take(struct lb_early *copy, __u32 state)
{
	return state != LB_EARLY_BUSY &&
	       __sync_val_compare_and_swap(&copy->state, state, LB_EARLY_BUSY) == state;
}

static __always_inline void lb_early_give(struct lb_early *copy, enum lb_early_state state)
{
	__sync_lock_test_and_set(&copy->state, state);
}

/* Keeps a copy of a later fragment in the place of the oldest one; 0 where that cannot be. */
LB_FUNCTION int lb_early_keep(struct __sk_buff *skb)
{
	const struct lb_work *work = lb_work_here();
	struct lb_early_index *index = lb_early_places();
	struct lb_fragment_key datagram;
	struct lb_early *copy;
	__u64 length = skb->len;
	__u32 place;
	long failed;

	if (!work || !index || !lb_within(&length, sizeof(struct ethhdr), LB_EARLY_FRAME))
		return 0;
	place = __sync_fetch_and_add(&index->next, 1) % LB_MAX_EARLY;
	copy = bpf_map_lookup_elem(&lb_early, &place);
	if (!copy || !lb_early_take(copy, *(volatile __u32 *)&copy->state))
		return 0;
	lb_fragment_key_of(&work->packet, &datagram);
	copy->datagram = datagram;
	copy->device = work->device;
	copy->hook = work->hook;
	copy->seen = lb_clock();
	copy->length = length;
	failed = bpf_skb_load_bytes(skb, 0, copy->frame, length);
	*(volatile __u32 *)&index->tags[place % LB_MAX_EARLY] =
		lb_early_tag(&datagram, work->device, work->hook);
	*(volatile __u32 *)&index->seen = copy->seen;
	lb_early_give(copy, failed ? LB_EARLY_FREE : LB_EARLY_KEPT);
	if (!failed)
		lb_count(LB_OUTCOME_early_kept);
	return !failed;
}

/* What is sought, and then sent. `first` is the place of the oldest copy that was found, plus one. */
struct lb_early_train {
	struct __sk_buff *skb;
	struct lb_early_index *index;
	struct lb_fragment_key datagram;
	__u32 device;
	__u32 hook;
	__u32 tag;
	__u32 newest;
	__u32 first;
};

static __always_inline int lb_early_belongs(const struct lb_early *copy, const struct lb_early_train *train)
{
	return copy->device == train->device && copy->hook == train->hook &&
	       !__builtin_memcmp(&copy->datagram, &train->datagram, sizeof(copy->datagram)) &&
	       lb_clock() - copy->seen <= LB_FRAGMENT_SECONDS;
}

/* Takes the copy at one place, the newest come first, if it is the datagram's. */
static long lb_early_collect(__u32 back, struct lb_early_train *train)
{
	__u32 place = (train->newest - 1 - back) % LB_MAX_EARLY;
	struct lb_early *copy;

	if (*(volatile __u32 *)&train->index->tags[place] != train->tag)
		return 0;
	copy = bpf_map_lookup_elem(&lb_early, &place);
	if (!copy || !lb_early_take(copy, LB_EARLY_KEPT))
		return 0;
	if (!lb_early_belongs(copy, train)) {
		lb_early_give(copy, LB_EARLY_KEPT);
		return 0;
	}
	copy->behind = train->first;
	train->first = place + 1;
	return 0;
}

/* An ingress hook's packets are received again, an egress hook's are sent again. */
static __always_inline long lb_early_again(struct __sk_buff *skb, __u32 hook)
{
	return bpf_clone_redirect(skb, skb->ifindex,
				  hook == LB_HOOK_TC_EGRESS || hook == LB_HOOK_POD_EGRESS ? 0
											  : BPF_F_INGRESS);
}

/* Gives the packet the copy's length and all behind its Ethernet header, which is the same. */
static __always_inline long lb_early_become(struct __sk_buff *skb, const struct lb_early *copy)
{
	__u64 length = *(const volatile __u32 *)&copy->length;

	if (!lb_within(&length, sizeof(struct ethhdr) + 1, LB_EARLY_FRAME) ||
	    bpf_skb_change_tail(skb, length, 0))
		return -1;
	return bpf_skb_store_bytes(skb, sizeof(struct ethhdr), copy->frame + sizeof(struct ethhdr),
				   length - sizeof(struct ethhdr), BPF_F_RECOMPUTE_CSUM);
}

/* The next copy that goes, or NULL after the last one. */
static __always_inline struct lb_early *lb_early_shift(struct lb_early_train *train)
{
	__u32 place = train->first - 1;
	struct lb_early *copy = bpf_map_lookup_elem(&lb_early, &place);

	if (copy)
		train->first = copy->behind;
	return copy;
}

/* Sends the next copy in the packet's skin and gives its place back; 1 ends the train. */
static long lb_early_send(__u32 number, struct lb_early_train *train)
{
	struct lb_early *copy = lb_early_shift(train);

	(void)number;
	if (!copy)
		return 1;
	if (!lb_early_become(train->skb, copy) && !lb_early_again(train->skb, train->hook))
		lb_count(LB_OUTCOME_early_sent);
	lb_early_give(copy, LB_EARLY_FREE);
	return 0;
}

static long lb_early_drop(__u32 number, struct lb_early_train *train)
{
	struct lb_early *copy = lb_early_shift(train);

	(void)number;
	if (!copy)
		return 1;
	lb_early_give(copy, LB_EARLY_FREE);
	return 0;
}

/*
 * The first fragment of a service's datagram, whose ports are remembered by now. If copies of others wait, it is received
 * again and they behind it, and 1 says that this packet is spent; no copy comes twice. What is sent out again passes these
 * programs at once, so nothing of the CPU's work is believed after that.
 */
LB_FUNCTION int lb_early_release(struct __sk_buff *skb)
{
	const struct lb_work *work = lb_work_here();
	struct lb_early_train train = {.skb = skb, .index = lb_early_places()};

	if (!work || !train.index || lb_clock() - *(volatile __u32 *)&train.index->seen > LB_FRAGMENT_SECONDS)
		return 0;
	lb_fragment_key_of(&work->packet, &train.datagram);
	train.device = work->device;
	train.hook = work->hook;
	train.tag = lb_early_tag(&train.datagram, train.device, train.hook);
	train.newest = *(volatile __u32 *)&train.index->next;
	bpf_loop(LB_MAX_EARLY, lb_early_collect, &train, 0);
	if (!train.first)
		return 0;
	if (lb_early_again(skb, train.hook)) {
		bpf_loop(LB_MAX_EARLY, lb_early_drop, &train, 0);
		return 0;
	}
	bpf_loop(LB_MAX_EARLY, lb_early_send, &train, 0);
	return 1;
}

#endif
