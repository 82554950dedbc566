#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Backends that EndpointSlices place on this node but whose replies pass none of its hooks: a pod with a macvlan device on
# the uplink, and a pod that is on another node in truth. They answer clients outside and pods in both families, by TCP and
# UDP, by tc, by XDP and forwarded by the stack; with the traffic policy Local the client's address is lost, which status
# and the log say. Routes that change are followed. SEM-141.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

MACVLAN=10.0.0.78 MACVLAN6=fd00:10::78 # the macvlan pod
STALE=10.244.2.10 STALE6=fd00:10:244:2::10 # worker-a's pod, which the slices place on this node

on_node() { ip -n "$LAB-node" "$@"; }
without() { lab_sluice status -o json | jq -r .without; }
# locality NAME ADDRESS: what the maps say about that backend.
locality() { lab_sluice backends "default/$1" -o json | jq -r --arg address "$2" '[.[] | select(.address == $address) | .locality] | unique | join(" ")'; }
is_at() { [[ $(locality "$1" "$2") == "$3" ]]; }

# macvlan_pod: a pod whose device is on the node's uplink. The switch sends frames back by the port from which they came,
# as those do to which such pods are connected: the node reaches them by the network.
macvlan_pod() {
	lab_namespace guest
	ip -n "$LAB-net" link set to-node type bridge_slave hairpin on
	on_node link add mv0 link eth0 type macvlan mode vepa
	on_node link set mv0 netns "$LAB-guest"
	ip -n "$LAB-guest" link set mv0 name eth0 up
	ip -n "$LAB-guest" address add "$MACVLAN/24" dev eth0
	ip -n "$LAB-guest" address add "$MACVLAN6/64" dev eth0 nodad
	ip -n "$LAB-guest" route add 10.244.1.0/24 via 10.0.0.10
	ip -n "$LAB-guest" route add fd00:10:244:1::/64 via fd00:10::10
	lab_start guest backend-guest.log python3 "$SLUICE_ROOT/scripts/lib/backend.py" web-macvlan 8080 5353
	lab_wait 10 lab_in guest python3 "$SLUICE_ROOT/scripts/lib/ask.py" tcp 127.0.0.1 8080 || die "no backend in the macvlan pod"
	lab_ask node tcp "$MACVLAN" 8080 >/dev/null || die "the node does not reach the macvlan pod"
}

# service NAME NUMBER POLICY ADDRESS ADDRESS6: node ports 3NUMBER0 (TCP) and 3NUMBER1 (UDP), and a backend on this node.
service() {
	local family address
	cat >"$LAB_MANIFESTS/$1.yaml" <<-END
		apiVersion: v1
		kind: Service
		metadata: {namespace: default, name: $1}
		spec:
		  type: NodePort
		  externalTrafficPolicy: $3
		  clusterIP: 10.96.1.$2
		  clusterIPs: [10.96.1.$2, "fd00:10:96::1$2"]
		  ipFamilies: [IPv4, IPv6]
		  ports:
		    - {name: http, port: 80, targetPort: 8080, nodePort: 30${2}0}
		    - {name: echo, port: 53, targetPort: 5353, protocol: UDP, nodePort: 30${2}1}
	END
	for family in 4 6; do
		address=$4
		((family == 4)) || address=$5
		cat >>"$LAB_MANIFESTS/$1.yaml" <<-END
			---
			apiVersion: discovery.k8s.io/v1
			kind: EndpointSlice
			metadata: {namespace: default, name: $1-$family, labels: {kubernetes.io/service-name: $1}}
			addressType: IPv$family
			ports: [{name: http, protocol: TCP, port: 8080}, {name: echo, protocol: UDP, port: 5353}]
			endpoints: [{addresses: ["$address"], nodeName: node, conditions: {ready: true}}]
		END
	done
}

# answered WHO PROTOCOL ADDRESS PORT BACKEND PEER: checks that all is answered by BACKEND, which sees PEER.
answered() {
	local result
	result=$(lab_ask "$1" "$2" "$3" "$4" --count 8 --timeout 2 --json) || true
	[[ $(jq -c '[.failed == {}, (.answers | keys), (.peers | add)]' <<<"$result") == "[true,[\"$5\"],[\"$6\"]]" ]] ||
		die "$1 asks $3 port $4 by $2: $result, not $5 with peer $6; $(lab_sluice status)"
}

