// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Finds connected UDP sockets whose backend or frontend is gone, or whose service had no backend when they
 * connected and has one now (SEM-46). lb_udp_find runs over all sockets that have storage, whenever UDP
 * services change, or lb_udp_list over each network namespace's. The agent connects them again; where it cannot, it ends them by sock_diag: their next call
 * fails with ECONNABORTED, as if the host had refused, and the client can connect again.
 */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "bpf/packet/kernel.h"
#include "bpf/select/pair.h"
#include "bpf/select/service.h"
#include "maps/abi/checks.h"
#include "maps/abi/lost_socket.h"
#include "maps/abi/maps.bpf.h"

/* From 6.5; the agent loads lb_udp_destroy only if the kernel has it. */
extern int bpf_sock_destroy(struct sock_common *sock) __ksym __weak;

/* An address of the kernel's, as ours are: an IPv4 address as ::ffff:a.b.c.d. */
static __always_inline void lb_read_address(__u8 address[16], const struct sock_common *sock, __u32 ipv4,
					    const struct in6_address *ipv6)
{
	__u32 prefix = LB_IPV4_PREFIX;

	if (sock->skc_family == LB_AF_INET) {
		__builtin_memset(address, 0, 8);
		__builtin_memcpy(address + 8, &prefix, sizeof(prefix));
		__builtin_memcpy(address + 12, &ipv4, sizeof(ipv4));
	} else {
		__builtin_memcpy(address, ipv6->bytes, sizeof(ipv6->bytes));
	}
}

static __always_inline void lb_read_far_end(const struct sock_common *sock, struct lb_frontend_key *far_end)
{
	__builtin_memset(far_end, 0, sizeof(*far_end));
	lb_read_address(far_end->address, sock, sock->skc_daddr, &sock->skc_v6_daddr);
	far_end->port = bpf_ntohs(sock->skc_dport);
}

static __always_inline int lb_leads_there(const struct lb_pair *pair, const struct lb_frontend_key *far_end)
{
	return pair->used && pair->backend_port == far_end->port &&
	       lb_word(pair->backend_address) == lb_word(far_end->address) &&
	       lb_word(pair->backend_address + 8) == lb_word(far_end->address + 8);
}

/* Ids are reused eventually, so the address is compared, too. */
static __always_inline int lb_still_serves(const struct lb_pair *pair)
{
	struct lb_backend backend;

	return lb_backend_load(pair->backend, pair->service, &backend) && backend.serving == LB_YES &&
	       backend.port == pair->backend_port && lb_same_ip(backend.address, pair->backend_address);
}

/* The frontend to which the pair's call was, if it exists now. */
static __always_inline int lb_frontend_of(const struct lb_pair *pair, struct lb_frontend *frontend)
{
	struct lb_frontend_key key = {.port = pair->port, .protocol = pair->protocol};
	enum lb_address_kind kind;

	__builtin_memcpy(key.address, pair->address, sizeof(key.address));
	if (lb_frontend_load(&key, frontend))
		return 1;
	kind = lb_address_kind_of(key.address);
	return (kind == LB_NODE_PORT_ADDRESS || kind == LB_LOOPBACK_ADDRESS) &&
	       lb_node_port_load(&key, frontend);
}

/* Whether a socket that connects now would get a backend. The set is that of lb_redirect_call. */
static __always_inline int lb_would_serve(const struct lb_pair *pair)
{
	const struct lb_service *service;
	struct lb_frontend frontend;
	enum lb_scope scope;

	if (!lb_frontend_of(pair, &frontend))
		return 0;
	service = lb_service_of(frontend.service);
	if (!service)
		return 0;
	scope = frontend.kind == LB_CLUSTER_IP ? lb_policy_load(service).internal : LB_CLUSTER;
	return lb_set_load(service, scope).count > 0;
}

/* Whether the frontend is still the pair's service's. */
static __always_inline int lb_has_frontend(const struct lb_pair *pair)
{
	struct lb_frontend frontend;

	return lb_frontend_of(pair, &frontend) && frontend.service == pair->service;
}

/* Whether the pair's backend or frontend is gone, or the pair has no backend and there is one now. */
static __always_inline int lb_is_outdated(const struct lb_pair *pair)
{
	return pair->backend ? !lb_still_serves(pair) || !lb_has_frontend(pair) : lb_would_serve(pair);
}

