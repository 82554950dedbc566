/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The interface between the programs and the agent: every key, value, enum and limit of the maps. Included by
 * both sides (C11 for the programs, C++20 for the agent), so a struct exists once.
 *
 * Addresses are 16 bytes, IPv4 as ::ffff:a.b.c.d. Ports are in host byte order. Padding is explicit and zero.
 * Values that a reader may use at the same time change by aligned 64-bit stores (see maps/abi/LAYOUT.md).
 */
#ifndef SLUICE_MAPS_ABI_H
#define SLUICE_MAPS_ABI_H

#include <linux/types.h>

#include "maps/abi/outcomes.h"

#ifdef __cplusplus
#define LB_ASSERT(what) static_assert(what, #what)
#else
#define LB_ASSERT(what) _Static_assert(what, #what)
#endif

/* An enum of one byte, so that a dump prints its names and a key has no padding hole. */
#define LB_BYTE_ENUM enum __attribute__((packed))
#define LB_ALIGN8 __attribute__((aligned(8)))

/* The version of everything in this file. It names the pin directory: each layout has its own directory. */
#define LB_LAYOUT 8

/* Default sizes; the agent's options change them before the maps are created. */
#define LB_MAX_FRONTENDS 65536
#define LB_MAX_SERVICES 65536
#define LB_MAX_BACKENDS 262144
#define LB_MAX_SLOTS 1048576
#define LB_MAX_FLOWS 524288
/* A little more than a power of two: the kernel makes twice as many buckets, and chains are half as long. */
#define LB_MAX_UNASSURED 140000
/* An unassured entry without a packet for longer is ignored. */
#define LB_UNASSURED_SECONDS 75
#define LB_MAX_ADDRESSES 65536
#define LB_MAX_DEVICES 4096
#define LB_MAX_AFFINITY 131072
#define LB_MAX_RANGES 65536
#define LB_MAX_FRAGMENTS 8192
#define LB_MAX_SHARED_PORTS 2048
#define LB_MAX_SHARED_PEERS 8192

LB_BYTE_ENUM lb_bool { LB_NO, LB_YES };

LB_BYTE_ENUM lb_protocol { LB_ANY_PROTOCOL = 0, LB_TCP = 6, LB_UDP = 17, LB_SCTP = 132 };

LB_BYTE_ENUM lb_family { LB_NO_FAMILY = 0, LB_IPV4 = 4, LB_IPV6 = 6 };

/* ---- Frontends: addresses and ports of services. ---- */

LB_BYTE_ENUM lb_kind {
	LB_NO_KIND,
	LB_CLUSTER_IP,
	LB_NODE_PORT,
	LB_EXTERNAL_IP,
	LB_LOAD_BALANCER,
};

/*
 * Node ports are keyed by their family's address zero (::ffff:0.0.0.0 or ::), because one number is another
 * service in each family; lb_addresses says which addresses they serve.
 */
struct lb_frontend_key {
	__u8 address[16];
	__u16 port;
	enum lb_protocol protocol;
	__u8 pad;
};
LB_ASSERT(sizeof(struct lb_frontend_key) == 20);

/* Constant while it exists, and read by one 64-bit load; `check` is lb_frontend_check() of its key. */
struct lb_frontend {
	__u32 service;
	enum lb_kind kind;
	__u8 pad;
	__u16 check;
} LB_ALIGN8;
LB_ASSERT(sizeof(struct lb_frontend) == 8);

/* ---- This node's addresses, and those addresses of services on which all ports matter. ---- */

LB_BYTE_ENUM lb_address_kind {
	LB_NO_ADDRESS,
	LB_NODE_ADDRESS,      /* this node's, without node ports */
	LB_NODE_PORT_ADDRESS, /* this node's, with node ports */
	LB_LOOPBACK_ADDRESS,  /* serves node ports to sockets of the host's network namespace */
	LB_CLUSTER_ADDRESS,   /* a ClusterIP, not this node's: unknown ports there are rejected */
	LB_SERVICE_ADDRESS,   /* another address of a service; each frontend's address has an entry */
};

