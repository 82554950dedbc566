/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The core of all socket programs: the address to which a call is rewritten, and the peer address that a
 * socket sees. Works on 16-byte addresses, so that IPv4 through an IPv6 socket is no special case.
 */
#ifndef SLUICE_BPF_SOCKET_H
#define SLUICE_BPF_SOCKET_H

#include <asm/errno.h>
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>

#include "bpf/packet/kernel.h"
#include "bpf/packet/stats.h"
#include "bpf/select/affinity.h"
#include "bpf/select/pair.h"
#include "bpf/select/ranges.h"
#include "bpf/select/service.h"
#include "bpf/select/switch_over.h"
#include "bpf/sock/direct.h"
#include "bpf/sock/storage.h"
#include "maps/abi/checks.h"
#include "maps/abi/maps.bpf.h"

enum lb_call { LB_CONNECT, LB_SEND };

/*
 * The peer that a call returns: a message's sender (recvmsg), or the socket's connected peer (getpeername).
 */
enum lb_peer { LB_SENDER, LB_CONNECTED_PEER };

/* A call as a socket hook sees it; `chosen` is the backend that replaces `asked`. */
struct lb_request {
	struct bpf_sock_addr *ctx;
	enum lb_call call;
	__u8 source[16]; /* the socket's bound address; unspecified: the kernel will choose */
	struct lb_frontend_key asked;
	struct lb_backend chosen;
	__u32 backend;
	__u32 service;
};

/* Whether the address is in 127.0.0.0/8 or ::1. */
static __always_inline int lb_is_loopback(const __u8 *address)
{
	if (lb_is_ipv4(address))
		return address[12] == 127;
	return !lb_word(address) && !lb_word32(address + 8) &&
	       lb_word32(address + 12) == LB_IPV6_LOOPBACK_END;
}

/* Whether the address is ::, 0.0.0.0, or ::ffff:0.0.0.0. */
static __always_inline int lb_is_unspecified(const __u8 *address)
{
	return !lb_word(address) && !lb_word32(address + 12) &&
	       (!lb_word32(address + 8) || lb_is_ipv4(address));
}

/*
 * Replaces an unspecified destination by the one that the kernel will use: for IPv4 the socket's own address
 * if it is bound, else loopback. The tables have the node ports at the unspecified address.
 */
LB_FUNCTION int lb_resolve_unspecified(struct lb_address_key *asked, const struct lb_address_key *source)
{
	__u32 prefix = LB_IPV4_PREFIX;
	int ipv4, bound4;

	if (!asked || !source || !lb_is_unspecified(asked->address))
		return 0;
	ipv4 = lb_is_ipv4(asked->address);
	bound4 = lb_is_ipv4(source->address);
	if (ipv4 && bound4 && !lb_is_unspecified(source->address)) {
		*asked = *source;
		return 1;
	}
	if (ipv4 || bound4) {
		__builtin_memcpy(asked->address + 8, &prefix, sizeof(prefix));
		asked->address[12] = 127;
	}
	asked->address[15] = 1;
	return 1;
}

static __always_inline int lb_of_host(struct bpf_sock_addr *ctx)
{
	__u64 host = (__u64)lb_config.host_cookie_high << 32 | lb_config.host_cookie_low;

	return bpf_get_netns_cookie(ctx) == host;
}

/* A pod's loopback is not the node's: localhost serves node ports only to sockets of the host. */
static __always_inline int lb_serves_node_ports(struct lb_request *request, enum lb_address_kind kind)
{
	return kind == LB_NODE_PORT_ADDRESS || (kind == LB_LOOPBACK_ADDRESS && lb_of_host(request->ctx));
}

static __always_inline int lb_serves_protocol(const struct lb_request *request)
{
	return request->asked.protocol == LB_TCP || request->asked.protocol == LB_UDP;
}

