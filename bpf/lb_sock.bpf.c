// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The socket programs: connect, sendmsg, recvmsg and getpeername of both families, each a thin entry point; and the
 * count of their storage.
 */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "bpf/packet/kernel.h"
#include "bpf/packet/stats.h"
#include "bpf/sock/direct.h"
#include "bpf/sock/socket.h"
#include "maps/abi/abi.h"
#include "maps/abi/checks.h"

#define LB_MPTCP 262 /* IPPROTO_MPTCP */

/*
 * Other hooks see an MPTCP connection as TCP; getpeername sees the process's socket, which has another
 * protocol.
 */
static __always_inline enum lb_protocol lb_protocol_of_socket(__u32 protocol)
{
	if (protocol == LB_MPTCP)
		return LB_TCP;
	return protocol <= 0xff ? (enum lb_protocol)protocol : LB_ANY_PROTOCOL;
}

/* The family is a constant of each program: the verifier rejects fields of the other one. */
static __always_inline void lb_read_peer(struct bpf_sock_addr *ctx, enum lb_family family,
					 struct lb_frontend_key *peer)
{
	if (family == LB_IPV4)
		lb_read4(peer->address, ctx->user_ip4);
	else
		lb_read6(peer->address, ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2],
			 ctx->user_ip6[3]);
	peer->port = bpf_ntohs((__u16)ctx->user_port);
	peer->protocol = lb_protocol_of_socket(ctx->protocol);
	peer->pad = 0;
}

static __always_inline void lb_write_peer(struct bpf_sock_addr *ctx, enum lb_family family,
					  const __u8 *address, __u16 port)
{
	if (family == LB_IPV4) {
		ctx->user_ip4 = lb_word32(address + 12);
	} else {
		ctx->user_ip6[0] = lb_word32(address);
		ctx->user_ip6[1] = lb_word32(address + 4);
		ctx->user_ip6[2] = lb_word32(address + 8);
		ctx->user_ip6[3] = lb_word32(address + 12);
	}
	ctx->user_port = bpf_htons(port);
}

/* In a socket of the IPv6 family the kernel's IPv4 field is meaningless: it is 127.0.0.6 for any address. */
static __always_inline void lb_read_bound(struct bpf_sock *sk, __u8 *address)
{
	if (!sk)
		return;
	if (sk->family == LB_AF_INET)
		lb_read4(address, sk->src_ip4);
	else
		lb_read6(address, sk->src_ip6[0], sk->src_ip6[1], sk->src_ip6[2], sk->src_ip6[3]);
}

static __always_inline int lb_call(enum lb_family family, struct lb_request *request)
{
	enum lb_outcome outcome;

	lb_read_peer(request->ctx, family, &request->asked);
	outcome = lb_redirect_call(request);
	if (lb_rewrites_call(outcome))
		lb_write_peer(request->ctx, family, request->chosen.address, request->chosen.port);
	return lb_end_call(outcome);
}

static __always_inline int lb_connect(struct bpf_sock_addr *ctx, enum lb_family family)
{
	struct lb_request request = {.ctx = ctx, .call = LB_CONNECT};

	lb_read_bound(ctx->sk, request.source);
	return lb_call(family, &request);
}

/* recvmsg and getpeername programs must not reject: they return 1. */
static __always_inline int lb_restore_peer(struct bpf_sock_addr *ctx, enum lb_family family,
					   enum lb_peer which)
{
	struct lb_frontend_key peer;
	int restored;

	lb_read_peer(ctx, family, &peer);
	restored = which == LB_SENDER ? lb_restore_sender(ctx, &peer) : lb_restore_connected(ctx, &peer);
	if (restored)
		lb_write_peer(ctx, family, peer.address, peer.port);
	lb_count_call(restored ? LB_OUTCOME_socket_restored : LB_OUTCOME_socket_unrelated);
	return 1;
}

SEC("cgroup/connect4")
int lb_connect4(struct bpf_sock_addr *ctx)
{
	return lb_connect(ctx, LB_IPV4);
}

SEC("cgroup/connect6")
int lb_connect6(struct bpf_sock_addr *ctx)
{
	return lb_connect(ctx, LB_IPV6);
}

/* A message may have its own source address, which is used here. */
SEC("cgroup/sendmsg4")
int lb_sendmsg4(struct bpf_sock_addr *ctx)
{
	struct lb_request request = {.ctx = ctx, .call = LB_SEND};

	lb_read4(request.source, ctx->msg_src_ip4);
	return lb_call(LB_IPV4, &request);
}

SEC("cgroup/sendmsg6")
int lb_sendmsg6(struct bpf_sock_addr *ctx)
{
	struct lb_request request = {.ctx = ctx, .call = LB_SEND};

	lb_read6(request.source, ctx->msg_src_ip6[0], ctx->msg_src_ip6[1], ctx->msg_src_ip6[2],
		 ctx->msg_src_ip6[3]);
	return lb_call(LB_IPV6, &request);
}

SEC("cgroup/recvmsg4")
int lb_recvmsg4(struct bpf_sock_addr *ctx)
{
	return lb_restore_peer(ctx, LB_IPV4, LB_SENDER);
}

SEC("cgroup/recvmsg6")
int lb_recvmsg6(struct bpf_sock_addr *ctx)
{
	return lb_restore_peer(ctx, LB_IPV6, LB_SENDER);
}

SEC("cgroup/getpeername4")
int lb_peername4(struct bpf_sock_addr *ctx)
{
	return lb_restore_peer(ctx, LB_IPV4, LB_CONNECTED_PEER);
}

SEC("cgroup/getpeername6")
int lb_peername6(struct bpf_sock_addr *ctx)
{
	return lb_restore_peer(ctx, LB_IPV6, LB_CONNECTED_PEER);
}

/* Counts the sockets that have storage in the map of the iterator's link (REL-140). */
SEC("iter/bpf_sk_storage_map")
int lb_count_sockets(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	__u32 zero = 0;
	struct lb_socket_use *use = bpf_map_lookup_elem(&lb_socket_use, &zero);

	if (ctx->sk && use)
		use->counted++;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
