/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The peers with which a UDP socket exchanges datagrams directly, without a translation: Bloom filters of two
 * generations. What a socket sends to such a peer belongs to a conversation that exists, also if the peer's
 * address and port are, or become, a service's (docs/decisions/056-direct-peers.md).
 */
#ifndef SLUICE_BPF_DIRECT_H
#define SLUICE_BPF_DIRECT_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>

#include "bpf/packet/kernel.h"
#include "bpf/packet/stats.h"
#include "bpf/select/service.h"
#include "maps/abi/checks.h"
#include "maps/abi/maps.bpf.h"

/* A generation's seconds: a peer is known for as long, and forgotten after twice as long. */
#define LB_PEER_SECONDS 120

/* The socket options, and their level, by which several sockets may have one port. */
#define LB_SOL_SOCKET 1
#define LB_SO_REUSEADDR 2
#define LB_SO_REUSEPORT 15

/* What the socket did with the peer's address. */
enum lb_exchange { LB_SENT_TO, LB_READ_FROM };

/*
 * A filter's member: three bits of one word, and a fourth one of a peer from which the process has read. Without
 * a secret: who can choose senders that collide can fill the filter as well, and a look-up of the node's secret costs 2 % of
 * a message.
 */
struct lb_member {
	__u64 word;
	__u64 bits;
};

/* One that is not among three bits, from a position on: else who was only sent to would count as read from. */
static __always_inline __u64 lb_other_bit(__u64 three, __u64 at)
{
	for (int i = 0; i < 3; i++)
		at += three >> (at & 63) & 1;
	return 1ULL << (at & 63);
}

static __always_inline struct lb_member lb_member_of(const struct lb_frontend_key *peer, enum lb_exchange how)
{
	__u64 mixed = lb_mix(lb_mix(0, lb_word(peer->address)), lb_word(peer->address + 8)), bits;

	mixed = lb_mix(mixed, peer->port);
	bits = 1ULL << (mixed & 63) | 1ULL << (mixed >> 6 & 63) | 1ULL << (mixed >> 12 & 63);
	if (how == LB_READ_FROM)
		bits |= lb_other_bit(bits, mixed >> 18);
	return (struct lb_member){.word = (mixed >> 32) * LB_PEER_WORDS >> 32, .bits = bits};
}

static __always_inline int lb_has_bits(const __u64 *word, __u64 bits)
{
	return (*(const volatile __u64 *)word & bits) == bits;
}

/*
 * Begins a generation if the present one is old enough. Sockets that share a port may come here at the same
 * time: one of them does it, and each word is taken over whole.
 */
static __always_inline void lb_age_peers(struct lb_direct_peers *peers)
{
	__u32 now = lb_clock(), begun = *(volatile __u32 *)&peers->begun;

	if (begun && now - begun < LB_PEER_SECONDS)
		return;
	if (__sync_val_compare_and_swap(&peers->begun, begun, now) != begun || !begun)
		return;
	for (int i = 0; i < LB_PEER_WORDS; i++) {
		__u64 word = __sync_lock_test_and_set(&peers->recent[i], 0);

		peers->before[i] = now - begun < 2 * LB_PEER_SECONDS ? word : 0;
	}
}

/* Whether the member was new to this generation. */
static __always_inline int lb_add_peer(struct lb_direct_peers *peers, struct lb_member member)
{
	__u64 word = lb_opaque(member.word);

	if (word >= LB_PEER_WORDS)
		return 0;
	lb_age_peers(peers);
	if (lb_has_bits(&peers->recent[word], member.bits))
		return 0;
	__sync_fetch_and_or(&peers->recent[word], member.bits);
	return 1;
}

static __always_inline int lb_has_peer(struct lb_direct_peers *peers, struct lb_member member)
{
	__u64 word = lb_opaque(member.word);

	if (word >= LB_PEER_WORDS)
		return 0;
	lb_age_peers(peers);
	return lb_has_bits(&peers->recent[word], member.bits) ||
	       lb_has_bits(&peers->before[word], member.bits);
}

/* ---- Sockets that share a port. ---- */

static __always_inline int lb_socket_option(struct bpf_sock_addr *ctx, int option)
{
	int value = 0;

	return !bpf_getsockopt(ctx, LB_SOL_SOCKET, option, &value, sizeof(value)) && value;
}

