/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The storage of sockets, within the memory that it may take (REL-140). */
#ifndef SLUICE_BPF_STORAGE_H
#define SLUICE_BPF_STORAGE_H

#include <linux/bpf.h>

#include "bpf/packet/stats.h"
#include "bpf/select/service.h"
#include "maps/abi/maps.bpf.h"

/* Without an agent for longer there is none whose memory counts, and none that counts sockets again. */
#define LB_AGENT_SECONDS 30

static __always_inline int lb_has_agent(void)
{
	const struct lb_node *node = lb_this_node();

	/* Signed: the agent's clock may be a second ahead. */
	return node && (__s32)(lb_clock() - *(const volatile __u32 *)&node->heartbeat) < LB_AGENT_SECONDS;
}

/* Whether a socket may have storage of that size. TCP, which loses least without one, leaves a quarter to UDP. */
static __always_inline int lb_may_store(enum lb_socket_units units)
{
	__u32 zero = 0;
	struct lb_socket_use *use = bpf_map_lookup_elem(&lb_socket_use, &zero);
	__u64 reserve = units == LB_TCP_SOCKET_UNITS ? LB_SOCKET_RESERVE : 0;
	__u64 most;

	if (!use)
		return 1;
	most = lb_load(&use->most);
	if (most && lb_load(&use->made) + units + reserve > most && lb_has_agent())
		return 0;
	__sync_fetch_and_add(&use->made, units);
	return 1;
}

/* The storage of a UDP socket, made if it has none; NULL: it cannot be made. */
static __always_inline struct lb_socket *lb_make_udp_storage(struct bpf_sock *sk)
{
	struct lb_socket *socket = bpf_sk_storage_get(&lb_sockets, sk, NULL, 0);

	if (socket || !lb_may_store(LB_UDP_SOCKET_UNITS))
		return socket;
	return bpf_sk_storage_get(&lb_sockets, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
}

#endif
