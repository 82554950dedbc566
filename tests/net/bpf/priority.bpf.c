/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Adds a priority tag (VLAN 0, IEEE 802.1Q) to every frame that leaves a device. */
#include <linux/bpf.h>
#include <linux/if_ether.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define LB_NEXT -1 /* TCX_NEXT */
#define LB_PRIORITY 5
#define LB_PRIORITY_SHIFT 13

__u64 lb_priority_tagged = 0;

SEC("tcx/egress")
int lb_priority_tag(struct __sk_buff *skb)
{
	if (!bpf_skb_vlan_push(skb, bpf_htons(ETH_P_8021Q), LB_PRIORITY << LB_PRIORITY_SHIFT))
		__sync_fetch_and_add(&lb_priority_tagged, 1);
	return LB_NEXT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