/* Whether other sockets may have this socket's port, so that one reads what another answers. */
static __always_inline int lb_shares_port(struct bpf_sock_addr *ctx, struct lb_socket *socket)
{
	if (socket->sharing == LB_SHARING_UNKNOWN)
		socket->sharing =
			lb_socket_option(ctx, LB_SO_REUSEPORT) || lb_socket_option(ctx, LB_SO_REUSEADDR)
				? LB_SHARES_PORT
				: LB_OWNS_PORT;
	return socket->sharing == LB_SHARES_PORT;
}

static __always_inline struct lb_port_key lb_port_of(struct bpf_sock_addr *ctx)
{
	struct lb_port_key key = {.netns = bpf_get_netns_cookie(ctx)};

	if (ctx->sk)
		key.port = (__u16)ctx->sk->src_port;
	return key;
}

static const struct lb_direct_peers lb_no_peers;

/* Notes what one of the sockets that share the port has read, for the others. */
static __always_inline void lb_add_port_peer(struct bpf_sock_addr *ctx, struct lb_member member)
{
	struct lb_port_key key = lb_port_of(ctx);
	struct lb_direct_peers *peers = bpf_map_lookup_elem(&lb_shared_ports, &key);

	if (!peers) {
		bpf_map_update_elem(&lb_shared_ports, &key, &lb_no_peers, BPF_NOEXIST);
		peers = bpf_map_lookup_elem(&lb_shared_ports, &key);
	}
	if (peers)
		lb_add_peer(peers, member);
}

static __always_inline int lb_has_port_peer(struct bpf_sock_addr *ctx, struct lb_member member)
{
	struct lb_port_key key = lb_port_of(ctx);
	struct lb_direct_peers *peers = bpf_map_lookup_elem(&lb_shared_ports, &key);

	return peers && lb_has_peer(peers, member);
}

/*
 * A bit for each port (by a hash) whose sockets have ever sent to a service, never cleared: a server's reads
 * need no look-up.
 */
#define LB_CLIENT_PORT_WORDS 512

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LB_CLIENT_PORT_WORDS);
	__type(key, __u32);
	__type(value, __u64);
} lb_client_ports SEC(".maps") __weak;

static __always_inline __u64 *lb_client_port(const struct lb_peer_key *key, __u64 *bit)
{
	__u64 mixed = lb_mix(key->netns, key->local_port);
	__u32 word = (__u32)(mixed >> 32) % LB_CLIENT_PORT_WORDS;

	*bit = 1ULL << (mixed & 63);
	return bpf_map_lookup_elem(&lb_client_ports, &word);
}

static __always_inline int lb_has_client(const struct lb_peer_key *key)
{
	__u64 bit, *word = lb_client_port(key, &bit);

	return word && lb_has_bits(word, bit);
}

static __always_inline void lb_add_client(const struct lb_peer_key *key)
{
	__u64 bit, *word = lb_client_port(key, &bit);

	if (word && !lb_has_bits(word, bit))
		__sync_fetch_and_or(word, bit);
}

static __always_inline struct lb_peer_key lb_peer_key_of(struct bpf_sock_addr *ctx, const __u8 *address,
							 __u16 port)
{
	struct lb_port_key local = lb_port_of(ctx);
	struct lb_peer_key key = {.netns = local.netns, .port = port, .local_port = local.port};

	__builtin_memcpy(key.address, address, sizeof(key.address));
	return key;
}

/* The look-up keeps the entry from being evicted. */
static __always_inline void lb_write_shared_peer(const struct lb_peer_key *key, struct lb_shared_peer *peer)
{
	const struct lb_shared_peer *there = bpf_map_lookup_elem(&lb_shared_peers, key);

	peer->check = lb_shared_peer_check(key, peer);
	if (!there || there->check != peer->check)
		bpf_map_update_elem(&lb_shared_peers, key, peer, BPF_ANY);
}

/* Tells the sockets of the port by which frontend this one reaches a backend; the latest counts. */
static __always_inline void lb_share_pair(struct bpf_sock_addr *ctx, struct lb_socket *socket)
{
	const struct lb_pair *pair = &socket->pairs[0];
	struct lb_shared_peer peer = {.port = pair->port};
	struct lb_peer_key key;

	if (!lb_shares_port(ctx, socket))
		return;
	key = lb_peer_key_of(ctx, pair->backend_address, pair->backend_port);
	__builtin_memcpy(peer.address, pair->address, sizeof(peer.address));
	lb_add_client(&key);
	lb_write_shared_peer(&key, &peer);
}