# all_answered HOW: each service from outside by node ports, and from a pod by packets.
all_answered() {
	local name number
	while read -r name number; do
		answered client tcp 10.0.0.10 "30${number}0" "$name" 10.0.0.10
		answered client udp 10.0.0.10 "30${number}1" "$name" 10.0.0.10
		answered client tcp fd00:10::10 "30${number}0" "$name" fd00:10::10
		answered client udp fd00:10::10 "30${number}1" "$name" fd00:10::10
		answered vm tcp "10.96.1.$number" 80 "$name" 10.244.1.11
		answered vm udp "10.96.1.$number" 53 "$name" 10.244.1.11
		answered vm tcp "fd00:10:96::1$number" 80 "$name" fd00:10:244:1::11
		answered vm udp "fd00:10:96::1$number" 53 "$name" fd00:10:244:1::11
	done <<-END
		web-macvlan 11
		web-macvlan 12
		web-a 13
		web-a 14
	END
	printf '%s: all is answered\n' "$1"
}

# vm: a pod behind pod1, in no cgroup that the agent serves: packets are translated.
lab_vm() {
	lab_namespace vm
	lab_pod vm pod1 11
}
trap 'ip netns delete "$LAB-vm" 2>/dev/null || true; lab_down' EXIT

lab_up by-uplink
lab_backends
macvlan_pod
lab_vm
rm "$LAB_MANIFESTS"/*.yaml
service macvlan 11 Cluster "$MACVLAN" "$MACVLAN6"
service macvlan-local 12 Local "$MACVLAN" "$MACVLAN6"
service stale 13 Cluster "$STALE" "$STALE6"
service stale-local 14 Local "$STALE" "$STALE6"

lab_agent --xdp off --pod-devices auto --cluster-cidr 10.244.0.0/16,fd00:10:244::/48
all_answered "tc"
[[ $(without) == *"client addresses not kept: default/macvlan-local and 1 more"* ]] || die "status says: $(without)"
grep -q "default/stale-local.*the route to backend 10.244.2.10 leaves by an uplink" "$LAB_DIR/agent.log" ||
	die "the log does not name a Service: $(cat "$LAB_DIR/agent.log")"
if grep -q "default/stale:.*leaves by an uplink" "$LAB_DIR/agent.log"; then die "the log names a Service that loses nothing"; fi

# The pod gets a device of this node: the client's address is kept. Then it goes to the other node again.
on_node route add "$STALE/32" dev pod0
lab_wait 10 is_at stale-local "$STALE" same-node || die "after the route changed: $(lab_sluice backends default/stale-local)"
lab_wait 10 is_at stale-local "$STALE6" same-node-by-uplink || die "the other family: $(lab_sluice backends default/stale-local)"
on_node route del "$STALE/32" dev pod0
lab_wait 10 is_at stale-local "$STALE" same-node-by-uplink || die "after the route went: $(lab_sluice backends default/stale-local)"
all_answered "tc, after a route changed there and back"
rm "$LAB_MANIFESTS"/*-local.yaml
all_kept() { [[ $(without) != *"client addresses"* ]]; }
lab_wait 10 all_kept || die "no Service has the policy Local, and status says: $(without)"
service macvlan-local 12 Local "$MACVLAN" "$MACVLAN6"
service stale-local 14 Local "$STALE" "$STALE6"
lab_stop "$LAB_AGENT"

lab_offload off
nsenter --net="/run/netns/$LAB-guest" ethtool -K eth0 tx off >/dev/null
lab_agent --xdp native --pod-devices auto --cluster-cidr 10.244.0.0/16,fd00:10:244::/48
all_answered "XDP"
(($(lab_sluice status -o json | jq ".outcomes.new_xdp") > 0)) ||
	die "XDP opened no flow: $(lab_sluice status)"
lab_stop "$LAB_AGENT"
lab_agent --xdp off --forwarding stack --pod-devices auto --cluster-cidr 10.244.0.0/16,fd00:10:244::/48
all_answered "forwarded by the stack"
