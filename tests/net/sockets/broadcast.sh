#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A tenant claims the broadcast addresses of the node's subnet and of its pods', as external IPs and as a load balancer's: what
# sockets send there reaches the subnet, by sendto and by connect, of a subnet that the node gets meanwhile too (REL-121).
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

LIB=$SLUICE_ROOT/tests/net/lib
DATAGRAMS=$LIB/datagrams.py
EXTERNAL=6000 BALANCER=6001 # the ports of the two Services
WORDS=0

heard() { grep -q "^$1 " "$LAB_DIR/$2.log"; }
claims() { lab_sluice services tenant/ -o json | jq -r '[.[].frontends[] | select(.kind != "ClusterIP").address] | unique | join(" ")'; }
claims_are() { [[ $(claims) == "$1" ]]; }

# sent WHO ADDRESS PORT WHERE [OPTION]: sends a new word; WHERE, the name of a log, must have it, and the other end must not.
sent() {
	local other=thief word
	WORDS=$((WORDS + 1)) word=word$WORDS
	[[ $4 != thief ]] || other=subnet
	lab_in "$1" python3 "$DATAGRAMS" say "$word" "$2" "$3" "${@:5}" || die "$1 to $2 port $3 ${*:5}: not sent"
	lab_wait 5 heard "$word" "$4" || die "$1 to $2 port $3 ${*:5}: not in the log of the $4 (the other one has it: $(heard "$word" "$other" && echo yes || echo no))"
	! heard "$word" "$other" || die "$1 to $2 port $3 ${*:5}: heard by the $other too"
}

# both_ways WHO ADDRESS WHERE: by both Services' ports, and both calls.
both_ways() {
	local port way
	for port in "$EXTERNAL" "$BALANCER"; do
		for way in "" --connect; do sent "$1" "$2" "$port" "$3" ${way:+"$way"}; done
	done
	printf '%s to %s: the %s\n' "$1" "$2" "$3"
}

claim() {
	python3 "$LIB/tenant.py" "$LAB_MANIFESTS" tenant-x UDP "$EXTERNAL" "$1" 10.244.2.10:7000
	python3 "$LIB/tenant.py" "$LAB_MANIFESTS" tenant-y UDP "$BALANCER" "$1" 10.244.2.10:7000 --status
}

lab_up broadcast
ip -n "$LAB-pod" address add 10.244.1.10/24 dev eth0 # as plug-ins with a bridge do: the last address is for all
for port in "$EXTERNAL" "$BALANCER"; do lab_start client subnet.log python3 "$DATAGRAMS" hear 0.0.0.0 "$port"; done
lab_start node subnet.log python3 "$DATAGRAMS" watch pod0 10.244.1.255
lab_start worker-a thief.log python3 "$DATAGRAMS" hear 10.244.2.10 7000
lab_wait 5 grep -q watching "$LAB_DIR/subnet.log" || die "the pod's device is not watched"
lab_agent --xdp off
claim "10.0.0.255,10.244.1.255,172.20.0.255,203.0.113.66"
lab_wait 10 claims_are "172.20.0.255 203.0.113.66" || die "claimed are $(claims)"
grep -q 'external IP 10.0.0.255 and 1 more are refused: it is the broadcast address' "$LAB_DIR/agent.log" ||
	die "the log does not name what is refused: $(grep -i refused "$LAB_DIR/agent.log" || true)"

# What else they claim is theirs: the claims work, and the sockets are translated.
for who in node pod; do both_ways "$who" 203.0.113.66 thief; done
both_ways node 172.20.0.255 thief
both_ways node 10.0.0.255 subnet
both_ways pod 10.244.1.255 subnet

ip -n "$LAB-client" address add 172.20.0.2/24 dev eth0
ip -n "$LAB-node" address add 172.20.0.1/24 dev eth0
lab_wait 10 claims_are "203.0.113.66" || die "claimed are $(claims), although the node has 172.20.0.0/24"
both_ways node 172.20.0.255 subnet
