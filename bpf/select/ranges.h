/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Lookups of address ranges: lb_ranges. */
#ifndef SLUICE_BPF_RANGES_H
#define SLUICE_BPF_RANGES_H

#include "bpf/packet/stats.h"
#include "maps/abi/maps.bpf.h"

#define LB_RANGE_BITS 160 /* bits of the service number and the address */

/*
 * Whether the address is in one of the ranges of that number: a service's source ranges (SEM-37), or one of
 * the LB_..._RANGES. If the value is another key's, it is looked up once more.
 */
static __always_inline int lb_in_ranges(__u32 service, const void *client)
{
	struct lb_range_key key = {.prefix = LB_RANGE_BITS, .service = service};

	__builtin_memcpy(key.address, client, sizeof(key.address));
	for (int try = 0; try < 2; try++) {
		const struct lb_range *range = bpf_map_lookup_elem(&lb_ranges, &key);

		if (!range)
			return 0;
		if (*(const volatile __u32 *)&range->service == service)
			return 1;
		lb_count(LB_OUTCOME_check_failed);
	}
	return 0;
}

/* Whether the stack may encrypt, or block, packets to this address. */
static __always_inline int lb_is_xfrm_peer(enum lb_xfrm xfrm, const void *address)
{
	return xfrm == LB_XFRM_ALL || (xfrm == LB_XFRM_LISTED && lb_in_ranges(LB_XFRM_RANGES, address));
}

#endif
