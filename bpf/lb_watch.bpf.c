// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Counts the frames that devices sent and dropped for XDP: no return code reports it, because frames are sent later, in bulk
 * (REL-20). Attached to the kernel's tracepoints while an agent runs.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "bpf/packet/kernel.h"
#include "bpf/packet/stats.h"
#include "maps/abi/xdp_tx.h"

struct lb_xdp_tx lb_xdp_tx[LB_MAX_XDP_TX];

static __always_inline int lb_is_here(const struct net_device *device)
{
	__u64 host = (__u64)lb_config.host_cookie_high << 32 | lb_config.host_cookie_low;

	return device->nd_net.net->net_cookie == host;
}

static __always_inline void lb_note_xdp_tx(const struct net_device *here, __u32 device, int sent, int lost)
{
	for (int i = 0; i < LB_MAX_XDP_TX; i++) {
		if (lb_xdp_tx[i].device != device)
			continue;
		if (lb_is_here(here)) {
			__sync_fetch_and_add(&lb_xdp_tx[i].sent, sent);
			__sync_fetch_and_add(&lb_xdp_tx[i].lost, lost);
		}
		break;
	}
}

/*
 * Arguments: the receiving device, the transmitting device, the numbers of frames sent and lost, the error.
 */
SEC("tp_btf/xdp_devmap_xmit")
int lb_xdp_sent(unsigned long long *arguments)
{
	const struct net_device *to = (const struct net_device *)arguments[1];

	lb_note_xdp_tx(to, (__u32)to->ifindex, (int)arguments[2], (int)arguments[3]);
	return 0;
}

/*
 * Frames to a device that does not transmit for XDP at all. Arguments: the receiving device, program, target,
 * error, the map's type and id, and the key looked up in it, which is lb_devmap's interface index.
 */
SEC("tp_btf/xdp_redirect_err")
int lb_xdp_refused(unsigned long long *arguments)
{
	const struct net_device *from = (const struct net_device *)arguments[0];

	if (arguments[4] == BPF_MAP_TYPE_DEVMAP_HASH)
		lb_note_xdp_tx(from, (__u32)arguments[6], 0, 1);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
