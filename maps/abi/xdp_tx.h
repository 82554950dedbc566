/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The devices to which XDP redirects, in the memory of bpf/lb_watch.bpf.c: the agent writes `device`, the
 * program counts. C11 and C++20.
 */
#ifndef SLUICE_MAPS_XDP_TX_H
#define SLUICE_MAPS_XDP_TX_H

#include "maps/abi/abi.h"

#define LB_MAX_XDP_TX 16

struct lb_xdp_tx {
	__u32 device; /* interface index; 0: free */
	__u32 pad;
	__u64 sent; /* frames that the device transmitted */
	__u64 lost; /* frames that it did not */
};
LB_ASSERT(sizeof(struct lb_xdp_tx) == 24);

#endif
