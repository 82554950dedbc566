/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * tc: ingress opens flows and translates their packets, egress translates the replies of flows through the
 * stack. On uplinks for external clients, on the host ends of pods' devices for traffic that the socket hooks
 * did not translate.
 */
#define LB_OBJECT tc
#define LB_CT_LOOKUP bpf_skb_ct_lookup
#define LB_CT_CONTEXT struct __sk_buff
#define LB_SENDING_SOCKET(skb) ((skb)->sk)

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_endian.h>

#include "bpf/flow/frag_queue.h"
#include "bpf/flow/fragment.h"
#include "bpf/flow/handshake.h"
#include "bpf/flow/scratch.h"
#include "bpf/packet/packet.h"
#include "bpf/packet/stats.h"
#include "bpf/path/balance.h"
#include "bpf/path/fastpath.h"
#include "bpf/path/leaving.h"
#include "bpf/path/open.h"
#include "bpf/path/route.h"
#include "bpf/rewrite/icmp.h"
#include "bpf/rewrite/reject.h"
#include "bpf/rewrite/rewrite.h"
#include "bpf/rewrite/skb.h"

/* The value of both TCX_NEXT and TC_ACT_UNSPEC. TC_ACT_OK would hide the packet from later programs. */
#define LB_NEXT -1

/*
 * If two of our programs are at one hook, for example while one way of attaching replaces another, the second
 * one sees packets that the first has translated, which look like packets of a client directly to a backend.
 * So the first one notes its translation in the packet's control buffer, which all programs of one hook
 * share. Other programs may leave any value there.
 */
#define LB_TRANSLATED_NOTE 0x5107ce00u
#define LB_TRANSLATED_WORD 4 /* of skb->cb */

static __always_inline __u32 lb_translated_note(const struct __sk_buff *skb, enum lb_hook hook,
						const struct lb_tuple *tuple)
{
	__u32 ports = (__u32)tuple->source_port << 16 | tuple->destination_port;

	return LB_TRANSLATED_NOTE ^ hook ^ skb->ifindex << 8 ^ tuple->source.words[3] ^
	       tuple->destination.words[3] << 1 ^ ports;
}

static __always_inline int lb_is_translated(const struct __sk_buff *skb, enum lb_hook hook,
					    const struct lb_tuple *tuple)
{
	return skb->cb[LB_TRANSLATED_WORD] == lb_translated_note(skb, hook, tuple);
}

/* A packet that leaves unchanged needs no note: no program can tell the difference, nor needs to. */
static __always_inline void lb_note_translated(struct __sk_buff *skb, enum lb_hook hook,
					       const struct lb_tuple *arriving,
					       const struct lb_tuple *leaving)
{
	__u32 note = lb_translated_note(skb, hook, leaving);

	if (note != lb_translated_note(skb, hook, arriving))
		skb->cb[LB_TRANSLATED_WORD] = note;
}

/*
 * At egress: whether the packet may have arrived by a flow, and the stack forwards it to the flow's backend.
 */
static __always_inline int lb_is_forwarded(const struct __sk_buff *skb, enum lb_hook hook)
{
	return lb_config.stack_forwards && hook == LB_HOOK_TC_EGRESS && skb->ingress_ifindex;
}

static __always_inline enum lb_fastpath_result lb_tc_fastpath_of(struct __sk_buff *skb, enum lb_hook hook,
								 enum lb_family family)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct lb_fastpath fast;
	enum lb_outcome outcome;
	__u32 mtu = 0;

	if (!lb_fastpath_read(data, end, skb->len, family, &fast.packet))
		return LB_FASTPATH_UNDECIDED;
	if (lb_is_translated(skb, hook, &fast.packet.tuple))
		return lb_fastpath_end(LB_OUTCOME_unrelated, LB_FASTPATH_PASSED);
	if (!lb_fastpath_find(hook, &fast))
		return !lb_is_forwarded(skb, hook) &&
				       lb_fastpath_foreign(hook, &fast.packet) == LB_OUTCOME_unrelated
			       ? lb_fastpath_end(LB_OUTCOME_unrelated, LB_FASTPATH_PASSED)
			       : LB_FASTPATH_NO_FLOW;
	outcome = lb_fastpath_known(hook, skb->ifindex, &fast);
	if (outcome == LB_OUTCOME_NONE ||
	    (outcome == LB_OUTCOME_flow_redirect && lb_exceeds(skb, fast.flow.track.device, &mtu)))
		return LB_FASTPATH_UNDECIDED;
	if (lb_skb_write(skb, &fast.packet, &fast.flow.leaving,
			 outcome == LB_OUTCOME_flow_redirect ? LB_COUNT_HOP : LB_KEEP_HOPS))
		return lb_fastpath_end(LB_OUTCOME_rewrite_failed, LB_FASTPATH_DROPPED);
	if (outcome == LB_OUTCOME_flow_redirect) {
		bpf_redirect_neigh(fast.flow.track.device, NULL, 0, 0); /* without flags it cannot fail */
		return lb_fastpath_end(outcome, LB_FASTPATH_REDIRECTED);
	}
	lb_note_translated(skb, hook, &fast.packet.tuple, &fast.flow.leaving);
	return lb_fastpath_end(outcome, LB_FASTPATH_PASSED);
}

