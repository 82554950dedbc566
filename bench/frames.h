/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Definitions shared by the programs in frames.bpf.c and the tool in frames.cpp. */
#ifndef SLUICE_BENCH_FRAMES_H
#define SLUICE_BENCH_FRAMES_H

#include <linux/types.h>

#define LB_FRAME_BYTES 64
/* Kinds of packets. */
#define LB_FRAME_OPEN 'o'
#define LB_FRAME_DATA 'd'
/* The initial sequence number of the receiver's half of a TCP connection. */
#define LB_FRAME_SEQUENCE 700
/* 10.64.0.0/15: one address per flow. */
#define LB_FRAME_CLIENTS 0x0a400000u
#define LB_FRAME_CLIENTS_MASK 0xfffe0000u
#define LB_FRAME_FLOWS 131072
#define LB_FRAME_CLIENT_PORT 5000

/* The beginning of a packet's payload. It has the flow's number, because source NAT may change the flow's source. */
struct lb_frame_load {
	__u8 kind;
	__u8 unused;
	__be32 flow;
} __attribute__((packed));

#endif
