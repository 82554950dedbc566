/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Choosing a backend for a client: source ranges, session affinity, and the plain choice. */
#ifndef SLUICE_BPF_AFFINITY_H
#define SLUICE_BPF_AFFINITY_H

#include "work.h"

#define LB_RANGE_BITS 160	/* the service number's and the address's */

/* Is the client in one of the service's source ranges (SEM-37)? A value of another key is looked up once more. */
static __always_inline int lb_in_ranges(__u32 service, const union lb_ip *client)
{
	struct lb_range_key key = {.prefix = LB_RANGE_BITS, .service = service};

	__builtin_memcpy(key.address, client, sizeof(key.address));
	for (int try = 0; try < 2; try++) {
		const struct lb_range *range = bpf_map_lookup_elem(&lb_ranges, &key);

		if (!range)
			return 0;
		if (*(const volatile __u32 *)&range->service == service)
			return 1;
		lb_count(LB_OUTCOME_check_failed);
	}
	return 0;
}

static __always_inline int lb_eligible(const struct lb_backend *backend, enum lb_scope scope)
{
	return (scope == LB_LOCAL ? backend->in_local : backend->in_cluster) == LB_YES;
}

/* The client's last backend, if it counts still and may be chosen for this traffic (SEM-38). */
static __always_inline int lb_affine(struct lb_work *work, const struct lb_affinity_key *key, __u32 seconds,
				     struct lb_affinity *there, enum lb_scope scope)
{
	__u64 word = lb_load(there);
	struct lb_affinity copy;

	__builtin_memcpy(&copy, &word, sizeof(word));
	if (*(volatile __u32 *)&there->check != lb_affinity_check(key, copy.backend)) {
		lb_count(LB_OUTCOME_check_failed);
		return 0;
	}
	if (lb_clock() - copy.used >= seconds || !lb_backend_load(copy.backend, key->service, &work->backend) ||
	    !lb_eligible(&work->backend, scope))
		return 0;
	work->backend_id = copy.backend;
	*(volatile __u32 *)&there->used = lb_clock();
	return 1;
}

/* Written in place where the client is known: replacing a key of an LRU map evicts others (REL-61). */
static __always_inline void lb_affinity_note(const struct lb_work *work, const struct lb_affinity_key *key,
					     struct lb_affinity *there)
{
	struct lb_affinity value = {.backend = work->backend_id, .used = lb_clock()};

	value.check = lb_affinity_check(key, value.backend);
	if (!there) {
		bpf_map_update_elem(&lb_affinity, key, &value, BPF_ANY);
		return;
	}
	*(volatile __u64 *)there = lb_load(&value);
	*(volatile __u32 *)&there->check = value.check;
}

/* Chooses for the packet's client, into `work->backend` and `work->backend_id`. */
static __always_inline enum lb_picked lb_pick_for(struct lb_work *work, const struct lb_service *service,
						  __u32 number, enum lb_scope scope)
{
	struct lb_set set = lb_set_load(service, scope);
	__u32 seconds = *(const volatile __u32 *)&service->affinity_seconds;
	struct lb_affinity_key key = {.service = number};
	struct lb_affinity *there = NULL;
	enum lb_picked picked;

	if (seconds) {
		__builtin_memcpy(key.client, &work->packet.tuple.source, sizeof(key.client));
		there = bpf_map_lookup_elem(&lb_affinity, &key);
		if (there && lb_affine(work, &key, seconds, there, scope))
			return LB_PICKED;
	}
	picked = lb_pick(set, number, (__u32)work->hash, &work->backend_id, &work->backend);
	if (seconds && picked == LB_PICKED)
		lb_affinity_note(work, &key, there);
	return picked;
}

#endif