LB_FUNCTION enum lb_fastpath_result lb_tc_fastpath(struct __sk_buff *skb, enum lb_hook hook)
{
	if (!lb_choices.tc_fastpath || !lb_sees_sums() || skb->vlan_present)
		return LB_FASTPATH_UNDECIDED;
	switch (skb->protocol) {
	case bpf_htons(ETH_P_IP):
		return lb_tc_fastpath_of(skb, hook, LB_IPV4);
	case bpf_htons(ETH_P_IPV6):
		return lb_tc_fastpath_of(skb, hook, LB_IPV6);
	}
	return LB_FASTPATH_UNDECIDED;
}

/*
 * At egress, handles a packet inside its route's encapsulation: of an existing flow, or an error or a
 * fragment of one. A tunnel that someone builds by hand, as a pod may, has no such route, and its packets are
 * not of our flows.
 */
LB_FUNCTION enum lb_outcome lb_encapsulated(struct __sk_buff *skb)
{
	struct lb_scratch *scratch = lb_scratch_get();
	enum lb_outcome outcome;

	if (!scratch)
		return LB_OUTCOME_unrelated;
	scratch->flow.leaving = scratch->packet.tuple;
	scratch->flow.track.device = scratch->device;
	if (!lb_is_encapsulated(lb_route(skb, scratch, LB_ASK_DEVICE)))
		return LB_OUTCOME_unrelated;
	if (scratch->packet.part == LB_LATER_FRAGMENT)
		return lb_fragment_find(&scratch->packet) ? lb_related() : LB_OUTCOME_unrelated;
	if (scratch->packet.inner_network)
		return lb_related();
	if (scratch->packet.part == LB_FIRST_FRAGMENT)
		lb_fragment_remember(&scratch->packet);
	outcome = lb_established(LB_HOOK_TC_EGRESS, scratch);
	return outcome == LB_OUTCOME_unrelated && lb_may_be_unassured(&scratch->packet) ? lb_unassured()
											: outcome;
}

static __always_inline enum lb_outcome lb_redirectable(struct __sk_buff *skb, struct lb_scratch *scratch,
						       enum lb_outcome outcome)
{
	enum lb_next_hop hop;

	if (scratch->packet.hops <= 1)
		return LB_OUTCOME_hop_limit;
	hop = lb_find_next_hop(skb, scratch);
	if (hop == LB_NO_NEXT_HOP)
		return LB_OUTCOME_no_route;
	if (hop == LB_NEXT_HOP_STACK)
		return outcome == LB_OUTCOME_icmp_redirect ? LB_OUTCOME_icmp_stack : LB_OUTCOME_flow_stack;
	return lb_too_big(skb, scratch) ? LB_OUTCOME_too_big : outcome;
}

static __always_inline int lb_is_rewritten(enum lb_outcome outcome)
{
	return lb_action(outcome) == LB_ACTION_STACK || lb_action(outcome) == LB_ACTION_REDIRECT;
}

/*
 * A router would fragment a packet that is too big and may be fragmented. The kernel fragments only packets
 * that it routes, and it accepts no external packet with the node's own address as its source, like ours; so
 * the sender gets the size nevertheless.
 */
static __always_inline enum lb_outcome lb_unsent(const struct lb_scratch *scratch, enum lb_outcome outcome)
{
	return outcome == LB_OUTCOME_too_big && scratch->packet.may_fragment == LB_YES
		       ? LB_OUTCOME_not_fragmented
		       : outcome;
}