struct lb_address_key {
	__u8 address[16];
};

/* `check` is lb_address_check() of its key, because a hash may return another key's value. */
struct lb_address {
	enum lb_address_kind kind;
	__u8 pad[3];
	__u32 check;
} LB_ALIGN8;
LB_ASSERT(sizeof(struct lb_address) == 8);

/* ---- Devices to which the packet programs are attached. ---- */

LB_BYTE_ENUM lb_device_kind {
	LB_NO_DEVICE,
	LB_UPLINK, /* towards the network: other nodes and clients */
	LB_POD,    /* the host end of a pod's device */
};

/* Keyed by interface index. `check` is lb_device_check() of its key. */
struct lb_device {
	enum lb_device_kind kind;
	__u8 pad[3];
	__u32 check;
} LB_ALIGN8;
LB_ASSERT(sizeof(struct lb_device) == 8);

/* ---- Services: one number per service port, protocol and family. Number 0 is never used. ---- */

/* An extent of lb_slots; count 0 is an empty set. Replaced by one 64-bit store. */
struct lb_set {
	__u32 first;
	__u32 count;
} LB_ALIGN8;

LB_BYTE_ENUM lb_scope { LB_CLUSTER, LB_LOCAL };

LB_BYTE_ENUM lb_verdict { LB_REJECT, LB_DROP };

/* The key with which a backend is selected: see struct lb_node. */
LB_BYTE_ENUM lb_selection {
	LB_RANDOM,     /* slots represent weights */
	LB_CONSISTENT, /* slots are a consistent table, equal on every node */
};
#define LB_SELECTIONS 2

/* One 64-bit word. */
struct lb_policy {
	enum lb_scope internal;        /* the set for a ClusterIP's clients */
	enum lb_scope external;        /* the set for external clients of all other kinds */
	enum lb_verdict cluster_empty; /* the verdict if the cluster set is empty */
	enum lb_verdict local_empty;   /* the verdict if the local set is empty */
	enum lb_bool source_ranges;    /* lb_ranges restricts load-balancer addresses */
	enum lb_bool packet_path;      /* socket hooks leave it to packet hooks, but for the host's sockets */
	enum lb_selection selection;
	__u8 weight_error; /* percent by which a share of the traffic may differ from its weight; 0: exact */
} LB_ALIGN8;

struct lb_service {
	struct lb_set cluster;
	struct lb_set local;
	struct lb_policy policy;
	__u32 affinity_seconds; /* 0: no session affinity */
	__u32 pad;
} LB_ALIGN8;
LB_ASSERT(sizeof(struct lb_set) == 8);
LB_ASSERT(sizeof(struct lb_policy) == 8);
LB_ASSERT(sizeof(struct lb_service) == 32);

/* The meaning of a service number, for operators and for an agent that adopts the maps. */
struct lb_name {
	char service[192]; /* "namespace/name:port name", the port name may be empty */
	enum lb_protocol protocol;
	enum lb_family family;
	enum lb_bool retired; /* the service is gone; its number waits until nothing refers to it */
	__u8 pad[5];
};
LB_ASSERT(sizeof(struct lb_name) == 200);

/* ---- Backends: one id per endpoint (address and port) of one service. Id 0 is never used. ---- */

LB_BYTE_ENUM lb_locality {
	LB_ELSEWHERE, /* another zone, or unknown */
	LB_SAME_ZONE,
	LB_SAME_NODE,
	LB_SAME_NODE_BY_UPLINK, /* an endpoint of this node that an uplink leads to, like one on another node (SEM-141) */
};