/* Sockets that the options leave to the packet path. */
static __always_inline int lb_ignores_socket(struct bpf_sock_addr *ctx)
{
	return lb_config.host_sockets && !lb_of_host(ctx);
}

static __always_inline int lb_not_served(struct lb_request *request)
{
	return !lb_serves_protocol(request) || lb_ignores_socket(request->ctx);
}

enum lb_asked { LB_ASKED_FRONTEND, LB_ASKED_NOTHING, LB_ASKED_UNKNOWN_PORT };

static __always_inline enum lb_asked lb_asked_frontend(struct lb_request *request,
						       struct lb_frontend *frontend)
{
	struct lb_frontend_key key = request->asked;
	enum lb_address_kind kind;

	if (lb_frontend_load(&key, frontend))
		return LB_ASKED_FRONTEND;
	kind = lb_address_kind_of(key.address);
	if (lb_serves_node_ports(request, kind) && lb_node_port_load(&key, frontend))
		return LB_ASKED_FRONTEND;
	return kind == LB_CLUSTER_ADDRESS ? LB_ASKED_UNKNOWN_PORT : LB_ASKED_NOTHING;
}

/* Whether the frontend has source ranges. */
static __always_inline int lb_has_ranges(struct lb_policy policy, enum lb_kind kind)
{
	return policy.source_ranges && kind == LB_LOAD_BALANCER;
}

/*
 * Whether the packet hooks must decide. For the host's sockets the source is known well enough, and their
 * packets pass no hook that could open a flow.
 */
static __always_inline int lb_left_to_packets(struct lb_request *request, struct lb_policy policy,
					      enum lb_kind kind)
{
	if (lb_is_loopback(request->source) || lb_not_served(request))
		return 1;
	return (policy.packet_path || lb_has_ranges(policy, kind)) && !lb_of_host(request->ctx);
}

/*
 * Whether a socket of the host is in the service's ranges (SEM-37). An unbound socket will use the node's own
 * address.
 */
static __always_inline int lb_host_in_ranges(struct lb_request *request)
{
	const __u8 *source = request->source;

	if (lb_is_unspecified(source))
		source = lb_node_source(lb_is_ipv4(request->asked.address));
	return source && lb_in_ranges(request->service, source);
}

/* ---- The pairs of a socket, under its lock: the latest first, free ones last. ---- */

static __always_inline int lb_asks_for(const struct lb_pair *pair, const struct lb_frontend_key *asked)
{
	return pair->used && pair->port == asked->port && pair->protocol == asked->protocol &&
	       lb_same_ip(pair->address, asked->address);
}

/* The MPTCP connection that the call opens; NULL: none. The kernel, not the process, opens later subflows. */
static __always_inline struct mptcp_sock *lb_mptcp_opening(const struct lb_request *request)
{
	struct mptcp_sock *connection;
	__u8 state;

	if (!bpf_core_type_exists(struct mptcp_sock) || request->asked.protocol != LB_TCP)
		return NULL;
	connection = bpf_skc_to_mptcp_sock(request->ctx->sk);
	if (!connection)
		return NULL;
	state = ((struct sock_common *)connection)->skc_state;
	return state == BPF_TCP_SYN_SENT || state == BPF_TCP_CLOSE ? connection : NULL;
}

/*
 * The pair of the process's TCP socket. With MPTCP that is not the connecting socket, which is a subflow that
 * the kernel created; getpeername is called on the process's.
 */
static __always_inline struct lb_pair *lb_tcp_pair(const struct lb_request *request, __u64 flags)
{
	struct mptcp_sock *connection = lb_mptcp_opening(request);
	struct lb_pair *pair = connection ? bpf_sk_storage_get(&lb_tcp_sockets, connection, NULL, 0)
					  : bpf_sk_storage_get(&lb_tcp_sockets, request->ctx->sk, NULL, 0);

	if (pair || !flags || !lb_may_store(LB_TCP_SOCKET_UNITS))
		return pair;
	return connection ? bpf_sk_storage_get(&lb_tcp_sockets, connection, NULL, flags)
			  : bpf_sk_storage_get(&lb_tcp_sockets, request->ctx->sk, NULL, flags);
}