/* Makes the checks that depend on the packet's size, and rewrites it; returns the final outcome. */
static __always_inline enum lb_outcome lb_carry(struct __sk_buff *skb, struct lb_scratch *scratch,
						enum lb_outcome outcome)
{
	enum lb_hops hops;
	int failed;

	if (lb_action(outcome) == LB_ACTION_REDIRECT)
		outcome = lb_redirectable(skb, scratch, outcome);
	hops = lb_action(outcome) == LB_ACTION_REDIRECT ? LB_COUNT_HOP : LB_KEEP_HOPS;
	if (!lb_is_rewritten(outcome))
		return lb_unsent(scratch, outcome);
	if (outcome == LB_OUTCOME_icmp_stack || outcome == LB_OUTCOME_icmp_redirect)
		failed = lb_icmp_rewrite(skb, hops);
	else
		failed = lb_skb_rewrite(skb, hops);
	return failed ? LB_OUTCOME_rewrite_failed : outcome;
}

static __always_inline enum lb_outcome lb_if_summable(const struct lb_scratch *scratch,
						      enum lb_outcome outcome)
{
	return lb_is_rewritten(outcome) && lb_is_sctp_part(&scratch->packet, &scratch->flow.leaving)
		       ? LB_OUTCOME_sctp_fragment
		       : outcome;
}

/*
 * Processes a datagram's fragments in the order in which they can be translated. After queueing a fragment it
 * looks once more: the first one may have arrived meanwhile, and found no copy.
 */
static __always_inline enum lb_outcome lb_in_order(struct __sk_buff *skb, struct lb_scratch *scratch,
						   enum lb_outcome outcome)
{
	if (scratch->packet.part == LB_LATER_FRAGMENT && outcome == LB_OUTCOME_fragment &&
	    lb_frag_enqueue(skb))
		return lb_if_summable(scratch, lb_later_fragment(scratch));
	if (scratch->packet.part != LB_FIRST_FRAGMENT || !lb_is_rewritten(outcome) ||
	    !lb_frag_replay_all(skb))
		return outcome;
	if (lb_opened(outcome))
		lb_count(outcome);
	return LB_OUTCOME_frag_head_replayed;
}

/* A sender on this node receives the answer at ingress. */
static __always_inline int lb_send_back(const struct __sk_buff *skb, enum lb_hook hook)
{
	return (int)bpf_redirect(skb->ifindex, hook == LB_HOOK_TC_EGRESS ? BPF_F_INGRESS : 0);
}

/* Sends the rewritten packet by the flow's device. */
static __always_inline int lb_send_on(struct __sk_buff *skb, const struct lb_scratch *scratch)
{
	__u32 device = scratch->flow.track.device;

	lb_untag(skb);
	return (int)bpf_redirect_neigh(device, NULL, 0, 0);
}

/*
 * At egress a dropped packet would be reported to its sender (ENOBUFS), a lost one is not. A redirect to no
 * device frees it without an error; TCX has no verdict for that.
 */
static __always_inline int lb_drop(enum lb_hook hook)
{
	return hook == LB_HOOK_TC_EGRESS || hook == LB_HOOK_POD_EGRESS ? (int)bpf_redirect(0, 0)
								       : TC_ACT_SHOT;
}

/* Processes a parsed packet. */
static __always_inline enum lb_outcome lb_tc_balance(struct __sk_buff *skb, enum lb_hook hook,
						     struct lb_scratch *scratch)
{
	enum lb_outcome outcome;

	if (hook == LB_HOOK_TC_EGRESS && scratch->packet.encapsulated == LB_YES)
		return lb_if_summable(scratch, lb_encapsulated(skb));
	outcome = lb_balance(skb, hook, scratch);
	if (outcome == LB_OUTCOME_unrelated && hook == LB_HOOK_TC_EGRESS && !scratch->packet.inner_network &&
	    scratch->packet.part != LB_LATER_FRAGMENT)
		outcome = lb_leaving(skb, scratch);
	return lb_in_order(skb, scratch, lb_if_summable(scratch, outcome));
}

static __always_inline enum lb_outcome lb_tc_process(struct __sk_buff *skb, enum lb_hook hook,
						     struct lb_scratch *scratch)
{
	enum lb_outcome outcome;

