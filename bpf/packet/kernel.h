/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel structs that programs read, with only the members that they read: relocated by CO-RE at load
 * time.
 */
#ifndef SLUICE_BPF_KERNEL_H
#define SLUICE_BPF_KERNEL_H

#include <linux/types.h>

#define LB_KERNEL __attribute__((preserve_access_index))

/* Families of the kernel's sockets and routes; userspace's socket.h cannot be included here. */
#define LB_AF_INET 2
#define LB_AF_INET6 10

struct in6_address {
	__u8 bytes[16];
};

struct ns_common {
	unsigned int inum;
} LB_KERNEL;

struct net {
	__u64 net_cookie;
	struct ns_common ns;
} LB_KERNEL;

typedef struct {
	struct net *net;
} LB_KERNEL possible_net_t;

typedef struct {
	int counter;
} LB_KERNEL atomic_t;

typedef struct refcount_struct {
	atomic_t refs;
} LB_KERNEL refcount_t;

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	int skc_bound_dev_if;
	possible_net_t skc_net;
	struct in6_address skc_v6_daddr;
	struct in6_address skc_v6_rcv_saddr;
	refcount_t skc_refcnt;
} LB_KERNEL;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
} LB_KERNEL;

/* The state of a packet's checksum: the kernel's CHECKSUM_… */
enum lb_summed { LB_SUMMED_NOT, LB_SUMMED_VERIFIED, LB_SUMMED_WHOLE, LB_SUMMED_PARTLY };

struct sk_buff {
	__u8 ip_summed : 2; /* enum lb_summed */
} LB_KERNEL;

/* No member is read; only the pointer is compared with NULL. */
struct mptcp_sock {
	__u64 write_seq;
} LB_KERNEL;

struct udp_sock;
struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
} LB_KERNEL;

struct bpf_iter__udp {
	struct bpf_iter_meta *meta;
	struct udp_sock *udp_sk;
} LB_KERNEL;

struct bpf_map;
struct sock;

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	struct sock *sk;
	void *value;
} LB_KERNEL;

#endif
