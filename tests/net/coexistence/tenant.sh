#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a tenant who may write one Service tries against others: its claims are addresses and ports of a client, of pods and of
# another node, once with an endpoint of the tenant's (theft), once without (refusal). Each attempt stands beside a control: what
# begins anew towards the claimed address does reach the tenant's endpoint, or is refused (docs/threats.md; REL-123).
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

LIB=$SLUICE_ROOT/tests/net/lib
DATAGRAMS=$LIB/datagrams.py
CLIENT=10.0.0.100 CLIENT6=fd00:10::100
PORTS=5000-5099 # of the client's, which the tenant claims; each is used once, so that no entry of conntrack helps
THIEF=10.244.2.10 THIEF6=fd00:10:244:2::10
BACKENDS=10.244.1.10,10.244.3.10,10.244.4.10,fd00:10:244:1::10,fd00:10:244:3::10,fd00:10:244:4::10 # of others, of the web service
LONG=$(printf 'long%.0s' {1..800}) # more than a frame carries
NEXT=5000
LAST=0

# in_family FAMILY IPV4 IPV6
in_family() { if [[ $1 == 4 ]]; then printf '%s\n' "$2"; else printf '%s\n' "$3"; fi; }
stolen() { grep -q "^$1 " "$LAB_DIR/thief.log"; }
# claimed NAME: the number of external frontends, and the least number of slots, of the tenant's services that begin so.
claimed() {
	lab_sluice services -o json | jq -c --arg name "tenant/$1" '
		map(select(.service | startswith($name))) | [([.[].frontends[] | select(.kind == "ExternalIP")] | length), ([.[].clusterSlots] | min)]'
}
claimed_are() { [[ $(claimed "$1") =~ ^\[$2,$3\]$ ]]; }

# claim NAME PROTOCOL PORTS ADDRESSES COUNT MODE: COUNT frontends come of it.
claim() {
	local endpoints=() slots=0
	if [[ $6 == theft ]]; then
		slots='[1-9][0-9]*'
		if [[ $2 == UDP ]]; then endpoints=("$THIEF:7000,$THIEF6:7000"); else endpoints=("$THIEF:8080,$THIEF6:8080"); fi
	fi
	python3 "$LIB/tenant.py" "$LAB_MANIFESTS" "$1" "$2" "$3" "$4" "${endpoints[@]}"
	lab_wait 20 claimed_are "$1" "$5" "$slots" || die "$1 has [frontends,slots] $(claimed "$1"), not [$5,$slots]"
}

# own_port: the next of the claimed ports, in $NEXT.
own_port() {
	NEXT=$((NEXT + 1))
	((NEXT < 5098)) || die "has used all claimed ports"
}

# keeps_udp WHAT ADDRESS PORT: the victim's datagrams from a claimed port are answered, also large ones.
keeps_udp() {
	local word
	own_port
	LAST=$((LAST + 1))
	for word in "word$LAST" "$LONG"; do
		lab_in client python3 "$DATAGRAMS" say "$word" "$2" "$3" --from "$NEXT" --answered >"$LAB_DIR/said" 2>&1 ||
			die "$1, from port $NEXT: ${word:0:9} is answered by: $(head -c 200 "$LAB_DIR/said")"
	done
}

# keeps_tcp WHAT ADDRESS PORT: the victim's connections from claimed ports are answered.
keeps_tcp() {
	own_port
	lab_in client python3 "$LIB/by_port.py" once "$2" "$3" "$NEXT" 1 >"$LAB_DIR/said" 2>&1 || die "$1, TCP: $(tail -n 1 "$LAB_DIR/said")"
	grep -q "^$NEXT web-" "$LAB_DIR/said" || die "$1, TCP: $(cat "$LAB_DIR/said")"
}