struct lb_backend {
	__u8 address[16];
	/* One 64-bit word, the only part of an id in use that changes. */
	__u32 service;
	enum lb_locality locality;
	enum lb_bool in_cluster; /* eligible for new flows of the cluster set */
	enum lb_bool in_local;   /* eligible for new flows of the local set */
	enum lb_bool serving;    /* the endpoint serves (UDP flows stay while it does) */
	__u16 port;
	__u8 weight; /* 0 to 100; its number of slots relative to the others */
	__u8 pad[5];
} LB_ALIGN8;
LB_ASSERT(sizeof(struct lb_backend) == 32);

/*
 * An element of lb_slots: two slots, each a backend id, because the kernel aligns array elements to 8 bytes
 * and half of each cache line would be unused. Slot n is ids[n % 2] of element n / 2.
 */
#define LB_SLOTS_A_PAIR 2
struct lb_slots_pair {
	__u32 ids[LB_SLOTS_A_PAIR];
} LB_ALIGN8;
LB_ASSERT(sizeof(struct lb_slots_pair) == 8);

/* ---- Flows. A flow has two entries, one per direction, each keyed by the tuple of arriving packets. ---- */

/* The hook side at which an entry acts; it has no effect elsewhere. */
LB_BYTE_ENUM lb_side {
	LB_NO_SIDE,
	LB_UPLINK_INGRESS, /* arriving on an uplink */
	LB_UPLINK_EGRESS,  /* leaving by an uplink */
	LB_POD_INGRESS,    /* arriving from a pod's device */
	LB_POD_EGRESS,     /* leaving to a pod's device */
};

LB_BYTE_ENUM lb_direction { LB_FORWARD, LB_REPLY };

LB_BYTE_ENUM lb_path {
	LB_PATH_STACK,    /* rewritten and passed to the stack */
	LB_PATH_REDIRECT, /* rewritten and sent out by us, in both directions */
};

/*
 * The packets that an entry has seen; a state may shorten the entry's life, but never drops a packet. From
 * LB_CLOSING on the flow has ended, unless data follows.
 */
LB_BYTE_ENUM lb_state {
	LB_OPENING,  /* not seen in both directions */
	LB_ANSWERED, /* the SYN-ACK was seen; `number` is what the client must acknowledge */
	LB_OPEN,
	LB_CLOSING, /* a FIN was seen */
	LB_RESET,   /* an RST was seen: neither side sends more */
};

struct lb_flow4_key {
	__u8 source[4];
	__u8 destination[4];
	__u16 source_port;
	__u16 destination_port;
	enum lb_protocol protocol;
	__u8 pad[3];
} LB_ALIGN8;
LB_ASSERT(sizeof(struct lb_flow4_key) == 16);

struct lb_flow6_key {
	__u8 source[16];
	__u8 destination[16];
	__u16 source_port;
	__u16 destination_port;
	enum lb_protocol protocol;
	enum lb_family family;
	__u8 pad[2];
} LB_ALIGN8;
LB_ASSERT(sizeof(struct lb_flow6_key) == 40);

/*
 * One 64-bit word: the address and port to write into one end of the packet. `check` ties it to the entry's
 * key, and half of the track's constant part with it: backend and service at the source's end, the rest at
 * the destination's.
 */
struct lb_end4 {
	__u8 address[4];
	__u16 port;
	__u16 check;
} LB_ALIGN8;

/* The device of a reply whose route adds its own headers (encap): only the stack can send it. */
#define LB_STACK_DEVICE 0xffffffffU

/*
 * For both families; times are seconds of lb_clock. `seen`, `number`, `state` and `device` change, the rest
 * is constant and checked.
 */
