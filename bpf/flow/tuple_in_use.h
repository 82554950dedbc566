/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Is a tuple in use on this node by something other than our flows: by a socket of the host, or by a connection in
 * conntrack? Checked for new flows only. The kfunc is a different one in each program type, so the object that
 * includes this names its own in LB_CT_LOOKUP and, for its callers, itself in LB_OBJECT.
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
#define LB_OWN(name) LB_JOINED(name, LB_OBJECT)
#define LB_CT_RELEASE LB_JOINED(bpf_ct_release__, LB_OBJECT)

/* net/netfilter/nf_conntrack_bpf.c; the flavour behind ___ is ignored when it is compared with the kernel's. */
struct bpf_ct_opts___lb {
	__s32 netns_id;
	__s32 error;
	__u8 l4proto;
	__u8 dir; /* which of the connection's directions the tuple is */
	__u16 ct_zone_id;
	__u8 ct_zone_dir;
	__u8 reserved[3];
};
#define LB_CT_REPLY 1
/* Older kernels know the first twelve bytes. */
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
} LB_KERNEL;

struct nf_conn *LB_CT_LOOKUP(LB_CT_CONTEXT *ctx, struct bpf_sock_tuple *tuple, __u32 size,
			     struct bpf_ct_opts___lb *opts, __u32 opts_size) __weak __ksym;
/* One name in each object, because bpftool cannot merge two that are outside of both. */
void LB_CT_RELEASE(struct nf_conn *connection) __weak __ksym;

enum lb_tuple_user {
	LB_UNUSED,
	LB_LISTENER,
	LB_CONNECTED,
	LB_CONNTRACK,
	LB_CONNTRACK_TRANSLATED, /* the original direction of a connection whose destination conntrack or IPVS rewrites */
	LB_CONNTRACK_REPLY,
};

/* Fills a tuple as a packet that arrives here has it; its size. */
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
 * Is a connection's destination rewritten: do its replies come from another end than the original direction goes to? The status bit
 * IPS_DST_NAT says it only of what conntrack rewrites, not of what IPVS does.
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

LB_FUNCTION int LB_OWN(lb_conntrack_of)(void *ctx __arg_ctx, const struct lb_tuple *tuple)
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
	if (opts.dir == LB_CT_REPLY)
		holder = LB_CONNTRACK_REPLY;
	else
		holder = lb_has_other_destination(connection, tuple) ? LB_CONNTRACK_TRANSLATED : LB_CONNTRACK;
	LB_CT_RELEASE(connection);
	return holder;
}

/*
 * Do replies on this tuple belong to a connection that the kernel tracks, as one that the client has straight to the backend? Its
 * sockets are not asked: the client is no process of this node's. After the flow tables were lost the kernel's entry may be that of
 * a flow of ours which is to be found again, and nothing tells the two apart.
 */
LB_FUNCTION int LB_OWN(lb_is_direct)(void *ctx __arg_ctx, const struct lb_tuple *reply, int opens)
{
	if (!reply || (!opens && lb_tables_lost()))
		return 0;
	return LB_OWN(lb_conntrack_of)(ctx, reply) != LB_UNUSED;
}

/* Would replies by this tuple be taken for those of a socket or a connection of the kernel's, or those for ours? */
LB_FUNCTION int LB_OWN(lb_reply_in_use)(void *ctx __arg_ctx, const struct lb_tuple *tuple)
{
	int holder;

	if (!tuple)
		return 1;
	holder = lb_socket_using(ctx, tuple);
	if (holder == LB_CONNECTED || (holder == LB_LISTENER && tuple->protocol == LB_UDP))
		return 1;
	return LB_OWN(lb_conntrack_of)(ctx, tuple) != LB_UNUSED;
}

/*
 * Is a packet for a service's address a reply to a local socket or connection whose source that address and port are (REL-64)? Of
 * UDP the connection's first direction says nothing: it may be what passed before the service existed.
 */
LB_FUNCTION int LB_OWN(lb_tuple_in_use)(void *ctx __arg_ctx, const struct lb_tuple *tuple)
{
	int tracked;

	if (!tuple)
		return 0;
	if (lb_socket_using(ctx, tuple) == LB_CONNECTED)
		return 1;
	tracked = LB_OWN(lb_conntrack_of)(ctx, tuple);
	return tracked == LB_CONNTRACK_REPLY || (tracked != LB_UNUSED && tuple->protocol == LB_TCP);
}

#endif
