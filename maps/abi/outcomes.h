/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What can happen to a packet or a socket call: one line for each outcome. The enum, the struct of the
 * counters, the metrics' help and the action at each hook are made from this list. A test reaches every line.
 *
 * X(name, action, meaning). Actions:
 *   PASS      untouched, passed to the next program or the stack
 *   STACK     rewritten, passed to the stack
 *   REDIRECT  rewritten and sent out of a device by us
 *   ANSWER    dropped, and the sender gets an ICMP error or a TCP reset
 *   DROP      dropped
 *   CALL      the outcome of a socket call
 *   EVENT     counted in addition to the packet's own outcome
 */
#ifndef SLUICE_MAPS_OUTCOMES_H
#define SLUICE_MAPS_OUTCOMES_H

#define LB_OUTCOMES(X)                                                                                         \
	X(not_ip, PASS, "neither IPv4 nor IPv6")                                                               \
	X(other_host, PASS, "a frame for another host, or multicast: as a flooding switch delivers it")        \
	X(malformed, PASS, "headers truncated or contradictory: the stack decides")                            \
	X(fragment, PASS, "a fragment of a datagram whose first one was not seen: the stack reassembles")      \
	X(other_protocol, PASS, "none of TCP, UDP, SCTP, nor an ICMP error about them")                        \
	X(unrelated, PASS, "no flow and no service")                                                           \
	X(left_to_tc, PASS, "XDP left it to tc, which can use the stack")                                      \
	X(martian, DROP,                                                                                       \
	  "for a service, from loopback, multicast or the unspecified address; or for loopback, from outside") \
	X(own_source, DROP, "for a service, and claims to come from this node")                                \
	X(service_source, DROP, "for a service, and claims to come from a service")                            \
	X(flow_stack, STACK, "packet of a known flow, given to the stack")                                     \
	X(flow_redirect, REDIRECT, "packet of a known flow, sent out")                                         \
	X(flow_xdp, REDIRECT, "packet of a known flow, sent out by XDP")                                       \
	X(new_local, STACK, "first packet of a flow that keeps its source, as to a backend on this node")      \
	X(new_remote, REDIRECT, "first packet of a flow to a backend elsewhere")                               \
	X(new_xdp, REDIRECT, "first packet of a flow to a backend elsewhere, sent out by XDP")                 \
	X(new_direct, STACK,                                                                                   \
	  "first packet straight to a backend, whose tuple a service's flow has: from another port")           \
	X(icmp_stack, STACK, "ICMP error about a known flow, given to the stack")                              \
	X(icmp_redirect, REDIRECT, "ICMP error about a known flow, sent out")                                  \
	X(no_backend_reject, ANSWER, "no endpoint anywhere: port unreachable")                                 \
	X(no_backend_drop, DROP, "no endpoint on this node, and the policy is Local")                          \
	X(unknown_port, ANSWER, "to a ClusterIP, at a port or protocol that the service does not have")        \
	X(unallocated, DROP, "on its way out towards a ClusterIP that no service has")                         \
	X(new_from_pod, STACK, "first packet of a flow that a pod opens, at the pod's device")                 \
	X(new_hairpin, REDIRECT, "first packet of a flow that a pod opens to itself")                          \
	X(range_denied, DROP, "the client is in none of the service's source ranges")                          \
	X(stale_slot, DROP, "a slot named a backend of another service: dropped, not misdelivered")            \
	X(ports_exhausted, DROP, "no free source port towards this backend")                                   \
	X(flow_table_full, DROP, "the kernel refused a flow entry")                                            \
	X(no_route, DROP, "no route to the backend by which both directions pass our programs")                \
	X(too_big, ANSWER, "larger than the MTU of the route: the sender gets the MTU by ICMP")                \
	X(not_fragmented, ANSWER, "the same without \"don't fragment\", which needs the stack: as too_big")    \
	X(own_unserved, ANSWER,                                                                                \
	  "sent by this node without a socket call, to a backend whose replies would pass none of our hooks")  \
	X(hop_limit, ANSWER, "TTL or hop limit used up: the sender gets time exceeded")                        \
	X(ipsec, DROP,                                                                                         \
	  "an IPsec policy covers the way to the backend, or to the client: ours would bypass it")             \
	X(rewrite_failed, DROP, "the kernel refused to change the packet")                                     \
	X(frag_head_replayed, DROP,                                                                            \
	  "first fragment that came after others: received again, followed by their copies")                   \
	X(sctp_fragment, DROP, "part of an SCTP message whose ports change: its checksum covers the whole")    \
	X(duplicate_synack, DROP, "SYN-ACK or INIT-ACK of another backend than the one that was first")        \
	X(scratch_busy, DROP,                                                                                  \
	  "PREEMPT_RT: a packet that a preempted task of this CPU is processing has the memory for it")        \
	X(answer_limited, EVENT, "no answer: more than a thousand of its kind in this second on this CPU")     \
	X(answer_refused, EVENT, "no ICMP answer: to such a sender, or from such a packet, none is allowed")   \
	X(midstream, EVENT, "TCP without a flow and without SYN, assigned a backend nevertheless")             \
	X(assured, EVENT, "flow proven two-way and moved to the flow table")                                   \
	X(assure_failed, EVENT, "flow table full: the flow stays unassured until there is room")               \
	X(port_collision, EVENT, "a source port was taken and the next one was probed")                        \
	X(port_displaced, EVENT, "all probed ports were taken: the oldest unassured flow lost its port")       \
	X(tuple_in_use, EVENT, "a tuple is used by the kernel's conntrack or by a socket: not claimed")        \
	X(flow_replaced, EVENT, "a new connection straight to a backend ended a dead flow on its tuple")       \
	X(answered_reset, EVENT, "refused by a TCP reset")                                                     \
	X(check_failed, EVENT, "a value read from a hash was not its key's, and was rejected")                 \
	X(frag_queued, EVENT, "a fragment came before the first of its datagram: a copy is queued")            \
	X(frag_replayed, EVENT, "a copy of such a fragment, received again after the first one")               \
	X(socket_translated, CALL, "connect or send to a service, translated to a backend")                    \
	X(socket_kept, CALL, "send to a service, translated to the socket's previous backend")                 \
	X(socket_refused, CALL, "connect or send refused: no endpoint, or no such port")                       \
	X(socket_dropped, CALL,                                                                                \
	  "call not translated: no endpoint on this node, or client not in the source ranges")                 \
	X(socket_left, CALL, "call left to the packet hooks")                                                  \
	X(socket_direct, CALL,                                                                                 \
	  "call to an external address, left alone: the socket already talks directly with it")                \
	X(socket_unrelated, CALL, "a call that concerns no service")                                           \
	X(socket_restored, CALL, "a socket was shown the service's address instead of its backend's")          \
	X(socket_forgotten, CALL, "no memory for the socket's pair: replies keep the backend's address")

#define LB_OUTCOME_ENUM(name, action, meaning) LB_OUTCOME_##name,
enum lb_outcome { LB_OUTCOMES(LB_OUTCOME_ENUM) LB_OUTCOME_COUNT };
#undef LB_OUTCOME_ENUM

/* The element of lb_stats, so that a dump names every counter. */
#define LB_OUTCOME_FIELD(name, action, meaning) __u64 name;
struct lb_stats {
	LB_OUTCOMES(LB_OUTCOME_FIELD)
};
#undef LB_OUTCOME_FIELD

#endif
