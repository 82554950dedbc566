#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two clusters on one network, with the same service addresses and the same node ports (docs/threats.md): each node serves
# its own, a service may have an endpoint in the other cluster, and packets between two services that have each other as
# endpoint end by their hop limit and disturb no other traffic.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

# By family: the node, the other cluster's node, the services web, far and ring, and the pods that reply.
declare -A NODE=([4]=10.0.0.10 [6]=fd00:10::10) OTHER=([4]=10.0.0.23 [6]=fd00:10::23)
declare -A WEB=([4]=10.96.0.80 [6]=fd00:10:96::80) FAR=([4]=10.96.0.81 [6]=fd00:10:96::81) RING=([4]=10.96.0.90 [6]=fd00:10:96::90)
declare -A WEB_A=([4]=10.244.2.10 [6]=fd00:10:244:2::10) WEB_B=([4]=10.244.3.10 [6]=fd00:10:244:3::10)

# service NAME PORT-OF-NODES TCP-PORT UDP-PORT CLUSTER-IPS ENDPOINTS: a dual-stack service for both protocols, with one
# endpoint in each family. The last two are names of arrays.
service() {
	local family
	local -n cluster_ips=$5 endpoints=$6
	cat <<-YAML
		apiVersion: v1
		kind: Service
		metadata: {name: $1, namespace: default}
		spec:
		  type: NodePort
		  clusterIPs: ["${cluster_ips[4]}", "${cluster_ips[6]}"]
		  ipFamilies: [IPv4, IPv6]
		  ports: [{name: tcp, protocol: TCP, port: 80, nodePort: $2}, {name: udp, protocol: UDP, port: 80, nodePort: $2}]
	YAML
	for family in 4 6; do
		cat <<-YAML
			---
			apiVersion: discovery.k8s.io/v1
			kind: EndpointSlice
			metadata: {name: $1-$family, namespace: default, labels: {kubernetes.io/service-name: $1}}
			addressType: IPv$family
			endpoints: [{addresses: ["${endpoints[$family]}"]}]
			ports: [{name: tcp, protocol: TCP, port: $3}, {name: udp, protocol: UDP, port: $4}]
		YAML
	done
}

# other_agent: starts the agent of the other cluster's node, which is worker-c. It knows no objects of ours.
other_agent() {
	mkdir "$LAB_CGROUP/other" "$LAB_DIR/other"
	service web 30080 8080 5353 WEB WEB_B >"$LAB_DIR/other/web.yaml"
	service ring 30090 30090 30090 RING NODE >"$LAB_DIR/other/ring.yaml"
	lab_in worker-c bash -c 'cd /proc/sys/net && echo 1 >ipv4/ip_forward && echo 1 >ipv6/conf/all/forwarding'
	ip -n "$LAB-worker-c" route add 10.244.3.0/24 via 10.0.0.22
	ip -n "$LAB-worker-c" route add fd00:10:244:3::/64 via fd00:10::22
	lab_start worker-c other.log "$SLUICE" agent --manifests "$LAB_DIR/other" --node other --devices eth0 --cgroup "$LAB_CGROUP/other" \
		--pins "$LAB_PINS/other" --health 127.0.0.1:10256 --metrics 127.0.0.1:10249 ${SLUICE_WITHOUT:+--without "$SLUICE_WITHOUT"}
	lab_wait 30 lab_in worker-c curl -fsS -m 2 http://127.0.0.1:10256/healthz || die "the other agent: $(cat "$LAB_DIR/other.log")"
}

# answers WHO ADDRESS PORT NAME: checks that only NAME replies, by both protocols.
answers() {
	local protocol said
	for protocol in tcp udp; do
		said=$(lab_ask "$1" "$protocol" "$2" "$3" --count 20 --json) || die "$1 at $2 $3 by $protocol: $said"
		[[ $(jq -c '.answers | keys' <<<"$said") == "[\"$4\"]" ]] || die "$1 at $2 $3 by $protocol, which $4 alone should answer: $said"
	done
}

# packets DEVICE: the number of packets that it received.
packets() { ip -n "$LAB-node" -s -j link show dev "$1" | jq '.[0].stats64.rx.packets'; }

# ring FAMILY PROTOCOL: two services that have each other as endpoint. No reply comes, the packets end, and all other traffic
# goes on.
ring() {
	local before turned
	before=$(packets eth0)
	! lab_ask client "$2" "${NODE[$1]}" 30090 --count 1 --timeout 3 >/dev/null || die "IPv$1, $2: a ring has answered"
	! lab_ask pod "$2" "${RING[$1]}" 80 --count 1 --timeout 3 >/dev/null || die "IPv$1, $2: a ring has answered a pod"
	turned=$(($(packets eth0) - before))
	((turned > 20 && turned < 2000)) || die "IPv$1, $2: a ring of two services: $turned packets"
	printf 'IPv%d, %s: a ring of two services: %d packets of two clients\n' "$1" "$2" "$turned"
}

lab_up clusters
rm -f "$LAB_MANIFESTS"/*
service web 30080 8080 5353 WEB WEB_A >"$LAB_MANIFESTS/web.yaml"
service far 30081 30080 30080 FAR OTHER >"$LAB_MANIFESTS/far.yaml"
service ring 30090 30090 30090 RING OTHER >"$LAB_MANIFESTS/ring.yaml"
lab_backends
lab_agent
other_agent

for family in 4 6; do
	answers client "${NODE[$family]}" 30080 web-a
	answers client "${OTHER[$family]}" 30080 web-b
	answers pod "${WEB[$family]}" 80 web-a
	printf 'IPv%d: the same addresses and ports: each cluster its own\n' "$family"

	answers client "${NODE[$family]}" 30081 web-b
	answers pod "${FAR[$family]}" 80 web-b
	printf 'IPv%d: a service that leads to a node port of the other cluster: web-b\n' "$family"

	for protocol in tcp udp; do ring "$family" "$protocol"; done
	answers client "${NODE[$family]}" 30080 web-a
	answers client "${OTHER[$family]}" 30080 web-b
	printf 'IPv%d: and all else is served\n' "$family"
done