/* The index of that frontend's pair; if there is none, of a free one, or of the least recently used pair. */
static __always_inline int lb_place_of(const struct lb_socket *socket, const struct lb_frontend_key *asked)
{
	for (int i = 0; i < LB_SOCKET_PAIRS - 1; i++) {
		if (!socket->pairs[i].used || lb_asks_for(&socket->pairs[i], asked))
			return i;
	}
	return LB_SOCKET_PAIRS - 1;
}

/* Makes room for the latest pair at the front: moves the pairs before `at`, its old position, back by one. */
static __always_inline void lb_make_room_first(struct lb_socket *socket, int at)
{
	for (int i = LB_SOCKET_PAIRS - 1; i > 0; i--) {
		if (i <= at)
			socket->pairs[i] = socket->pairs[i - 1];
	}
}

/*
 * A connected socket has one peer, so connect discards the pairs of others. Messages of a former backend of the
 * same frontend may be unread: their pairs stay.
 */
static __always_inline void lb_socket_forget(const struct lb_request *request)
{
	struct lb_socket *socket;
	struct lb_pair *pair;

	if (request->asked.protocol == LB_TCP) {
		pair = lb_tcp_pair(request, 0);
		if (pair)
			pair->used = LB_NO;
		return;
	}
	socket = bpf_sk_storage_get(&lb_sockets, request->ctx->sk, NULL, 0);
	if (!socket)
		return;
	for (int i = 0; i < LB_SOCKET_PAIRS; i++) {
		struct lb_pair *pair = &socket->pairs[i];

		if (pair->sent || !pair->backend || !lb_asks_for(pair, &request->asked))
			pair->used = LB_NO;
	}
}

static __always_inline void lb_write_pair(const struct lb_request *request, struct lb_pair *pair)
{
	__builtin_memcpy(pair->address, request->asked.address, sizeof(pair->address));
	__builtin_memcpy(pair->backend_address, request->chosen.address, sizeof(pair->backend_address));
	pair->port = request->asked.port;
	pair->backend_port = request->chosen.port;
	pair->backend = request->backend;
	pair->service = request->service;
	pair->protocol = request->asked.protocol;
	pair->used = LB_YES;
	pair->direct = LB_NO;
	pair->sent = request->call == LB_SEND ? LB_YES : LB_NO;
}

static __always_inline int lb_remember_tcp(const struct lb_request *request)
{
	struct lb_pair *pair = lb_tcp_pair(request, BPF_SK_STORAGE_GET_F_CREATE);

	if (pair)
		lb_write_pair(request, pair);
	return pair != NULL;
}

static __always_inline int lb_remember(const struct lb_request *request)
{
	struct lb_socket *socket;

	if (request->asked.protocol == LB_TCP)
		return lb_remember_tcp(request);
	socket = lb_make_udp_storage(request->ctx->sk);
	if (!socket)
		return 0;
	lb_make_room_first(socket, request->call == LB_CONNECT ? LB_SOCKET_PAIRS - 1
							       : lb_place_of(socket, &request->asked));
	lb_write_pair(request, &socket->pairs[0]);
	if (request->call == LB_SEND)
		lb_share_pair(request->ctx, socket);
	return 1;
}

/* Ids are reused and sockets are not swept, so the pair's address is compared, too. */
static __always_inline int lb_pair_serves(struct lb_request *request, const struct lb_pair *pair)
{
	if (pair->service != request->service ||
	    !lb_backend_load(pair->backend, request->service, &request->chosen) || !request->chosen.serving)
		return 0;
	return request->chosen.port == pair->backend_port &&
	       lb_same_ip(request->chosen.address, pair->backend_address);
}