# control WHO MODE FAMILY: what WHO begins towards the victim's claimed port is the tenant's.
control() {
	local -r who=$1 mode=$2 where=$(in_family "$3" "$CLIENT" "$CLIENT6")
	LAST=$((LAST + 1))
	own_port
	lab_in "$who" python3 "$DATAGRAMS" say "control$LAST" "$where" "$NEXT" >"$LAB_DIR/said" 2>&1 || [[ $mode == refusal ]] || die "control: $(tail -n 1 "$LAB_DIR/said")"
	if [[ $mode == theft ]]; then
		lab_wait 5 stolen "control$LAST" || die "control: $who begins something with $where, which is claimed, and the tenant does not get it"
		lab_ask "$who" tcp "$where" "$NEXT" >"$LAB_DIR/said" || die "control: $who, TCP: $(cat "$LAB_DIR/said")"
		grep -q 'web-a' "$LAB_DIR/said" || die "control: $who, TCP: $(cat "$LAB_DIR/said")"
	elif [[ $who != guest ]]; then
		grep -q ConnectionRefused "$LAB_DIR/said" || die "control: $who is not refused: $(tail -n 1 "$LAB_DIR/said")"
	fi
}

# against_client MODE FAMILY: the client's address and ports are claimed.
against_client() {
	local -r node=$(in_family "$2" 10.0.0.10 fd00:10::10) web=$(in_family "$2" 10.96.0.80 fd00:10:96::80)
	local who
	for who in pod guest node; do control "$who" "$1" "$2"; done
	keeps_udp "a pod's server" "$(in_family "$2" 10.244.1.10 fd00:10:244:1::10)" 5300
	keeps_udp "a server in a guest" "$(in_family "$2" 10.244.1.11 fd00:10:244:1::11)" 5300
	keeps_udp "the node's server" "$node" 5301
	keeps_udp "a node port, backend elsewhere" "$node" 30053
	keeps_udp "a node port, backend here" "$node" 30054
	keeps_tcp "a pod's server" "$(in_family "$2" 10.244.1.10 fd00:10:244:1::10)" 8080
	keeps_tcp "a server in a guest" "$(in_family "$2" 10.244.1.11 fd00:10:244:1::11)" 8080
	for _ in 1 2 3 4; do
		keeps_tcp "a node port" "$node" 30080
		keeps_tcp "a ClusterIP" "$web" 80
	done
	printf '%s by the client'\''s address, IPv%s: all goes on\n' "$1" "$2"
}

# all_backends WHO ADDRESS PORT: each of the web service's backends answers, and as the right one.
all_backends() {
	lab_ask "$1" tcp "$2" "$3" --count 40 --json >"$LAB_DIR/said" || die "$1 to $2: $(cat "$LAB_DIR/said")"
	[[ $(jq '.answers | keys | length' "$LAB_DIR/said") == 4 ]] || die "$1 to $2: $(jq -c .answers "$LAB_DIR/said")"
}

# against_backends MODE: the addresses and ports of a service's backends are claimed. Its clients still reach them, and no packet
# is translated twice: the tenant's endpoint would answer in their place.
against_backends() {
	local -a clients=(node guest)
	local address code=0
	lab_ask pod tcp 10.244.3.10 8080 --count 4 --json >"$LAB_DIR/said" 2>&1 || code=$?
	if [[ $1 == theft ]]; then
		[[ $(jq -c '.answers | keys' "$LAB_DIR/said") == '["web-a"]' ]] || die "control: a backend's claimed address leads to $(cat "$LAB_DIR/said")"
	else
		((code != 0)) || die "control: a claimed address without an endpoint answers: $(cat "$LAB_DIR/said")"
	fi
	# What a pod's socket sends to a backend elsewhere is refused at egress, as by kube-proxy's rules (docs/threats.md, "What remains of it").
	[[ $1 == refusal ]] || clients+=(pod)
	for address in 10.96.0.80 fd00:10:96::80; do for who in "${clients[@]}"; do all_backends "$who" "$address" 80; done; done
	for address in 10.0.0.10 fd00:10::10; do all_backends client "$address" 30080; done
	printf '%s by the backends'\'' addresses: all four answer\n' "$1"
}