/* Copies the pair that leads to where the socket is connected; 0: it has none, so the socket is not ours. */
static __always_inline int lb_pair_of(const struct lb_socket *socket, const struct sock_common *sock,
				      struct lb_pair *pair)
{
	struct lb_frontend_key far_end;

	lb_read_far_end(sock, &far_end);
#pragma unroll
	for (int i = 0; i < LB_SOCKET_PAIRS; i++) {
		if (!socket->pairs[i].sent && lb_leads_there(&socket->pairs[i], &far_end)) {
			*pair = socket->pairs[i];
			return 1;
		}
	}
	return 0;
}

/* Copies its pair. Only connected sockets: an unconnected one would lose its port (REL-71). */
static __always_inline int lb_is_lost(const struct lb_socket *socket, const struct sock_common *sock,
				      struct lb_pair *pair)
{
	return sock->skc_state == BPF_TCP_ESTABLISHED && lb_pair_of(socket, sock, pair) &&
	       lb_is_outdated(pair);
}

/*
 * For sockets that sock_diag does not end, and for kernels whose sock_diag ends none: runs over all UDP
 * sockets of one network namespace. Writes one byte for each socket that was closed.
 */
SEC("iter/udp")
int lb_udp_destroy(struct bpf_iter__udp *ctx)
{
	struct udp_sock *udp = ctx->udp_sk;
	struct sock_common *sock = (struct sock_common *)udp;
	const struct lb_socket *socket;
	struct lb_pair pair;
	__u8 one = 1;

	if (!udp)
		return 0;
	socket = bpf_sk_storage_get(&lb_sockets, sock, NULL, 0);
	if (socket && lb_is_lost(socket, sock, &pair) && !bpf_sock_destroy(sock))
		bpf_seq_write(ctx->meta->seq, &one, sizeof(one));
	return 0;
}

static __always_inline void lb_describe(struct sock_common *sock, const struct lb_pair *pair,
					struct lb_lost_socket *lost)
{
	struct lb_frontend frontend;

	__builtin_memset(lost, 0, sizeof(*lost));
	lost->cookie = bpf_get_socket_cookie(sock);
	lost->netns = sock->skc_net.net->ns.inum;
	lost->device = sock->skc_bound_dev_if;
	lb_read_address(lost->local, sock, sock->skc_rcv_saddr, &sock->skc_v6_rcv_saddr);
	lb_read_address(lost->peer, sock, sock->skc_daddr, &sock->skc_v6_daddr);
	__builtin_memcpy(lost->asked, pair->address, sizeof(lost->asked));
	lost->asked_port = pair->port;
	lost->served =
		lb_frontend_of(pair, &frontend) || lb_address_kind_of(pair->address) == LB_CLUSTER_ADDRESS
			? LB_YES
			: LB_NO;
	lost->local_port = sock->skc_num;
	lost->peer_port = bpf_ntohs(sock->skc_dport);
}

static __always_inline void lb_write_lost(struct seq_file *to, struct sock_common *sock,
					  const struct lb_socket *socket)
{
	struct lb_lost_socket lost;
	struct lb_pair pair;

	if (!lb_is_lost(socket, sock, &pair))
		return;
	lb_describe(sock, &pair, &lost);
	bpf_seq_write(to, &lost, sizeof(lost));
}

/*
 * Writes each lost socket. Storage outlives its socket by a moment: a socket without references
 * is being freed, and one that has any is not freed while this program runs.
 */
SEC("iter/bpf_sk_storage_map")
int lb_udp_find(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct sock_common *sock = (struct sock_common *)ctx->sk;
	const struct lb_socket *socket = ctx->value;

	if (sock && socket && sock->skc_refcnt.refs.counter)
		lb_write_lost(ctx->meta->seq, sock, socket);
	return 0;
}

/* The same of one network namespace's sockets, where no program may iterate over storage. */
SEC("iter/udp")
int lb_udp_list(struct bpf_iter__udp *ctx)
{
	struct sock_common *sock = (struct sock_common *)ctx->udp_sk;
	const struct lb_socket *socket = sock ? bpf_sk_storage_get(&lb_sockets, sock, NULL, 0) : NULL;

	if (socket)
		lb_write_lost(ctx->meta->seq, sock, socket);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
