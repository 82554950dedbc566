/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The checks that tie a hash's value to its key, because a look-up may return another key's value. Computed in the
 * same way by the programs and the agent.
 */
#ifndef SLUICE_MAPS_CHECKS_H
#define SLUICE_MAPS_CHECKS_H

#include <linux/types.h>

#include "maps/abi/abi.h"

/* A multiply-and-fold step: cheap, and every input bit reaches the upper half. */
static inline __u64 lb_mix(__u64 state, __u64 word)
{
	state = (state ^ word) * 0x9e3779b97f4a7c15ULL;
	return state ^ (state >> 32);
}

static inline __u64 lb_word(const __u8 *bytes)
{
	__u64 word;

	__builtin_memcpy(&word, bytes, sizeof(word));
	return word;
}

static inline __u32 lb_word32(const __u8 *bytes)
{
	__u32 word;

	__builtin_memcpy(&word, bytes, sizeof(word));
	return word;
}

static inline __u16 lb_frontend_check(const struct lb_frontend_key *key)
{
	__u64 mixed = lb_mix(0, lb_word(key->address));

	mixed = lb_mix(mixed, lb_word(key->address + 8));
	mixed = lb_mix(mixed, (__u64)key->port << 8 | (__u64)key->protocol);
	return (__u16)(mixed >> 16);
}

static inline __u32 lb_device_check(__u32 index)
{
	return (__u32)(lb_mix(0, index) >> 16);
}

static inline __u32 lb_address_check(const struct lb_address_key *key)
{
	return (__u32)(lb_mix(lb_mix(0, lb_word(key->address)), lb_word(key->address + 8)) >> 16);
}

static inline __u32 lb_shared_peer_check(const struct lb_peer_key *key, const struct lb_shared_peer *peer)
{
	__u64 mixed = lb_mix(lb_mix(key->netns, lb_word(key->address)), lb_word(key->address + 8));

	mixed = lb_mix(lb_mix(mixed, lb_word(peer->address)), lb_word(peer->address + 8));
	return (__u32)(lb_mix(mixed, (__u64)key->port << 32 | (__u64)key->local_port << 16 | peer->port) >>
		       16);
}

static inline __u32 lb_affinity_check(const struct lb_affinity_key *key, __u32 backend)
{
	__u64 mixed = lb_mix(lb_mix(0, lb_word(key->client)), lb_word(key->client + 8));

	return (__u32)(lb_mix(mixed, (__u64)key->service << 32 | backend) >> 16);
}

#endif
