/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * XDP on uplinks: handles packets to and from remote backends without the stack, and passes everything
 * else untouched to tc. So it can be switched on and off at any time.
 */
#define LB_OBJECT xdp
#define LB_CT_LOOKUP bpf_xdp_ct_lookup
#define LB_CT_CONTEXT struct xdp_md
#define LB_SENDING_SOCKET(xdp) ((void)(xdp), (struct bpf_sock *)NULL)

#include <linux/bpf.h>
#include <linux/if_ether.h>

#include <bpf/bpf_endian.h>

#include "bpf/flow/scratch.h"
#include "bpf/packet/cursor.h"
#include "bpf/packet/packet.h"
#include "bpf/packet/parse.h"
#include "bpf/packet/stats.h"
#include "bpf/path/balance.h"
#include "bpf/path/fastpath.h"
#include "bpf/path/fib_cache.h"
#include "bpf/path/route.h"
#include "bpf/rewrite/rewrite.h"
#include "maps/abi/frame_address.h"
#include "maps/abi/maps.bpf.h"

struct lb_frame_address lb_frame_addresses[LB_FRAME_ADDRESSES];

static __always_inline int lb_leave_to_tc(void)
{
	lb_count(LB_OUTCOME_left_to_tc);
	return XDP_PASS;
}

LB_FUNCTION enum lb_outcome lb_xdp_network(struct xdp_md *xdp, struct lb_packet *packet)
{
	struct lb_cursor cursor = lb_cursor_at((void *)(long)xdp->data, (void *)(long)xdp->data_end, 0);

	return packet ? lb_parse_network(&cursor, packet, xdp->data_end - xdp->data) : LB_OUTCOME_malformed;
}

LB_FUNCTION enum lb_outcome lb_xdp_transport(struct xdp_md *xdp, struct lb_packet *packet)
{
	struct lb_cursor cursor;

	if (!packet)
		return LB_OUTCOME_malformed;
	cursor = lb_cursor_at((void *)(long)xdp->data, (void *)(long)xdp->data_end,
			      packet->transport & LB_MAX_OFFSET);
	return lb_parse_transport(&cursor, packet);
}

static __always_inline int lb_sends_by(__u32 device)
{
	return bpf_map_lookup_elem(&lb_devmap, &device) != NULL;
}

/*
 * Whether a known flow's packet can be sent now, by the flow's device. The link-layer addresses are then in
 * the FIB's result. The device was found with the client's source address, because the kernel routes before
 * it changes the source: of two equal routes the FIB may choose the other one for the node's address.
 */
static __always_inline int lb_fib_cache_entry(struct xdp_md *xdp, struct lb_scratch *scratch)
{
	long result;

	if (lb_find_next_hop(xdp, scratch) != LB_NEXT_HOP_REDIRECT)
		return 0;
	result = lb_route(xdp, scratch, LB_KEEP_SOURCE);
	if (lb_names_device(scratch, result) && scratch->fib.ifindex != scratch->flow.track.device)
		result = lb_route(xdp, scratch, LB_ASK_DEVICE);
	if (result != BPF_FIB_LKUP_RET_SUCCESS || scratch->fib.ifindex != scratch->flow.track.device ||
	    !lb_sends_by(scratch->fib.ifindex))
		return 0;
	lb_fib_cache_store(scratch);
	return 1;
}

static __always_inline int lb_xdp_check(void *data, void *end, const struct lb_packet *packet,
					const struct lb_tuple *leaving, struct lb_change change)
{
	if (packet->tuple.protocol == LB_SCTP)
		return lb_write_sctp(data, end, packet, leaving);
	return lb_write_check(data, end, packet, change);
}

/* `addresses`: the frame's destination and source, as at the beginning of its header. */
static __always_inline int lb_xdp_write(struct xdp_md *xdp, const struct lb_packet *packet,
					const struct lb_tuple *leaving, const __u8 *destination,
					const __u8 *source)
{
	void *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;
	struct ethhdr *ethernet = data;
	struct lb_change change = lb_change_of(&packet->tuple, leaving);

	if ((void *)(ethernet + 1) > end ||
	    lb_write_headers(data, end, packet, leaving, change.addresses, LB_COUNT_HOP) ||
	    lb_xdp_check(data, end, packet, leaving, change))
		return -1;
	__builtin_memcpy(ethernet->h_dest, destination, ETH_ALEN);
	__builtin_memcpy(ethernet->h_source, source, ETH_ALEN);
	return 0;
}

LB_FUNCTION int lb_xdp_rewrite(struct xdp_md *xdp)
{
	const struct lb_scratch *scratch = lb_scratch_get();
	if (!scratch)
		return -1;
	return lb_xdp_write(xdp, &scratch->packet, &scratch->flow.leaving, scratch->fib.dmac,
			    scratch->fib.smac);
}

/*
 * Handles a packet of a known flow whose route was looked up a moment ago (fib_cache.h), or one that is not
 * for us.
 */
static __always_inline enum lb_fastpath_result lb_xdp_fastpath_of(struct xdp_md *xdp, __u32 uplink,
								  enum lb_family family)
{
	void *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;
	struct lb_fastpath fast;
	const struct lb_fib_cache_entry *entry;
	enum lb_outcome outcome;

