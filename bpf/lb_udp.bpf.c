// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Closes connected UDP sockets whose backend or frontend is gone, or whose service had no backend when they
 * connected and has one now: their next call fails with ECONNABORTED, as if the host had refused, and the
 * client can connect again (SEM-46). Run over all UDP sockets of one network namespace, whenever UDP services
 * change.
 */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "bpf/packet/kernel.h"
#include "bpf/select/service.h"
#include "maps/abi/checks.h"
#include "maps/abi/maps.bpf.h"

/* From 6.5; the agent loads lb_udp_destroy only if the kernel has it. */
extern int bpf_sock_destroy(struct sock_common *sock) __ksym __weak;

static __always_inline void lb_read_far_end(const struct sock_common *sock, struct lb_frontend_key *far_end)
{
	__u32 prefix = LB_IPV4_PREFIX, address = sock->skc_daddr;

	__builtin_memset(far_end, 0, sizeof(*far_end));
	if (sock->skc_family == LB_AF_INET) {
		__builtin_memcpy(far_end->address + 8, &prefix, sizeof(prefix));
		__builtin_memcpy(far_end->address + 12, &address, sizeof(address));
	} else {
		__builtin_memcpy(far_end->address, sock->skc_v6_daddr.bytes, sizeof(far_end->address));
	}
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
	       backend.port == pair->backend_port &&
	       lb_word(backend.address) == lb_word(pair->backend_address) &&
	       lb_word(backend.address + 8) == lb_word(pair->backend_address + 8);
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

/* Whether the backend of the socket's pair is gone. A socket without a pair of ours is not closed. */
static __always_inline int lb_lost_backend(const struct lb_socket *socket, const struct sock_common *sock)
{
	struct lb_frontend_key far_end;

	lb_read_far_end(sock, &far_end);
	for (int i = 0; i < LB_SOCKET_PAIRS; i++) {
		if (!socket->pairs[i].sent && lb_leads_there(&socket->pairs[i], &far_end))
			return lb_is_outdated(&socket->pairs[i]);
	}
	return 0;
}

/* Only connected sockets: an unconnected one would lose its port (REL-71). */
static __always_inline int lb_must_close(struct sock_common *sock)
{
	const struct lb_socket *socket;

	if (sock->skc_state != BPF_TCP_ESTABLISHED)
		return 0;
	socket = bpf_sk_storage_get(&lb_sockets, sock, NULL, 0);
	return socket && lb_lost_backend(socket, sock);
}

/* Writes one byte for each socket that was closed. */
SEC("iter/udp")
int lb_udp_destroy(struct bpf_iter__udp *ctx)
{
	struct udp_sock *udp = ctx->udp_sk;
	struct sock_common *sock = (struct sock_common *)udp;
	__u8 one = 1;

	if (udp && lb_must_close(sock) && !bpf_sock_destroy(sock))
		bpf_seq_write(ctx->meta->seq, &one, sizeof(one));
	return 0;
}

/*
 * For kernels without bpf_sock_destroy: writes the cookie of each socket that the agent must close by
 * sock_diag.
 */
SEC("iter/udp")
int lb_udp_find(struct bpf_iter__udp *ctx)
{
	struct udp_sock *udp = ctx->udp_sk;
	struct sock_common *sock = (struct sock_common *)udp;
	__u64 cookie;

	if (udp && lb_must_close(sock)) {
		cookie = bpf_get_socket_cookie(sock);
		bpf_seq_write(ctx->meta->seq, &cookie, sizeof(cookie));
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