struct lb_track {
	__u32 backend;
	__u32 service;
	__u32 device; /* output interface index of this direction; 0: the stack decides; LB_STACK_DEVICE */
	__u32 seen;   /* time of the last packet */
	__u32 opened;
	/*
	 * Unassured: the number that the client's first ACK must acknowledge, or one of enum
	 * lb_unassured_number (bpf/flow/nat.h); in both entries the same once the server has answered.
	 * Assured: for TCP the number after a packet of this side, the first of each second or the FIN; for
	 * SCTP the server's tag. 0: unknown.
	 */
	__u32 number;
	enum lb_side side;
	enum lb_side other_side; /* the side of the flow's other entry */
	enum lb_direction direction;
	enum lb_path path;
	enum lb_state state;
	enum lb_bool source_nat;
	enum lb_bool
		fast_open; /* its SYN had data, so that the server may send before the client acknowledges (RFC 7413) */
	enum lb_bool
		forwarded; /* the stack forwards its requests; where they leave, another flow gives them a source */
} LB_ALIGN8;
LB_ASSERT(sizeof(struct lb_track) == 32);

struct lb_flow4 {
	struct lb_end4 source;
	struct lb_end4 destination;
	struct lb_track track;
} LB_ALIGN8;
LB_ASSERT(sizeof(struct lb_flow4) == 48);

struct lb_flow6 {
	__u8 source[16];
	__u8 destination[16];
	__u16 source_port;
	__u16 destination_port;
	__u32 check; /* over the key, the four fields above and the constant part of the track */
	struct lb_track track;
} LB_ALIGN8;
LB_ASSERT(sizeof(struct lb_flow6) == 72);

/* ---- Session affinity: the last backend of a service's client. ---- */

struct lb_affinity_key {
	__u8 client[16];
	__u32 service;
	__u32 pad;
} LB_ALIGN8;
LB_ASSERT(sizeof(struct lb_affinity_key) == 24);

/*
 * `check` is lb_affinity_check() of key and backend. Changed in place: replacing a key of an LRU evicts
 * others.
 */
struct lb_affinity {
	__u32 backend;
	__u32 used; /* seconds of lb_clock at the last new flow */
	__u32 check;
	__u32 pad;
} LB_ALIGN8;
LB_ASSERT(sizeof(struct lb_affinity) == 16);

/* ---- Address ranges: by service number the allowed clients (SEM-37), and further lists. ---- */

#define LB_CLUSTER_IP_RANGES 0     /* ranges from which ClusterIPs are allocated (SEM-17) */
#define LB_POD_RANGES 0xffffffffu  /* ranges of pods' addresses (SEM-32) */
#define LB_XFRM_RANGES 0xfffffffeu /* peers whose packets IPsec policies of this node encrypt or block */

/* `prefix` includes the service number's 32 bits; IPv4 prefixes include their 96 mapped bits. */
struct lb_range_key {
	__u32 prefix;
	__u32 service;
	__u8 address[16];
};
LB_ASSERT(sizeof(struct lb_range_key) == 24);

struct lb_range {
	__u32 service; /* the key's, as a check */
};

/* ---- Fragments: the ports of a datagram whose first fragment was seen. ---- */

struct lb_fragment_key {
	__u8 source[16];
	__u8 destination[16];
	__u32 id;
	enum lb_protocol protocol;
	__u8 pad[3];
} LB_ALIGN8;
LB_ASSERT(sizeof(struct lb_fragment_key) == 40);

/* The first word is replaced as a whole; `check` ties it to the key. */
struct lb_fragment {
	__u16 source_port;
	__u16 destination_port;
	__u32 seen;
	__u32 check;
	__u32 pad;
} LB_ALIGN8;
LB_ASSERT(sizeof(struct lb_fragment) == 16);

/* ---- Sockets: the translations of a socket, so that later calls get the same ones. ---- */

#define LB_SOCKET_PAIRS 4 /* of a UDP socket; a TCP socket has one */

struct lb_pair {
	__u8 address[16]; /* the frontend of the process's call */
	__u8 backend_address[16];
	__u16 port;
	__u16 backend_port;
	__u32 backend; /* 0: none, and a connected UDP socket waits to be closed; the addresses are equal */
	__u32 service;
	enum lb_protocol protocol;
	enum lb_bool used;
	enum lb_bool direct; /* the process has sent directly to the backend since */
	enum lb_bool sent;   /* made by a message; no: by connect */
} LB_ALIGN8;
LB_ASSERT(sizeof(struct lb_pair) == 48);