/* An unconnected socket stays on its backend while that serves; sending makes the pair its latest. */
static __always_inline int lb_keeps(struct lb_request *request)
{
	struct lb_socket *socket = bpf_sk_storage_get(&lb_sockets, request->ctx->sk, NULL, 0);
	struct lb_pair pair;
	int at;

	if (!socket)
		return 0;
	at = lb_place_of(socket, &request->asked);
	if (!lb_asks_for(&socket->pairs[at], &request->asked) || !lb_pair_serves(request, &socket->pairs[at]))
		return 0;
	if (at) {
		pair = socket->pairs[at];
		lb_make_room_first(socket, at);
		socket->pairs[0] = pair;
	}
	socket->pairs[0].direct = LB_NO;
	lb_share_pair(request->ctx, socket);
	return 1;
}

/*
 * Handles a message directly to a backend. If the socket also reached that backend through services, later
 * replies are not attributed to them until the next message to one of them: of two conversations on one tuple
 * the latest counts. Except for a connected socket's peer: for an IPv6 socket with an IPv4 peer the kernel
 * shows each message as one that was sent to the peer.
 */
static __always_inline void lb_leave_pairs(const struct lb_request *request, struct lb_socket *socket)
{
	int connected = request->ctx->sk->state == BPF_TCP_ESTABLISHED;

	for (int i = 0; i < LB_SOCKET_PAIRS; i++) {
		struct lb_pair *pair = &socket->pairs[i];

		if (lb_leads_to(pair, request->asked.address, request->asked.port, request->asked.protocol) &&
		    (pair->sent || !connected))
			pair->direct = LB_YES;
	}
}

/* Notes the destination of a message that concerns no service. A connected socket's peer is the kernel's. */
static __always_inline void lb_note_message(const struct lb_request *request)
{
	struct lb_socket *socket;

	if (request->asked.protocol != LB_UDP || !request->ctx->sk || lb_ignores_socket(request->ctx))
		return;
	if (lb_is_connected_to(request->ctx, &request->asked)) {
		socket = bpf_sk_storage_get(&lb_sockets, request->ctx->sk, NULL, 0);
		if (socket)
			lb_leave_pairs(request, socket);
		return;
	}
	socket = lb_make_udp_storage(request->ctx->sk);
	if (!socket)
		return;
	lb_leave_pairs(request, socket);
	lb_add_peer(&socket->direct, lb_member_of(&request->asked, LB_SENT_TO));
	lb_share_direct(request->ctx, socket, &request->asked);
}

/*
 * The frontend has no backend, or the ClusterIP has no such port. UDP's connect succeeds nevertheless,
 * because it sends nothing: getaddrinfo connects to sort addresses, others to learn their own. Packets sent
 * later are rejected or dropped by the packet hooks. The pair without a backend lets lb_udp close the socket
 * once there is one.
 */
static __always_inline enum lb_outcome lb_socket_no_backend(struct lb_request *request,
							    enum lb_verdict verdict)
{
	if (request->call != LB_CONNECT || request->asked.protocol != LB_UDP)
		return verdict == LB_REJECT ? LB_OUTCOME_socket_refused : LB_OUTCOME_socket_dropped;
	request->backend = 0;
	__builtin_memcpy(request->chosen.address, request->asked.address, sizeof(request->chosen.address));
	request->chosen.port = request->asked.port;
	lb_remember(request);
	return verdict == LB_REJECT ? LB_OUTCOME_socket_left : LB_OUTCOME_socket_dropped;
}

/* Whether the socket has a pair of that frontend: it began by a translation. */
static __always_inline int lb_has_pair(const struct lb_socket *socket, const struct lb_frontend_key *asked)
{
	for (int i = 0; i < LB_SOCKET_PAIRS; i++) {
		if (lb_asks_for(&socket->pairs[i], asked))
			return 1;
	}
	return 0;
}