server() { lab_start "$1" "$1-$3.log" python3 "$DATAGRAMS" answer "$2" "$3"; }

# udp_service NAME PORT ENDPOINT ENDPOINT6: with a node port.
udp_service() {
	local n=$(($2 - 30000))
	jq -n --arg name "$1" --argjson port "$2" --arg ip "10.96.0.$n" --arg ip6 "fd00:10:96::$n" '
		{apiVersion: "v1", kind: "Service", metadata: {namespace: "default", name: $name},
		 spec: {type: "NodePort", clusterIP: $ip, clusterIPs: [$ip, $ip6], ipFamilies: ["IPv4", "IPv6"],
		        ports: [{name: "u", protocol: "UDP", port: 5300, nodePort: $port}]}}'
	for address in "$3" "$4"; do
		printf -- '---\n'
		jq -n --arg name "$1" --arg address "$address" '
			{apiVersion: "discovery.k8s.io/v1", kind: "EndpointSlice", addressType: (if $address | contains(":") then "IPv6" else "IPv4" end),
			 metadata: {namespace: "default", name: ($name + "-" + ($address | gsub("[.:]"; "-"))), labels: {"kubernetes.io/service-name": $name}},
			 ports: [{name: "u", protocol: "UDP", port: 5300}], endpoints: [{addresses: [$address]}]}'
	done
}

lab_up tenant
lab_guest
lab_backends
lab_start guest backend-guest.log python3 "$SLUICE_ROOT/scripts/lib/backend.py" web-guest 8080 5353
for address in 10.244.1.10 fd00:10:244:1::10; do server pod "$address" 5300; done
for address in 10.244.1.11 fd00:10:244:1::11; do server guest "$address" 5300; done
for address in 10.0.0.10 fd00:10::10; do server node "$address" 5301; done
for address in 10.244.3.10 fd00:10:244:3::10; do server worker-b "$address" 5300; done
for address in $THIEF $THIEF6; do lab_start worker-a thief.log python3 "$DATAGRAMS" hear "$address" 7000; done
for at in client worker-a worker-b; do
	ip -n "$LAB-$at" route replace 10.244.1.11/32 via 10.0.0.10
	ip -n "$LAB-$at" route replace 10.244.1.10/32 via 10.0.0.10
	ip -n "$LAB-$at" route replace fd00:10:244:1::/64 via fd00:10::10
done
udp_service away 30053 10.244.3.10 fd00:10:244:3::10 >"$LAB_MANIFESTS/away.yaml"
udp_service here 30054 10.244.1.10 fd00:10:244:1::10 >"$LAB_MANIFESTS/here.yaml"
lab_agent --pod-devices pod --xdp "${XDP:-off}"

# What was there before the claims: a connection, and a connected UDP socket.
lab_start client kept.log python3 "$LIB/by_port.py" keep 10.244.1.10 8080 5098 2 "$LAB_DIR/ends"
KEPT=$LAB_STARTED
lab_wait 10 grep -q open "$LAB_DIR/kept.log" || die "the first connections do not open: $(cat "$LAB_DIR/kept.log")"

for mode in theft refusal; do
	claim tenant-u UDP "$PORTS" "$CLIENT,$CLIENT6" 200 "$mode"
	claim tenant-t TCP "$PORTS" "$CLIENT,$CLIENT6" 200 "$mode"
	for family in 4 6; do against_client "$mode" "$family"; done
	claim tenant-b TCP 8080 "$BACKENDS" 6 "$mode"
	against_backends "$mode"
	rm "$LAB_MANIFESTS"/tenant-*.yaml
	lab_wait 10 claimed_are "" 0 null || die "claims stay"
done
touch "$LAB_DIR/ends"
wait "$KEPT" || die "by_port: $(cat "$LAB_DIR/kept.log")"
[[ $(grep -c '^good' "$LAB_DIR/kept.log") == 2 ]] || die "a connection from before the claims: $(cat "$LAB_DIR/kept.log")"
printf 'connections from before the claims went on\n'