/*
 * The peers with which a UDP socket exchanged datagrams directly, as two Bloom filters (bpf/sock/direct.h):
 * of the present generation, which began at `begun` (lb_clock), and of the one before.
 */
#define LB_PEER_WORDS 14

struct lb_direct_peers {
	__u64 recent[LB_PEER_WORDS];
	__u64 before[LB_PEER_WORDS];
	__u32 begun;
	__u32 pad;
} LB_ALIGN8;
LB_ASSERT(sizeof(struct lb_direct_peers) == 232);

/* Whether other sockets may have a socket's port (SO_REUSEPORT, SO_REUSEADDR). */
LB_BYTE_ENUM lb_sharing {
	LB_SHARING_UNKNOWN,
	LB_OWNS_PORT,
	LB_SHARES_PORT
};

/* With the kernel's 72 bytes of an element it fits into 512, the size that the kernel allocates. */
struct lb_socket {
	struct lb_pair pairs[LB_SOCKET_PAIRS]; /* the latest first */
	struct lb_direct_peers direct;
	enum lb_sharing sharing;
	__u8 pad[7];
} LB_ALIGN8;
LB_ASSERT(sizeof(struct lb_socket) == 432);

/*
 * The memory of all sockets' storage, in units of a TCP socket's (some 340 bytes, the kernel's part
 * included). `made` only grows; once it reaches `most` (0: no limit) sockets get no storage. The agent counts
 * what exists, and raises `most` by what is left. TCP sockets leave the reserve to UDP, whose clients compare
 * addresses.
 */
#define LB_SOCKET_UNITS 262144
#define LB_SOCKET_RESERVE (LB_SOCKET_UNITS / 4)
enum lb_socket_units { LB_TCP_SOCKET_UNITS = 1, LB_UDP_SOCKET_UNITS = 2 };

struct lb_socket_use {
	__u64 made;
	__u64 most;
	__u64 counted; /* by lb_count_sockets, since the agent set it to zero */
} LB_ALIGN8;
LB_ASSERT(sizeof(struct lb_socket_use) == 24);

/* What a socket of a shared port sent to a backend through a service, for the others: the frontend. */
struct lb_peer_key {
	__u64 netns; /* cookie */
	__u8 address[16];
	__u16 port;
	__u16 local_port;
	__u8 pad[4];
} LB_ALIGN8;
LB_ASSERT(sizeof(struct lb_peer_key) == 32);

/* `check` is lb_shared_peer_check() of its key and the frontend. */
struct lb_shared_peer {
	__u8 address[16];
	__u16 port;
	__u16 pad;
	__u32 check;
} LB_ALIGN8;
LB_ASSERT(sizeof(struct lb_shared_peer) == 24);

/* A port that several sockets of a network namespace may have. Its value: what any of them has read. */
struct lb_port_key {
	__u64 netns; /* cookie */
	__u16 port;
	__u8 pad[6];
} LB_ALIGN8;
LB_ASSERT(sizeof(struct lb_port_key) == 16);

/* ---- Ports that source NAT leaves to the kernel: a bit per port, 64 an element, lowest first. ---- */

#define LB_RESERVED_WORDS 1024

/* ---- The node: facts for all programs that may change while they run. One element, mmapable. ---- */

/* How a family's pods are distinguished from other clients (SEM-32). */
LB_BYTE_ENUM lb_local_detection {
	LB_DETECT_NONE,
	LB_DETECT_BY_RANGE,  /* the source is in LB_POD_RANGES */
	LB_DETECT_BY_DEVICE, /* the packet comes from a pod's device */
};

