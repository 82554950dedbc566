/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where a socket's pair leads: for socket hooks, and for the packets of sockets whose calls were translated. */
#ifndef SLUICE_BPF_PAIR_H
#define SLUICE_BPF_PAIR_H

#include "maps/abi/abi.h"
#include "maps/abi/checks.h"

static __always_inline int lb_same_ip(const __u8 *one, const __u8 *other)
{
	return lb_word(one) == lb_word(other) && lb_word(one + 8) == lb_word(other + 8);
}

/* Whether the pair's calls were translated to this address and port. */
static __always_inline int lb_leads_to(const struct lb_pair *pair, const __u8 *address, __u16 port,
				       enum lb_protocol protocol)
{
	return pair->used && pair->backend_port == port && pair->protocol == protocol &&
	       lb_same_ip(pair->backend_address, address);
}

#endif