	scratch->mtu = 0;
	scratch->mark = skb->mark;
	scratch->forwarded = lb_is_forwarded(skb, hook) ? LB_YES : LB_NO;
	outcome = lb_skb_parse(skb, &scratch->packet);
	if (hook == LB_HOOK_TC_EGRESS)
		outcome = lb_skb_parse_within(skb, &scratch->packet, outcome);
	if (outcome == LB_OUTCOME_NONE && lb_is_translated(skb, hook, &scratch->packet.tuple))
		outcome = LB_OUTCOME_unrelated;
	else if (outcome == LB_OUTCOME_NONE)
		outcome = lb_carry(skb, scratch, lb_tc_balance(skb, hook, scratch));
	else if (outcome == LB_OUTCOME_other_protocol)
		outcome = lb_other_protocol(scratch);
	lb_count(outcome);
	return outcome;
}

/* What the outcome means for the packet, as a verdict of tc. */
static __always_inline int lb_tc_act(struct __sk_buff *skb, enum lb_hook hook, struct lb_scratch *scratch,
				     enum lb_outcome outcome)
{
	switch (lb_action(outcome)) {
	case LB_ACTION_STACK:
		if (lb_leaves_by_other_uplink(skb, scratch))
			return lb_send_on(skb, scratch);
		lb_note_translated(skb, hook, &scratch->packet.tuple, &scratch->flow.leaving);
		return LB_NEXT;
	case LB_ACTION_REDIRECT:
		return lb_send_on(skb, scratch);
	case LB_ACTION_ANSWER:
		lb_untag(skb);
		return lb_answer(skb, lb_answer_of(outcome)) ? lb_send_back(skb, hook) : lb_drop(hook);
	case LB_ACTION_DROP:
		return lb_drop(hook);
	default:
		return LB_NEXT;
	}
}

/* `missed`: the fast path has found no assured flow. */
static __always_inline int lb_tc_slowpath(struct __sk_buff *skb, enum lb_hook hook, enum lb_bool missed)
{
	struct lb_scratch *scratch = lb_scratch_begin(hook, skb->ifindex, missed);
	int verdict;

	if (!scratch) {
		lb_count(LB_OUTCOME_scratch_busy);
		return lb_drop(hook);
	}
	verdict = lb_tc_act(skb, hook, scratch, lb_tc_process(skb, hook, scratch));
	lb_scratch_end(scratch);
	return verdict;
}

/*
 * Whether a frame from the network is only for this host. Other frames come from a flooding switch or in
 * promiscuous mode, and reach their own host, too. From pods only frames for groups are left alone: a bridge port
 * sees frames for the bridge as for another host.
 */
static __always_inline int lb_is_for_host(const struct __sk_buff *skb, enum lb_hook hook)
{
	switch (hook) {
	case LB_HOOK_TC_INGRESS:
		return skb->pkt_type == LB_PACKET_HOST;
	case LB_HOOK_POD_INGRESS:
		return skb->pkt_type == LB_PACKET_HOST || skb->pkt_type == LB_PACKET_OTHER_HOST;
	default:
		return 1;
	}
}

static __always_inline int lb_tc(struct __sk_buff *skb, enum lb_hook hook)
{
	enum lb_fastpath_result result;

	if (!lb_is_for_host(skb, hook)) {
		lb_count(LB_OUTCOME_other_host);
		return LB_NEXT;
	}
	result = lb_tc_fastpath(skb, hook);
	if (result == LB_FASTPATH_PASSED)
		return LB_NEXT;
	if (result == LB_FASTPATH_REDIRECTED)
		return TC_ACT_REDIRECT;
	if (result == LB_FASTPATH_DROPPED)
		return lb_drop(hook);
	return lb_tc_slowpath(skb, hook, result == LB_FASTPATH_NO_FLOW ? LB_YES : LB_NO);
}

SEC("tcx/ingress")
int lb_tc_in(struct __sk_buff *skb)
{
	return lb_tc(skb, LB_HOOK_TC_INGRESS);
}

SEC("tcx/egress")
int lb_tc_out(struct __sk_buff *skb)
{
	return lb_tc(skb, LB_HOOK_TC_EGRESS);
}

SEC("tcx/ingress")
int lb_pod_in(struct __sk_buff *skb)
{
	return lb_tc(skb, LB_HOOK_POD_INGRESS);
}

SEC("tcx/egress")
int lb_pod_out(struct __sk_buff *skb)
{
	return lb_tc(skb, LB_HOOK_POD_EGRESS);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