/* Which addresses the stack's IPsec policies may cover. */
LB_BYTE_ENUM lb_xfrm {
	LB_XFRM_NONE,
	LB_XFRM_LISTED, /* those in LB_XFRM_RANGES */
	LB_XFRM_ALL,    /* any: LB_XFRM_RANGES could not be written completely */
};

/* One 64-bit word. */
struct lb_node_policy {
	enum lb_local_detection local_detection4;
	enum lb_local_detection local_detection6;
	enum lb_bool masquerade_all;   /* also pods' packets to ClusterIPs get this node's address */
	enum lb_bool drop_unallocated; /* packets to a ClusterIP without a service are dropped at egress */
	enum lb_xfrm xfrm;
	enum lb_bool conntrack_nat; /* conntrack keeps translating connections that kube-proxy began */
	enum lb_bool draining;      /* no flow is created: packets without a flow pass to the next proxy */
	__u8 pad;
} LB_ALIGN8;
LB_ASSERT(sizeof(struct lb_node_policy) == 8);

struct lb_node {
	__u8 source4[16]; /* source address towards remote backends if the FIB has none */
	__u8 source6[16];
	__u64 secret[2]; /* keys the selection of source ports; at the same offset in every layout */
	/* keys the selection of backends, by lb_selection; LB_CONSISTENT's is the cluster's */
	__u64 choice[LB_SELECTIONS][2];
	struct lb_node_policy policy;
	__u32 layout; /* LB_LAYOUT */
	__u32 hertz;  /* timer ticks per second; lb_clock counts seconds of them */
	/*
	 * Until then (lb_clock) the flow tables may lack existing flows, because they were created empty: see
	 * lb_tables_lost()
	 */
	__u32 lost_until;
	__u32 heartbeat;  /* time of an agent's last check of its hooks (lb_clock) */
	__u64 started;    /* Unix seconds at which the running or last agent had written its first plan */
	char version[16]; /* of that agent */
	char name[64];    /* the node's name, truncated to fit */
	char zone[64];
	char sockets[32];  /* text for `status` about sockets */
	char packets[64];  /* text for `status` about packets */
	char missing[512]; /* missing optional kernel features, with fallbacks */
	/*
	 * While `draining`: the start, and the time until which `sluice drain` waits for remaining flows
	 * (lb_clock).
	 */
	__u32 drain_started;
	__u32 drain_deadline;
} LB_ALIGN8;

/* ---- Configuration, set before load, in .rodata: the verifier folds it. ---- */

/* Entries of lb_scratch if `preemptible`: two tasks that interleave collide in one of so many cases. */
#define LB_SCRATCH_SLOTS 16

struct lb_config {
	__u64 clock_factor;      /* 2^32 / hertz: seconds = ticks * factor >> 32 */
	__u32 unassured_seconds; /* an unassured entry older than this is ignored */
	__u16 first_port;        /* source ports for source NAT: two ranges, each inclusive; */
	__u16 last_port;         /* 0 to 0: none */
	__u16 high_first_port;
	__u16 high_last_port;
	enum lb_bool fib_source;     /* the FIB lookup returns the source address */
	enum lb_bool csum_ipv6;      /* BPF_F_IPV6 is supported */
	enum lb_bool ct_lookup;      /* conntrack lookups are possible */
	enum lb_bool skb_sums;       /* a packet's checksum state is visible */
	enum lb_bool host_sockets;   /* only sockets of the host's network namespace */
	enum lb_bool fib_mark;       /* the FIB lookup uses marks */
	enum lb_bool stack_forwards; /* the stack forwards external clients' flows to remote backends */
	enum lb_bool preemptible;    /* tasks interleave on a CPU (PREEMPT_RT) */
	__u32 host_cookie_low;       /* network namespace cookie of the host */
	__u32 host_cookie_high;
	__u32 orphaned_after; /* seconds without a heartbeat after which no flow is created; 0: never */
};

#endif
