#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two nodes with the same services behind a switch that floods: each frame reaches both, and the node whose address it does
# not have ignores it, by tc and by XDP, also in promiscuous mode (REL-91).
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

ADDRESSES=(10.0.0.10/30080/30053 fd00:10::10/30080/30053 203.0.113.80/80/53 2001:db8:113::80/80/53)

# slice FAMILY LOCAL ELSEWHERE: an EndpointSlice with these two addresses.
slice() {
	cat <<-YAML
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: web-${1,,}, namespace: default, labels: {kubernetes.io/service-name: web}}
		addressType: $1
		endpoints: [{addresses: ["$2"], nodeName: node}, {addresses: ["$3"], nodeName: worker-a}]
		ports: [{name: http, protocol: TCP, port: 8080}, {name: echo, protocol: UDP, port: 5353}]
	YAML
}

# services: the services of both nodes. No backend is on worker-c, so that all that worker-c sends comes from its agent.
services() {
	cat <<-YAML
		apiVersion: v1
		kind: Service
		metadata: {name: web, namespace: default}
		spec:
		  type: LoadBalancer
		  clusterIPs: [10.96.0.80, "fd00:10:96::80"]
		  ipFamilies: [IPv4, IPv6]
		  ports:
		  - {name: http, protocol: TCP, port: 80, targetPort: 8080, nodePort: 30080}
		  - {name: echo, protocol: UDP, port: 53, targetPort: 5353, nodePort: 30053}
		status: {loadBalancer: {ingress: [{ip: 203.0.113.80, ipMode: VIP}, {ip: "2001:db8:113::80", ipMode: VIP}]}}
	YAML
	slice IPv4 10.244.1.10 10.244.2.10
	slice IPv6 fd00:10:244:1::10 fd00:10:244:2::10
}

# bystander: makes worker-c a node with routes to all backends, so that it could serve the frames that it sees.
bystander() {
	mkdir "$LAB_CGROUP/other"
	lab_in worker-c bash -c 'cd /proc/sys/net && echo 1 >ipv4/ip_forward && echo 1 >ipv6/conf/all/forwarding'
	ip -n "$LAB-worker-c" route add 10.244.2.0/24 via 10.0.0.21
	ip -n "$LAB-worker-c" route add fd00:10:244:2::/64 via fd00:10::21
}

other_agent() {
	lab_start worker-c other.log "$SLUICE" agent --manifests "$LAB_MANIFESTS" --node worker-c --devices eth0 --cgroup "$LAB_CGROUP/other" \
		--pins "$LAB_PINS/other" --health 127.0.0.1:10256 --metrics off ${SLUICE_WITHOUT:+--without "$SLUICE_WITHOUT"} "$@"
	OTHER=$LAB_STARTED
	lab_wait 30 lab_in worker-c curl -fsS -m 2 http://127.0.0.1:10256/healthz || die "the other agent: $(cat "$LAB_DIR/other.log")"
}
other() { lab_in worker-c "$SLUICE" "$1" --pins "$LAB_PINS/other" -o json; }
ignored() { other status | jq '.outcomes.other_host // 0'; }

# flood: turns off the bridge's address learning, so that it sends each frame to all ports.
flood() {
	local port
	ip -n "$LAB-net" link set bridge type bridge ageing_time 0
	for port in client node "${LAB_WORKERS[@]}"; do bridge -n "$LAB-net" link set dev "to-$port" learning off flood on; done
}

# undisturbed WAY: checks that a client is served at every address of the node, and that the other node sends no packets.
undisturbed() {
	local where address tcp udp before ear
	before=$(ignored)
	lab_start net wire.log tcpdump -Z root -lnni to-worker-c -Q in "tcp or udp or icmp or (icmp6 and ip6[40] < 128)"
	ear=$LAB_STARTED
	lab_wait 20 grep -q listening "$LAB_DIR/wire.log" || die "tcpdump does not begin"
	for where in "${ADDRESSES[@]}"; do
		IFS=/ read -r address tcp udp <<<"$where"
		lab_ask client tcp "$address" "$tcp" --count 20 --json || die "$1: TCP to $address: $(tail -n 1 "$LAB_DIR/answers")"
		lab_ask client udp "$address" "$udp" --count 20 --json || die "$1: UDP to $address: $(tail -n 1 "$LAB_DIR/answers")"
	done >"$LAB_DIR/answers"
	[[ $(jq -sc 'map(.answers | keys) | add | unique' "$LAB_DIR/answers") == '["web-a","web-pod"]' ]] ||
		die "$1: not both backends answer: $(cat "$LAB_DIR/answers")"
	lab_stop "$ear" INT || true
	! grep -E '^[0-9:.]+ IP' "$LAB_DIR/wire.log" || die "$1: the other node has sent what is above"
	: >"$LAB_DIR/wire.log"
	(($(ignored) - before > 1000)) || die "$1: the other node saw only $(($(ignored) - before)) frames: nothing is flooded"
	[[ $(other flows | jq '.flows | length') == 0 ]] || die "$1: the other node has opened flows: $(other flows)"
	printf '%s: %s frames for other hosts\n' "$1" "$(($(ignored) - before))"
}

lab_up flooding
lab_offload off
rm -f "$LAB_MANIFESTS"/*
services >"$LAB_MANIFESTS/web.yaml"
lab_backends
bystander
flood
for mode in off native; do
	lab_agent --xdp "$mode"
	other_agent --xdp "$mode"
	for promiscuous in off on; do
		ip -n "$LAB-node" link set eth0 promisc "$promiscuous"
		ip -n "$LAB-worker-c" link set eth0 promisc "$promiscuous"
		undisturbed "XDP $mode, promiscuous $promiscuous"
	done
	lab_stop "$LAB_AGENT" TERM
	lab_stop "$OTHER" TERM
done
