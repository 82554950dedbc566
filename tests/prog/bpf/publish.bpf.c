/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The checker of publishing: selects backends as every program does, and counts each backend that its service
 * cannot have had at that moment. Tests only.
 *
 * An endpoint's address identifies it: {service tag, generation} and {index, seal}; its port repeats the
 * generation. So a mix of two endpoints is detected.
 */
#include "bpf/select/service.h"
#include "maps/abi/checks.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define SELECTIONS 32
#define SERVICES 2

struct {
	__u64 selections;
	__u64 misses;    /* no frontend, no set, or a slot of another service's backend */
	__u64 strangers; /* an endpoint of another service */
	__u64 torn;      /* a mix of two endpoints */
	__u64 untimely;  /* an endpoint of a generation that was not published during the selection */
} checker;
__u32 held;              /* idle steps between the set and the slot */
__u32 modulus;           /* generations repeat after this number; 0: never */
__u32 started[SERVICES]; /* the generation being written or written last */
__u32 shown[SERVICES];   /* the generation published last */

static long idle(__u32 step, void *context)
{
	(void)step;
	(void)context;
	return 0;
}

static __always_inline __u32 seal(__u32 tag, __u32 generation)
{
	return (generation + 1) * 0x9e3779b1u ^ tag;
}

static __always_inline int timely(__u32 generation, __u32 before, __u32 after)
{
	if (!modulus)
		return generation - before <= after - before;
	return after - before + 1 >= modulus ||
	       (generation + modulus - before % modulus) % modulus <= after - before;
}

static __always_inline void judge(const struct lb_backend *backend, __u32 tag, __u32 before, __u32 after)
{
	__u64 owner = lb_word(backend->address);
	__u64 rest = lb_word(backend->address + 8);
	__u32 generation = (__u32)owner;

	if (owner >> 32 != tag)
		checker.strangers++;
	if ((__u32)rest != seal(owner >> 32, generation) || backend->port != (__u16)generation)
		checker.torn++;
	else if (!timely(generation, before, after))
		checker.untimely++;
}

static __always_inline void select_one(__u32 tag)
{
	struct lb_frontend_key key = {.port = 80, .protocol = LB_TCP};
	struct lb_frontend frontend = {};
	struct lb_backend backend = {};
	const struct lb_service *service;
	__u32 index = tag & (SERVICES - 1);
	__u32 before = *(volatile __u32 *)&shown[index];
	struct lb_set set;
	__u32 id;

	checker.selections++;
	key.address[15] = 1 + index;
	if (!lb_frontend_load(&key, &frontend) || !(service = lb_service_of(frontend.service))) {
		checker.misses++;
		return;
	}
	set = lb_set_load(service, LB_CLUSTER);
	if (held)
		bpf_loop(held, idle, NULL, 0);
	if (lb_pick(set, frontend.service, bpf_get_prandom_u32(), &id, &backend) != LB_PICKED) {
		checker.misses++;
		return;
	}
	judge(&backend, index, before, *(volatile __u32 *)&started[index]);
}

SEC("tc")
int lb_checker(struct __sk_buff *skb)
{
	(void)skb;
	for (int i = 0; i < SELECTIONS; i++)
		select_one(i);
	return 0;
}