/*
 * Whether a UDP call to an address that a tenant may claim goes on with a conversation without the service:
 * it answers a peer that wrote first, or began before the claim. A socket that cannot note its peers counts
 * as one that answers. TCP answers by connections; a connect is new traffic.
 */
static __always_inline int lb_knows_peer(struct lb_request *request, enum lb_kind kind)
{
	struct lb_socket *socket;

	if (kind == LB_CLUSTER_IP || request->asked.protocol != LB_UDP || !request->ctx->sk ||
	    lb_ignores_socket(request->ctx))
		return 0;
	socket = lb_make_udp_storage(request->ctx->sk);
	if (!socket)
		return request->call == LB_SEND;
	if (lb_has_pair(socket, &request->asked))
		return 0;
	if (!(request->call == LB_SEND && lb_is_connected_to(request->ctx, &request->asked)) &&
	    !lb_talks_directly(request->ctx, socket, &request->asked))
		return 0;
	lb_leave_pairs(request, socket);
	return 1;
}

/* ---- Decisions. ---- */

/*
 * A socket may have no address yet: its network namespace represents the client (docs/semantics.md, choice F).
 */
static __always_inline enum lb_picked lb_pick_for_socket(struct lb_request *request,
							 const struct lb_service *service,
							 enum lb_scope scope)
{
	__u64 client[2] = {0, bpf_get_netns_cookie(request->ctx)};
	struct lb_choice choice = {
		.client = client,
		.random = bpf_get_prandom_u32(),
		.service = request->service,
		.scope = scope,
		.id = &request->backend,
		.backend = &request->chosen,
	};

	return lb_pick_for(&choice, service);
}

static __always_inline enum lb_outcome lb_choose_for_socket(struct lb_request *request,
							    const struct lb_service *service,
							    struct lb_policy policy, enum lb_scope scope)
{
	switch (lb_pick_for_socket(request, service, scope)) {
	case LB_PICKED:
		return lb_remember(request) ? LB_OUTCOME_socket_translated : LB_OUTCOME_socket_forgotten;
	case LB_PICKED_NONE:
		return lb_socket_no_backend(request, lb_empty_verdict(policy, scope));
	default:
		return LB_OUTCOME_socket_left;
	}
}

/*
 * Decides connect and sendmsg; an unknown port of a ClusterIP is refused (docs/semantics.md, choices A and D).
 * For all kinds but ClusterIP, inside clients use the cluster set (SEM-31, 32).
 */
static __always_inline enum lb_outcome lb_redirect_call(struct lb_request *request)
{
	const struct lb_service *service;
	struct lb_frontend frontend;
	struct lb_policy policy;
	enum lb_asked asked;

	lb_resolve_unspecified((struct lb_address_key *)request->asked.address,
			       (const struct lb_address_key *)request->source);
	if (request->call == LB_CONNECT)
		lb_socket_forget(request);
	asked = lb_asked_frontend(request, &frontend);
	if (asked == LB_ASKED_UNKNOWN_PORT && !lb_not_served(request) && !lb_leaves_new_flows())
		return lb_socket_no_backend(request, LB_REJECT);
	if (asked == LB_ASKED_NOTHING && request->call == LB_SEND)
		lb_note_message(request);
	if (asked != LB_ASKED_FRONTEND)
		return LB_OUTCOME_socket_unrelated;
	if (lb_knows_peer(request, frontend.kind))
		return LB_OUTCOME_socket_direct;
	request->service = frontend.service;
	service = lb_service_of(frontend.service);
	if (!service)
		return LB_OUTCOME_socket_left;
	policy = lb_policy_load(service);
	if (lb_left_to_packets(request, policy, frontend.kind))
		return LB_OUTCOME_socket_left;
	if (lb_has_ranges(policy, frontend.kind) && !lb_host_in_ranges(request))
		return LB_OUTCOME_socket_dropped;
	if (request->call == LB_SEND && lb_keeps(request))
		return LB_OUTCOME_socket_kept;
	if (lb_leaves_new_flows())
		return LB_OUTCOME_socket_unrelated;
	return lb_choose_for_socket(request, service, policy,
				    frontend.kind == LB_CLUSTER_IP ? policy.internal : LB_CLUSTER);
}

