/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether the call of the socket that sent a packet was translated already. The object that includes this file
 * sets LB_SENDING_SOCKET to the packet's socket.
 */
#ifndef SLUICE_BPF_SENDER_H
#define SLUICE_BPF_SENDER_H

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>

#include "bpf/flow/scratch.h"
#include "bpf/packet/kernel.h"
#include "bpf/packet/packet.h"
#include "bpf/packet/stats.h"
#include "bpf/select/pair.h"
#include "maps/abi/maps.bpf.h"

static __always_inline int lb_pair_leads_to(const struct lb_pair *pair, const struct lb_tuple *tuple)
{
	return pair && pair->backend &&
	       lb_leads_to(pair, tuple->destination.bytes, tuple->destination_port, tuple->protocol);
}

static __always_inline int lb_socket_leads_to(const struct lb_socket *socket, const struct lb_tuple *tuple)
{
	if (!socket)
		return 0;
	for (int i = 0; i < LB_SOCKET_PAIRS; i++) {
		if (lb_pair_leads_to(&socket->pairs[i], tuple))
			return 1;
	}
	return 0;
}

/*
 * Whether the packet's socket was given its destination by a socket hook, so that the packet is translated
 * already: a service whose address is a backend's must not translate it once more. A packet keeps its socket
 * until the stack receives it, also through a pod's device. The pairs of MPTCP are at the connection's socket.
 */
LB_FUNCTION int LB_PER_OBJECT(lb_is_by_socket)(LB_CT_CONTEXT *ctx)
{
	const struct lb_scratch *scratch = lb_scratch_get();
	struct bpf_sock *sk = LB_SENDING_SOCKET(ctx);
	const struct lb_tuple *tuple;
	struct mptcp_sock *connection;

	if (!scratch || !sk)
		return 0;
	tuple = &scratch->packet.tuple;
	if (tuple->protocol == LB_UDP)
		return lb_socket_leads_to(bpf_sk_storage_get(&lb_sockets, sk, NULL, 0), tuple);
	if (tuple->protocol != LB_TCP)
		return 0;
	if (lb_pair_leads_to(bpf_sk_storage_get(&lb_tcp_sockets, sk, NULL, 0), tuple))
		return 1;
	if (!bpf_core_type_exists(struct mptcp_sock))
		return 0;
	connection = bpf_skc_to_mptcp_sock(sk);
	return connection &&
	       lb_pair_leads_to(bpf_sk_storage_get(&lb_tcp_sockets, connection, NULL, 0), tuple);
}

#endif
