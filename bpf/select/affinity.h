/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Selects a backend for a client: by session affinity, or by the hash alone. */
#ifndef SLUICE_BPF_AFFINITY_H
#define SLUICE_BPF_AFFINITY_H

#include "bpf/packet/stats.h"
#include "bpf/select/service.h"
#include "maps/abi/abi.h"
#include "maps/abi/checks.h"

/* The client, the service and the set, and the output of the selection. */
struct lb_choice {
	const void *client; /* 16 bytes: an address, or a substitute for a socket's network namespace */
	__u32 random;
	__u32 service;
	enum lb_scope scope;
	__u32 *id;
	struct lb_backend *backend;
};

static __always_inline int lb_eligible(const struct lb_backend *backend, enum lb_scope scope)
{
	return (scope == LB_LOCAL ? backend->in_local : backend->in_cluster) == LB_YES;
}

/* The client's last backend, if the entry is valid and the backend eligible for this traffic (SEM-38). */
static __always_inline int lb_affine(const struct lb_choice *choice, const struct lb_affinity_key *key,
				     __u32 seconds, struct lb_affinity *there)
{
	__u64 word = lb_load(there);
	struct lb_affinity copy;

	__builtin_memcpy(&copy, &word, sizeof(word));
	if (*(volatile __u32 *)&there->check != lb_affinity_check(key, copy.backend)) {
		lb_count_call(LB_OUTCOME_check_failed);
		return 0;
	}
	if (lb_clock() - copy.used >= seconds ||
	    !lb_backend_load(copy.backend, choice->service, choice->backend) ||
	    !lb_eligible(choice->backend, choice->scope))
		return 0;
	*choice->id = copy.backend;
	*(volatile __u32 *)&there->used = lb_clock();
	return 1;
}

/* Updates in place if the client is known: replacing a key of an LRU map evicts others (REL-61). */
static __always_inline void lb_affinity_note(const struct lb_choice *choice,
					     const struct lb_affinity_key *key, struct lb_affinity *there)
{
	struct lb_affinity value = {.backend = *choice->id, .used = lb_clock()};

	value.check = lb_affinity_check(key, value.backend);
	if (!there) {
		bpf_map_update_elem(&lb_affinity, key, &value, BPF_ANY);
		return;
	}
	*(volatile __u64 *)there = lb_load(&value);
	*(volatile __u32 *)&there->check = value.check;
}

/* A stale slot means that the set was just replaced: the new one is read once. */
static __always_inline enum lb_picked lb_pick_fresh(const struct lb_choice *choice,
						    const struct lb_service *service)
{
	enum lb_picked picked = LB_PICKED_STALE;

	for (int try = 0; try < 2 && picked == LB_PICKED_STALE; try++)
		picked = lb_pick(lb_set_load(service, choice->scope), choice->service, choice->random,
				 choice->id, choice->backend);
	return picked;
}

/*
 * Selects a backend for a client: its previous one if the service has session affinity, else any backend of
 * the set.
 */
static __always_inline enum lb_picked lb_pick_for(const struct lb_choice *choice,
						  const struct lb_service *service)
{
	__u32 seconds = *(const volatile __u32 *)&service->affinity_seconds;
	struct lb_affinity_key key = {.service = choice->service};
	struct lb_affinity *there = NULL;
	enum lb_picked picked;

	if (seconds) {
		__builtin_memcpy(key.client, choice->client, sizeof(key.client));
		there = bpf_map_lookup_elem(&lb_affinity, &key);
		if (there && lb_affine(choice, &key, seconds, there))
			return LB_PICKED;
	}
	picked = lb_pick_fresh(choice, service);
	if (seconds && picked == LB_PICKED)
		lb_affinity_note(choice, &key, there);
	return picked;
}

#endif
