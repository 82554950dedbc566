/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether a tuple is used on this node by something other than our flows: by a socket of the host, or by a
 * connection in conntrack. Checked for new flows only. The kfunc differs between program types, so the object
 * that includes this file sets LB_CT_LOOKUP to its own, and LB_OBJECT to its name. LB_PER_OBJECT() names that
 * object's copy of a function that calls the kfunc.
 */
#ifndef SLUICE_BPF_TUPLE_IN_USE_H
#define SLUICE_BPF_TUPLE_IN_USE_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>

#include "bpf/packet/kernel.h"
#include "bpf/packet/packet.h"
#include "bpf/packet/stats.h"
#include "bpf/select/service.h"

#define LB_JOIN(name, object) name##_##object
#define LB_JOINED(name, object) LB_JOIN(name, object)
#define LB_PER_OBJECT(name) LB_JOINED(name, LB_OBJECT)
#define LB_CT_RELEASE LB_JOINED(bpf_ct_release__, LB_OBJECT)

/*
 * From net/netfilter/nf_conntrack_bpf.c; libbpf ignores the suffix after ___ when it compares it with the
 * kernel's struct.
 */
struct bpf_ct_opts___lb {
	__s32 netns_id;
	__s32 error;
	__u8 l4proto;
	__u8 dir; /* the direction of the connection that the tuple matches */
	__u16 ct_zone_id;
	__u8 ct_zone_dir;
	__u8 reserved[3];
};
#define LB_CT_REPLY 1
/* Older kernels accept only the first twelve bytes. */
#define LB_CT_OPTS_SIZE 12

union nf_inet_addr {
	__u32 all[4];
} LB_KERNEL;
union nf_conntrack_man_proto {
	__be16 all;
} LB_KERNEL;
struct nf_conntrack_man {
	union nf_inet_addr u3;
	union nf_conntrack_man_proto u;
} LB_KERNEL;
struct nf_conntrack_tuple {
	struct nf_conntrack_man src;
} LB_KERNEL;
struct nf_conntrack_tuple_hash {
	struct nf_conntrack_tuple tuple;
} LB_KERNEL;
struct nf_conn {
	struct nf_conntrack_tuple_hash tuplehash[2];
	unsigned long status;
} LB_KERNEL;
/* From uapi/linux/netfilter/nf_conntrack_common.h, IPS_SEEN_REPLY: packets of both directions were seen. */
#define LB_CT_SEEN_REPLY (1UL << 1)

struct nf_conn *LB_CT_LOOKUP(LB_CT_CONTEXT *ctx, struct bpf_sock_tuple *tuple, __u32 size,
			     struct bpf_ct_opts___lb *opts, __u32 opts_size) __weak __ksym;
/* A separate name for each object, because bpftool cannot merge equal external symbols. */
void LB_CT_RELEASE(struct nf_conn *connection) __weak __ksym;

enum lb_tuple_user {
	LB_UNUSED,
	LB_LISTENER,
	LB_CONNECTED,
	LB_CONNTRACK_ANSWERED,   /* original direction, packets of both were seen */
	LB_CONNTRACK_UNANSWERED, /* original direction, and no packet of the other one was seen */
	LB_CONNTRACK_TRANSLATED, /* original direction, destination rewritten by conntrack or IPVS */
	LB_CONNTRACK_REPLY,
	LB_CONNTRACK_FIRST_REPLY, /* the same, and no packet of the reply direction was seen */
};

/* Fills in the tuple of an arriving packet; returns its size. */
static __always_inline __u32 lb_sock_tuple(const struct lb_tuple *tuple, struct bpf_sock_tuple *asked)
{
	__builtin_memset(asked, 0, sizeof(*asked));
	if (tuple->family == LB_IPV4) {
		asked->ipv4.saddr = tuple->source.words[3];
		asked->ipv4.daddr = tuple->destination.words[3];
		asked->ipv4.sport = bpf_htons(tuple->source_port);
		asked->ipv4.dport = bpf_htons(tuple->destination_port);
		return sizeof(asked->ipv4);
	}
	__builtin_memcpy(asked->ipv6.saddr, &tuple->source, 16);
	__builtin_memcpy(asked->ipv6.daddr, &tuple->destination, 16);
	asked->ipv6.sport = bpf_htons(tuple->source_port);
	asked->ipv6.dport = bpf_htons(tuple->destination_port);
	return sizeof(asked->ipv6);
}

LB_FUNCTION int lb_tcp_socket_of(void *ctx __arg_ctx, const struct lb_tuple *tuple)
{
	struct bpf_sock_tuple asked;
	struct bpf_sock *found;
	__u32 state;

	if (!tuple)
		return LB_UNUSED;
	found = bpf_skc_lookup_tcp(ctx, &asked, lb_sock_tuple(tuple, &asked), BPF_F_CURRENT_NETNS, 0);
	if (!found)
		return LB_UNUSED;
	state = found->state;
	bpf_sk_release(found);
	return state == BPF_TCP_LISTEN ? LB_LISTENER : LB_CONNECTED;
}

/* A listener: a socket that is bound to the port and not connected. */
LB_FUNCTION int lb_udp_socket_of(void *ctx __arg_ctx, const struct lb_tuple *tuple)
{
	struct bpf_sock_tuple asked;
	struct bpf_sock *found;
	__u32 peer;

	if (!tuple)
		return LB_UNUSED;
	found = bpf_sk_lookup_udp(ctx, &asked, lb_sock_tuple(tuple, &asked), BPF_F_CURRENT_NETNS, 0);
	if (!found)
		return LB_UNUSED;
	peer = found->dst_port;
	bpf_sk_release(found);
	return peer ? LB_CONNECTED : LB_LISTENER;
}

