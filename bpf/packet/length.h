/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Lengths that are not constants, for helpers that read or write so many bytes. Every such call in bpf/ is one
 * of these with lb_bounded() as its argument; scripts/lib/bounded_lengths.py checks the compiled programs.
 */
#ifndef SLUICE_BPF_LENGTH_H
#define SLUICE_BPF_LENGTH_H

#include <linux/bpf.h>
#include <linux/types.h>

/*
 * The length, raised to `least` or lowered to `most`, which are constants. The caller has refused other lengths;
 * this is for verifiers, which forget bounds in different ways: of 32-bit copies, of spilled values, of linked
 * registers. Here the last thing that happens to the register which is passed is a comparison with constants.
 * In assembly, because a compiler that knows the bounds would drop the comparisons or move them away.
 */
static __always_inline __u64 lb_bounded(__u64 length, __u64 least, __u64 most)
{
	asm volatile("if %[length] >= %[least] goto +1\n\t"
		     "%[length] = %[least]\n\t"
		     "if %[length] <= %[most] goto +1\n\t"
		     "%[length] = %[most]"
		     : [length] "+r"(length)
		     : [least] "i"(least), [most] "i"(most));
	return length;
}

/* Like libbpf's, but with a length of 64 bits: for one of 32 the compiler copies the bounded register. */
static long (*const lb_load_bytes)(const void *skb, __u32 offset, void *to,
				   __u64 length) = (void *)BPF_FUNC_skb_load_bytes;
static long (*const lb_store_bytes)(struct __sk_buff *skb, __u32 offset, const void *from, __u64 length,
				    __u64 flags) = (void *)BPF_FUNC_skb_store_bytes;
static __s64 (*const lb_csum_diff)(const __be32 *from, __u64 from_size, const __be32 *to, __u64 to_size,
				   __wsum seed) = (void *)BPF_FUNC_csum_diff;

#endif