/* Tells the sockets of the port that this one talks directly with the peer, if a service led there before. */
static __always_inline void lb_share_direct(struct bpf_sock_addr *ctx, struct lb_socket *socket,
					    const struct lb_frontend_key *asked)
{
	struct lb_shared_peer direct = {};
	struct lb_peer_key key;

	if (!lb_shares_port(ctx, socket))
		return;
	key = lb_peer_key_of(ctx, asked->address, asked->port);
	if (lb_has_client(&key) && bpf_map_lookup_elem(&lb_shared_peers, &key))
		lb_write_shared_peer(&key, &direct);
}

enum lb_reached { LB_REACHED_UNKNOWN, LB_REACHED_DIRECTLY, LB_REACHED_BY_FRONTEND };

/* How the sockets of the port reached the peer last. By a frontend: it replaces the peer. */
static __always_inline enum lb_reached lb_find_shared_peer(struct bpf_sock_addr *ctx,
							   struct lb_socket *socket,
							   struct lb_frontend_key *peer)
{
	const struct lb_shared_peer *found;
	struct lb_shared_peer copy;
	struct lb_peer_key key;

	if (!lb_shares_port(ctx, socket))
		return LB_REACHED_UNKNOWN;
	key = lb_peer_key_of(ctx, peer->address, peer->port);
	found = lb_has_client(&key) ? bpf_map_lookup_elem(&lb_shared_peers, &key) : NULL;
	if (!found)
		return LB_REACHED_UNKNOWN;
	copy = *found;
	if (copy.check != lb_shared_peer_check(&key, &copy))
		return LB_REACHED_UNKNOWN;
	if (!copy.port)
		return LB_REACHED_DIRECTLY;
	__builtin_memcpy(peer->address, copy.address, sizeof(peer->address));
	peer->port = copy.port;
	return LB_REACHED_BY_FRONTEND;
}

/* ---- What the hooks ask and note. ---- */

static __always_inline void lb_read4(__u8 *address, __u32 word)
{
	__u32 prefix = LB_IPV4_PREFIX;

	__builtin_memset(address, 0, 8);
	__builtin_memcpy(address + 8, &prefix, sizeof(prefix));
	__builtin_memcpy(address + 12, &word, sizeof(word));
}

static __always_inline void lb_read6(__u8 *address, __u32 first, __u32 second, __u32 third, __u32 last)
{
	__u32 words[4] = {first, second, third, last};

	__builtin_memcpy(address, words, sizeof(words));
}

/* Whether the socket is connected to this address. */
static __always_inline int lb_is_connected_to(struct bpf_sock_addr *ctx, const struct lb_frontend_key *peer)
{
	struct bpf_sock *sk = ctx->sk;
	__u8 far_end[16];

	if (!sk || sk->state != BPF_TCP_ESTABLISHED || bpf_ntohs(sk->dst_port) != peer->port)
		return 0;
	if (sk->family == LB_AF_INET)
		/* Opaque: of two loads compilers make one through a pointer, which the verifier refuses. */
		lb_read4(far_end, (__u32)lb_opaque(sk->dst_ip4));
	else
		lb_read6(far_end, sk->dst_ip6[0], sk->dst_ip6[1], sk->dst_ip6[2], sk->dst_ip6[3]);
	return lb_word(far_end) == lb_word(peer->address) &&
	       lb_word(far_end + 8) == lb_word(peer->address + 8);
}

/* Notes the sender of a datagram that no pair explains. */
static __always_inline void lb_note_sender(struct bpf_sock_addr *ctx, struct lb_socket *socket,
					   const struct lb_frontend_key *sender)
{
	struct lb_member member = lb_member_of(sender, LB_READ_FROM);

	if (lb_add_peer(&socket->direct, member) && lb_shares_port(ctx, socket))
		lb_add_port_peer(ctx, member);
}

/* Whether the process has read from that peer; if so, it is noted again. */
static __always_inline int lb_has_read_from(struct bpf_sock_addr *ctx, struct lb_socket *socket,
					    const struct lb_frontend_key *peer)
{
	struct lb_member member = lb_member_of(peer, LB_READ_FROM);

	if (!lb_has_peer(&socket->direct, member) &&
	    !(lb_shares_port(ctx, socket) && lb_has_port_peer(ctx, member)))
		return 0;
	lb_add_peer(&socket->direct, member);
	return 1;
}

/* What was only sent to a peer is not noted again: if nobody answers, it reaches the service after that time. */
static __always_inline int lb_talks_directly(struct bpf_sock_addr *ctx, struct lb_socket *socket,
					     const struct lb_frontend_key *peer)
{
	return lb_has_read_from(ctx, socket, peer) ||
	       lb_has_peer(&socket->direct, lb_member_of(peer, LB_SENT_TO));
}

#endif
