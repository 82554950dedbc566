/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Parts of the programs that can be left out where a kernel's verifier refuses them, set before load, in
 * .rodata: the verifier folds it. C11 and C++20.
 */
#ifndef SLUICE_MAPS_CHOICES_H
#define SLUICE_MAPS_CHOICES_H

#include "maps/abi/abi.h"

struct lb_choices {
	enum lb_bool tc_fastpath;
	enum lb_bool xdp_fastpath;
	enum lb_bool egress_verdicts; /* tc egress decides about what leaves for services untranslated */
	__u8 pad;
};
LB_ASSERT(sizeof(struct lb_choices) == 4);

#endif
