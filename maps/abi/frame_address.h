/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The link-layer addresses of the devices that XDP serves, in the memory of bpf/lb_xdp.bpf.c: the agent
 * writes them, the program compares. C11 and C++20.
 */
#ifndef SLUICE_MAPS_FRAME_ADDRESS_H
#define SLUICE_MAPS_FRAME_ADDRESS_H

#include "maps/abi/abi.h"

/*
 * A device's entry is its interface index modulo this; of two devices with the same entry XDP serves the one
 * in it.
 */
#define LB_FRAME_ADDRESSES 256

struct lb_frame_address {
	__u32 device; /* interface index; 0: free */
	__u8 address[6];
	__u8 pad[2];
	__u32 uplink; /* interface index of the served device: `device` itself, or the bond that it is a port of */
};
LB_ASSERT(sizeof(struct lb_frame_address) == 16);

#endif
