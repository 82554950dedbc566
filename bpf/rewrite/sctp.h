/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Updates SCTP's checksum after a change of ports. CRC32c is linear: the new sum is the old one XOR the
 * CRC of the difference, shifted over the rest of the packet by powers of x, whatever the payload is.
 */
#ifndef SLUICE_BPF_SCTP_H
#define SLUICE_BPF_SCTP_H

#include "bpf/packet/stats.h"

#define LB_CRC32C 0x82f63b78 /* the polynomial, bits reversed */
#define LB_CRC_POWERS 16     /* enough for 64 KiB */

/* x^(8 * 2^k) modulo the polynomial: the effect of 2^k zero bytes on a remainder. */
static const __u32 lb_crc_powers[LB_CRC_POWERS] = {
	0x00800000, 0x00008000, 0x82f63b78, 0x6ea2d55c, 0x18b8ea18, 0x510ac59a, 0xb82be955, 0xb8fdb1e7,
	0x88e56f72, 0x74c360a4, 0xe4172b16, 0x0d65762a, 0x35d73a62, 0x28461564, 0xbf455269, 0xe2ea32dc,
};

/* The product of two polynomials, modulo the CRC's. */
LB_FUNCTION __u32 lb_crc_multiply(__u32 one, __u32 other)
{
	__u32 product = 0;

	for (int bit = 31; bit >= 0; bit--) {
		product ^= other & -(one >> bit & 1);
		other = (other >> 1) ^ (LB_CRC32C & -(other & 1));
	}
	return product;
}

/*
 * The effect of `difference` in the first four bytes (as a little-endian word) on the sum over `length`
 * bytes.
 */
LB_FUNCTION __u32 lb_crc_change(__u32 difference, __u32 length)
{
	for (int k = 0; k < LB_CRC_POWERS; k++)
		if (length >> k & 1)
			difference = lb_crc_multiply(lb_crc_powers[k], difference);
	return difference;
}

#endif
