/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A connected UDP socket whose backend is gone, as lb_udp_find writes it and sock_diag names it (SEM-46). */
#ifndef SLUICE_MAPS_LOST_SOCKET_H
#define SLUICE_MAPS_LOST_SOCKET_H

#include "maps/abi/abi.h"

/* IPv4 addresses as ::ffff:a.b.c.d, ports in host order. */
struct lb_lost_socket {
	__u64 cookie;
	__u32 netns;  /* the inode of its network namespace's file */
	__u32 device; /* to which the socket is bound; 0: to none */
	__u8 local[16];
	__u8 peer[16];
	__u8 asked[16]; /* the service's address, to which its process connected it */
	__u16 local_port;
	__u16 peer_port;
	__u16 asked_port;
	enum lb_bool served; /* a service has that address and port, or it is a ClusterIP */
	__u8 pad;
} LB_ALIGN8;
LB_ASSERT(sizeof(struct lb_lost_socket) == 72);

#endif
