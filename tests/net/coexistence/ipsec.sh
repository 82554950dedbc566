#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# IPsec policies added while an agent runs: the maps and status follow them, redirected flows that match them end, and
# clients behind a policy get no packet in the clear, by tc and by XDP (REL-88).
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

NODE=10.0.0.10 NODE6=fd00:10::10 CLIENT=10.0.0.100 CLIENT6=fd00:10::100 NODE_PORT=30080

without() { lab_sluice status -o json | jq -r .without; }
ranges() { lab_sluice status -o json | jq .maps.lb_ranges.used; }
says() { [[ $(without) == *"ipsec: $1 policies; new flows to backends, or of clients, behind them are refused"* ]]; }
silent() { [[ $(without) != *ipsec* ]]; }
policy() { lab_in node ip xfrm policy "$@"; }
# redirected: the number of the client's flows to pods of other nodes.
redirected() { lab_sluice flows --limit 0 -o json | jq '[.flows[] | select(.client | startswith("10.0.0.100:")) | select(.backend | startswith("10.244.1.") | not)] | length'; }
ended() { (($(redirected) == 0)); }
refused() { lab_sluice status -o json | jq '.outcomes.ipsec // 0'; }
# of_client: the number of the client's flows, to any backend.
of_client() { lab_sluice flows --limit 0 -o json | jq --arg one "$CLIENT:" --arg other "[$CLIENT6]:" '[.flows[] | select(.client | startswith($one) or startswith($other))] | length'; }
none_of_client() { (($(of_client) == 0)); }

# silent_to_client WAY: checks that the client's flows have ended; no backend, local or remote, gets a new one, and the
# client receives no packets.
silent_to_client() {
	local before address heard
	lab_wait 15 none_of_client || die "$1: $(of_client) flows of the client go on"
	lab_start client wire.log tcpdump -Z root -lnni eth0 -Q in "(src host $NODE or src host $NODE6) and (tcp or udp or icmp or icmp6 and ip6[40] < 128)"
	heard=$LAB_STARTED
	lab_wait 20 grep -q listening "$LAB_DIR/wire.log" || die "tcpdump does not begin"
	for address in "$NODE" "$NODE6"; do
		before=$(refused)
		for _ in {1..8}; do ! lab_ask client tcp "$address" "$NODE_PORT" --timeout 0.3 >/dev/null || die "$1: the client is answered at $address"; done
		(($(refused) >= before + 8)) || die "$1: $(($(refused) - before)) refused at $address"
		lab_ask worker-b tcp "$address" "$NODE_PORT" --count 10 >/dev/null || die "$1: a client behind no policy is refused at $address"
	done
	none_of_client || die "$1: $(of_client) flows of the client were opened"
	lab_stop "$heard" INT || true
	! grep -E '^[0-9:.]+ IP' "$LAB_DIR/wire.log" || die "$1: in the clear, above"
	: >"$LAB_DIR/wire.log"
}

lab_up ipsec
policy list >/dev/null 2>&1 || { printf 'this kernel has no IPsec\n' && exit 77; }
lab_backends
lab_agent --xdp off
silent || die "a node without policies says: $(without)"
before=$(ranges)
for _ in {1..30}; do lab_in client curl -fsS -m 5 "http://$NODE:$NODE_PORT" >/dev/null; done
(($(redirected) > 0)) || die "no flow of the client is known"

for network in 2 3 4; do
	policy add src 0.0.0.0/0 dst "10.244.$network.0/24" dir out tmpl src 10.0.0.10 dst 10.0.0.21 proto esp mode tunnel
done
lab_wait 15 says 3 || die "status does not say it: $(without)"
(($(ranges) == before + 3)) || die "lb_ranges has $(ranges) entries, and $before before"
lab_wait 15 ended || die "$(redirected) flows to pods elsewhere go on"
grep -q "ended flows to backends, or of clients, behind IPsec policies" "$LAB_DIR/agent.log" || die "the log does not say it"
lab_stop "$LAB_AGENT" TERM
lab_agent --xdp off
says 3 || die "the next agent does not say it: $(without)"
(($(ranges) == before + 3)) || die "the next agent's lb_ranges has $(ranges) entries"
policy flush
lab_wait 15 silent || die "status still says: $(without)"
(($(ranges) == before)) || die "lb_ranges has $(ranges) entries, and $before before"
printf 'status and the maps follow policies\n'

# A client behind a policy: its open flows end, and it can open no new ones.
lab_stop "$LAB_AGENT" TERM
lab_offload off
for mode in off native; do
	lab_agent --xdp "$mode"
	for address in "$NODE" "$NODE6"; do
		lab_ask client tcp "$address" "$NODE_PORT" --count 20 >/dev/null || die "$mode: the client is not served before there is a policy"
	done
	(($(of_client) >= 20)) || die "$mode: only $(of_client) flows of the client"
	policy add src "$NODE/32" dst "$CLIENT/32" dir out tmpl src "$NODE" dst "$CLIENT" proto esp mode transport
	policy add src ::/0 dst "$CLIENT6/128" dir out action block
	lab_wait 15 says 2 || die "status does not say it: $(without)"
	silent_to_client "$mode"
	policy flush
	lab_wait 15 silent || die "status still says: $(without)"
	lab_ask client tcp "$NODE" "$NODE_PORT" --count 5 >/dev/null || die "$mode: the client is not served after the policy"
	lab_stop "$LAB_AGENT" TERM
done
printf 'clients behind policies are refused, by tc and by XDP\n'
