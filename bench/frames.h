/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the programs in frames.bpf.c and the tool in frames.cpp agree on. */
#ifndef SLUICE_BENCH_FRAMES_H
#define SLUICE_BENCH_FRAMES_H

#include <linux/types.h>

#define LB_FRAME_BYTES 64
/* Kinds of packets. */
#define LB_FRAME_OPEN 'o'
#define LB_FRAME_DATA 'd'
/* With which the receiver's half of a TCP connection begins. */
#define LB_FRAME_SEQUENCE 700
/* 10.64.0.0/15: one address a flow. */
#define LB_FRAME_CLIENTS 0x0a400000u
#define LB_FRAME_CLIENTS_MASK 0xfffe0000u
#define LB_FRAME_FLOWS 131072
#define LB_FRAME_CLIENT_PORT 5000

/* With what a packet begins that it carries. The number, because on its way a flow may get another source. */
struct lb_frame_load {
	__u8 kind;
	__u8 unused;
	__be32 flow;
} __attribute__((packed));

#endif