	if (!lb_fastpath_read(data, end, end - data, family, &fast.packet))
		return LB_FASTPATH_UNDECIDED;
	if (!lb_fastpath_find(LB_HOOK_XDP, &fast))
		return lb_fastpath_foreign(LB_HOOK_XDP, &fast.packet) == LB_OUTCOME_left_to_tc
			       ? lb_fastpath_end(LB_OUTCOME_left_to_tc, LB_FASTPATH_PASSED)
			       : LB_FASTPATH_NO_FLOW;
	outcome = lb_fastpath_known(LB_HOOK_XDP, uplink, &fast);
	if (outcome == LB_OUTCOME_left_to_tc)
		return lb_fastpath_end(outcome, LB_FASTPATH_PASSED);
	if (outcome == LB_OUTCOME_NONE)
		return LB_FASTPATH_UNDECIDED;
	entry = lb_fib_cache_find(&fast.flow.leaving, uplink, fast.flow.track.device, fast.packet.length);
	if (!entry || bpf_redirect_map(&lb_devmap, entry->egress_ifindex, XDP_PASS) != XDP_REDIRECT)
		return LB_FASTPATH_UNDECIDED;
	if (lb_xdp_write(xdp, &fast.packet, &fast.flow.leaving, entry->ethernet, entry->ethernet + ETH_ALEN))
		return lb_fastpath_end(LB_OUTCOME_rewrite_failed, LB_FASTPATH_DROPPED);
	return lb_fastpath_end(outcome, LB_FASTPATH_REDIRECTED);
}

LB_FUNCTION enum lb_fastpath_result lb_xdp_fastpath(struct xdp_md *xdp, __u32 uplink)
{
	const struct ethhdr *ethernet = (void *)(long)xdp->data;

	if (!lb_choices.xdp_fastpath || (const void *)(ethernet + 1) > (void *)(long)xdp->data_end)
		return LB_FASTPATH_UNDECIDED;
	switch (ethernet->h_proto) {
	case bpf_htons(ETH_P_IP):
		return lb_xdp_fastpath_of(xdp, uplink, LB_IPV4);
	case bpf_htons(ETH_P_IPV6):
		return lb_xdp_fastpath_of(xdp, uplink, LB_IPV6);
	}
	return LB_FASTPATH_UNDECIDED;
}

static __always_inline int lb_xdp_process(struct xdp_md *xdp, struct lb_scratch *scratch)
{
	enum lb_outcome outcome;

	scratch->mark = 0;
	if (lb_xdp_network(xdp, &scratch->packet) != LB_OUTCOME_NONE ||
	    lb_xdp_transport(xdp, &scratch->packet) != LB_OUTCOME_NONE)
		return lb_leave_to_tc();
	if (scratch->packet.hops <= 1 || scratch->packet.part != LB_WHOLE)
		return lb_leave_to_tc();
	outcome = lb_balance(xdp, LB_HOOK_XDP, scratch);
	if (!(outcome == LB_OUTCOME_flow_xdp && lb_fib_cache_entry(xdp, scratch)) &&
	    !(outcome == LB_OUTCOME_new_xdp && lb_sends_by(scratch->fib.ifindex)))
		return lb_leave_to_tc();
	if (lb_xdp_rewrite(xdp)) {
		lb_count(LB_OUTCOME_rewrite_failed);
		return XDP_DROP;
	}
	lb_count(outcome);
	return bpf_redirect_map(&lb_devmap, scratch->fib.ifindex, XDP_DROP);
}

/* `missed`: the fast path has found no assured flow. */
static __always_inline int lb_xdp_slowpath(struct xdp_md *xdp, __u32 uplink, enum lb_bool missed)
{
	struct lb_scratch *scratch = lb_scratch_begin(LB_HOOK_XDP, uplink, missed);
	int verdict;

	if (!scratch)
		return lb_leave_to_tc();
	verdict = lb_xdp_process(xdp, scratch);
	lb_scratch_end(scratch);
	return verdict;
}

/*
 * The uplink that received the frame, if the frame is for its address, else 0. On a bond the kernel runs this
 * program on the bond's ports, and the uplink is the bond. Frames for others, or multicast, come from a
 * flooding switch or in promiscuous mode, and tc sees how the kernel classifies them. Frames that arrive just
 * while the agent writes another address here go to tc, too: a CPU that reorders the two loads, as arm64 may,
 * could compare with half of it.
 */
static __always_inline __u32 lb_uplink_of(struct xdp_md *xdp)
{
	const struct ethhdr *ethernet = (void *)(long)xdp->data;
	const struct lb_frame_address *own = &lb_frame_addresses[xdp->ingress_ifindex % LB_FRAME_ADDRESSES];
	const __u16 *mine = (const __u16 *)own->address, *theirs = (const __u16 *)ethernet->h_dest;

	if ((const void *)(ethernet + 1) > (void *)(long)xdp->data_end || own->device != xdp->ingress_ifindex)
		return 0;
	return mine[0] == theirs[0] && mine[1] == theirs[1] && mine[2] == theirs[2] ? own->uplink : 0;
}

/* Multi-buffer frames are left to tc: their lengths do not fit the visible data. */
SEC("xdp.frags")
int lb_xdp(struct xdp_md *xdp)
{
	__u32 uplink = lb_uplink_of(xdp);
	enum lb_fastpath_result result;

	if (!uplink)
		return lb_leave_to_tc();
	result = lb_xdp_fastpath(xdp, uplink);
	if (result == LB_FASTPATH_REDIRECTED)
		return XDP_REDIRECT;
	if (result == LB_FASTPATH_PASSED)
		return XDP_PASS;
	if (result == LB_FASTPATH_DROPPED)
		return XDP_DROP;
	return lb_xdp_slowpath(xdp, uplink, result == LB_FASTPATH_NO_FLOW ? LB_YES : LB_NO);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