static __always_inline int lb_socket_using(void *ctx, const struct lb_tuple *tuple)
{
	switch (tuple->protocol) {
	case LB_TCP:
		return lb_tcp_socket_of(ctx, tuple);
	case LB_UDP:
		return lb_udp_socket_of(ctx, tuple);
	default:
		return LB_UNUSED;
	}
}

/*
 * Whether a connection's destination is rewritten: its replies come from another end than the destination of
 * the original direction. The status bit IPS_DST_NAT is set only for rewriting by conntrack, not by IPVS.
 */
static __always_inline int lb_has_other_destination(const struct nf_conn *connection,
						    const struct lb_tuple *original)
{
	const struct nf_conntrack_man *from = &connection->tuplehash[LB_CT_REPLY].tuple.src;

	if (from->u.all != bpf_htons(original->destination_port))
		return 1;
	if (original->family == LB_IPV4)
		return from->u3.all[0] != original->destination.words[3];
	return from->u3.all[0] != original->destination.words[0] ||
	       from->u3.all[1] != original->destination.words[1] ||
	       from->u3.all[2] != original->destination.words[2] ||
	       from->u3.all[3] != original->destination.words[3];
}

static __always_inline enum lb_tuple_user lb_conntrack_user(const struct nf_conn *connection,
							    const struct lb_tuple *tuple, __u8 direction)
{
	int answered = (connection->status & LB_CT_SEEN_REPLY) != 0;

	if (direction == LB_CT_REPLY)
		return answered ? LB_CONNTRACK_REPLY : LB_CONNTRACK_FIRST_REPLY;
	if (lb_has_other_destination(connection, tuple))
		return LB_CONNTRACK_TRANSLATED;
	return answered ? LB_CONNTRACK_ANSWERED : LB_CONNTRACK_UNANSWERED;
}

static __always_inline int lb_is_conntrack_reply(int holder)
{
	return holder == LB_CONNTRACK_REPLY || holder == LB_CONNTRACK_FIRST_REPLY;
}

LB_FUNCTION int LB_PER_OBJECT(lb_conntrack_of)(void *ctx __arg_ctx, const struct lb_tuple *tuple)
{
	struct bpf_ct_opts___lb opts = {.netns_id = BPF_F_CURRENT_NETNS};
	struct bpf_sock_tuple asked;
	struct nf_conn *connection;
	enum lb_tuple_user holder;

	if (!tuple || !lb_config.ct_lookup || (tuple->protocol != LB_TCP && tuple->protocol != LB_UDP))
		return LB_UNUSED;
	opts.l4proto = tuple->protocol;
	connection = LB_CT_LOOKUP(ctx, &asked, lb_sock_tuple(tuple, &asked), &opts, LB_CT_OPTS_SIZE);
	if (!connection)
		return LB_UNUSED;
	holder = lb_conntrack_user(connection, tuple, opts.dir);
	LB_CT_RELEASE(connection);
	return holder;
}

/*
 * Whether replies on this tuple belong to a connection that the kernel tracks, that is, a direct one of the
 * client to the backend. Sockets are not checked: the client is not a process of this node. After the flow
 * tables were lost the kernel's entry may be that of one of our flows that must be found again, and the two
 * cannot be distinguished.
 */
LB_FUNCTION int LB_PER_OBJECT(lb_is_direct)(void *ctx __arg_ctx, const struct lb_tuple *reply, int opens)
{
	if (!reply || (!opens && lb_tables_lost()))
		return 0;
	return LB_PER_OBJECT(lb_conntrack_of)(ctx, reply) != LB_UNUSED;
}

/*
 * Whether replies on this tuple would be confused with those of a socket or connection of the kernel. A UDP socket
 * that is bound and not connected may talk to any peer, and any process may bind thousands: it uses the tuple only if
 * conntrack has a packet between it and this backend. What a backend sends unasked, or someone in its name, to a port
 * without a socket uses none.
 */
LB_FUNCTION int LB_PER_OBJECT(lb_reply_in_use)(void *ctx __arg_ctx, const struct lb_tuple *tuple)
{
	int holder, listens;

	if (!tuple)
		return 1;
	holder = lb_socket_using(ctx, tuple);
	if (holder == LB_CONNECTED)
		return 1;
	listens = holder == LB_LISTENER && tuple->protocol == LB_UDP;
	if (!lb_config.ct_lookup)
		return listens;
	holder = LB_PER_OBJECT(lb_conntrack_of)(ctx, tuple);
	return holder == LB_CONNTRACK_UNANSWERED ? listens : holder != LB_UNUSED;
}

/*
 * Whether a packet for a service's address belongs to a socket or a connection that has that address and port
 * as its peer (REL-64, REL-146). A UDP connection without a reply does not count: it may be a client's that
 * sent before the service existed.
 */
LB_FUNCTION int LB_PER_OBJECT(lb_tuple_in_use)(void *ctx __arg_ctx, const struct lb_tuple *tuple)
{
	int tracked;

	if (!tuple)
		return 0;
	if (lb_socket_using(ctx, tuple) == LB_CONNECTED)
		return 1;
	tracked = LB_PER_OBJECT(lb_conntrack_of)(ctx, tuple);
	return lb_is_conntrack_reply(tracked) || tracked == LB_CONNTRACK_ANSWERED ||
	       (tracked != LB_UNUSED && tuple->protocol == LB_TCP);
}

#endif