static __always_inline int lb_rewrites_call(enum lb_outcome outcome)
{
	return outcome == LB_OUTCOME_socket_translated || outcome == LB_OUTCOME_socket_kept ||
	       outcome == LB_OUTCOME_socket_forgotten;
}

/* The return value of a connect or sendmsg program: 1 allows the call. */
static __always_inline int lb_end_call(enum lb_outcome outcome)
{
	lb_count_call(outcome);
	if (outcome != LB_OUTCOME_socket_refused)
		return 1;
	bpf_set_retval(-ECONNREFUSED);
	return 0;
}

/*
 * The pair of a socket's call that was translated to this peer; the latest of several. A connected socket's
 * peer is the frontend of its connect, whatever it has sent elsewhere since.
 */
static __always_inline const struct lb_pair *lb_pair_of_peer(const struct lb_socket *socket,
							     const struct lb_frontend_key *peer,
							     enum lb_peer which)
{
	for (int i = 0; i < LB_SOCKET_PAIRS; i++) {
		const struct lb_pair *pair = &socket->pairs[i];

		if (!lb_leads_to(pair, peer->address, peer->port, peer->protocol))
			continue;
		if (which == LB_SENDER)
			return pair->direct ? NULL : pair;
		if (!pair->sent)
			return pair;
	}
	return NULL;
}

/* Replaces the peer by the frontend of that pair, if there is one. */
static __always_inline int lb_replace_peer(struct lb_frontend_key *peer, const struct lb_pair *pair)
{
	if (!pair)
		return 0;
	__builtin_memcpy(peer->address, pair->address, sizeof(peer->address));
	peer->port = pair->port;
	return 1;
}

/* Returns whether the connected peer was replaced. */
static __always_inline int lb_restore_connected(struct bpf_sock_addr *ctx, struct lb_frontend_key *peer)
{
	const struct lb_socket *socket;
	const struct lb_pair *pair;

	if (peer->protocol == LB_TCP) {
		pair = bpf_sk_storage_get(&lb_tcp_sockets, ctx->sk, NULL, 0);
		return pair && lb_leads_to(pair, peer->address, peer->port, peer->protocol) &&
		       lb_replace_peer(peer, pair);
	}
	socket = bpf_sk_storage_get(&lb_sockets, ctx->sk, NULL, 0);
	return socket && lb_replace_peer(peer, lb_pair_of_peer(socket, peer, LB_CONNECTED_PEER));
}

/*
 * Returns whether the sender of a datagram was replaced. For sockets that share a port it counts how any of them
 * reached it last. A sender that no call explains is noted, but for a connected socket's, its only one.
 */
static __always_inline int lb_restore_sender(struct bpf_sock_addr *ctx, struct lb_frontend_key *sender)
{
	struct lb_socket *socket;
	enum lb_reached reached;

	if (sender->protocol != LB_UDP || !ctx->sk || lb_ignores_socket(ctx))
		return 0;
	if (ctx->sk->state == BPF_TCP_ESTABLISHED) {
		socket = bpf_sk_storage_get(&lb_sockets, ctx->sk, NULL, 0);
		return socket && lb_replace_peer(sender, lb_pair_of_peer(socket, sender, LB_SENDER));
	}
	socket = lb_make_udp_storage(ctx->sk);
	if (!socket)
		return 0;
	reached = lb_find_shared_peer(ctx, socket, sender);
	if (reached == LB_REACHED_BY_FRONTEND)
		return 1;
	if (reached == LB_REACHED_UNKNOWN &&
	    lb_replace_peer(sender, lb_pair_of_peer(socket, sender, LB_SENDER)))
		return 1;
	lb_note_sender(ctx, socket, sender);
	return 0;
}

#endif
