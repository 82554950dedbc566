/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The state of the switch from one service proxy to another, in the node page: whether we open flows, and
 * whether conntrack still translates connections that began with kube-proxy.
 */
#ifndef SLUICE_BPF_SWITCH_OVER_H
#define SLUICE_BPF_SWITCH_OVER_H

#include "bpf/packet/stats.h"
#include "bpf/select/service.h"
#include "maps/abi/abi.h"

static __always_inline struct lb_node_policy lb_node_policy_load(const struct lb_node *node)
{
	__u64 word = lb_load(&node->policy);
	struct lb_node_policy node_policy;

	__builtin_memcpy(&node_policy, &word, sizeof(word));
	return node_policy;
}

/* Whether the agent's last heartbeat is older than --orphaned-after: the maps may be outdated. */
static __always_inline int lb_is_orphaned(const struct lb_node *node)
{
	__u32 heartbeat = *(const volatile __u32 *)&node->heartbeat;

	/* Signed: the agent's clock may be a second ahead. */
	return lb_config.orphaned_after && (__s32)(lb_clock() - heartbeat) > (__s32)lb_config.orphaned_after;
}

/*
 * Whether new flows are left to the service proxy behind us (draining, or no agent for --orphaned-after).
 * Known flows continue.
 */
static __always_inline int lb_leaves_new_flows(void)
{
	const struct lb_node *node = lb_this_node();

	if (!node)
		return 0;
	return lb_node_policy_load(node).draining == LB_YES || lb_is_orphaned(node);
}

static __always_inline int lb_conntrack_translates(void)
{
	const struct lb_node *node = lb_this_node();

	return node && lb_node_policy_load(node).conntrack_nat == LB_YES;
}

#endif
