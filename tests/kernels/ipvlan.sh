#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# With pods behind ipvlan devices of the node's uplink, as cloud CNIs create them, pods' sockets, the node's own processes and
# node ports are served. (Packets that a pod sends without our socket hooks pass no device on the node that belongs to the pod,
# and are not served.)
set -euo pipefail
# shellcheck source=tests/kernels/lab.sh
source "$(dirname "${BASH_SOURCE[0]}")/lab.sh"

# lab_pod WHO DEVICE NUMBER: connects a pod to the node's uplink; the node reaches it by its own ipvlan device.
lab_pod() {
	local worker
	ip -n "$LAB-node" link add link eth0 name "$2" type ipvlan mode "$MODE"
	ip -n "$LAB-node" link set "$2" netns "$LAB-$1" name eth0
	ip -n "$LAB-$1" link set eth0 up
	ip -n "$LAB-$1" address add "10.244.1.$3/24" dev eth0
	ip -n "$LAB-$1" address add "fd00:10:244:1::$3/64" dev eth0 nodad
	ip -n "$LAB-$1" route add 10.0.0.0/24 dev eth0
	ip -n "$LAB-$1" route add fd00:10::/64 dev eth0
	for worker in "${LAB_WORKERS[@]}"; do
		ip -n "$LAB-$1" route add "10.244.$(lab_pod_network "$worker").0/24" via "10.0.0.$(lab_number "$worker")" dev eth0 onlink
		ip -n "$LAB-$1" route add "fd00:10:244:$(lab_pod_network "$worker")::/64" via "fd00:10::$(lab_number "$worker")" dev eth0 onlink
	done
	# connect() needs some route to the service addresses.
	ip -n "$LAB-$1" route add default dev eth0
	ip -n "$LAB-$1" -6 route add default dev eth0
	ip -n "$LAB-node" link add link eth0 name own type ipvlan mode "$MODE"
	ip -n "$LAB-node" link set own up
	permanent_neighbours "$3"
	ip -n "$LAB-node" route add "10.244.1.$3/32" dev own src 10.0.0.10
	ip -n "$LAB-node" route add "fd00:10:244:1::$3/128" dev own src fd00:10::10
}

# permanent_neighbours NUMBER: adds permanent neighbour entries. The reply to a solicitation by the node's ipvlan device would
# arrive at eth0, to whose address it is sent, and the pod's solicitation of that address reaches an ipvlan device that does
# not have it.
permanent_neighbours() {
	local mac
	[[ $MODE == l2 ]] || return 0
	mac=$(link_of node eth0 address)
	ip -n "$LAB-node" neighbour add "10.244.1.$1" lladdr "$mac" dev own nud permanent
	ip -n "$LAB-node" neighbour add "fd00:10:244:1::$1" lladdr "$mac" dev own nud permanent
	ip -n "$LAB-pod" neighbour add fd00:10::10 lladdr "$mac" dev eth0 nud permanent
}

# on MODE: runs all checks in that mode.
on() {
	MODE=$1
	lab_up ipvlan
	BULK_SERVERS=()
	lab_backends
	lab_agent --xdp off
	bulk_service TCP UDP
	answered client tcp "$NODE" "$NODE_PORT" tcp "$NODE6" "$NODE_PORT" tcp "$WEB_OUTSIDE" 80 tcp "$WEB_OUTSIDE6" 80
	answered pod tcp "$WEB" 80 tcp "$WEB6" 80 udp "$DNS" 53 udp "$DNS6" 53
	answered node tcp "$WEB" 80 tcp "$WEB6" 80 udp "$DNS" 53
	bulk_both client TCP
	bulk_both client UDP
	bulk_both pod TCP
	counted new_remote new_local flow_redirect socket_translated
	printf 'ipvlan %s: served\n' "$MODE"
	lab_down
}

modules ipvlan
on l2
[[ -z ${SLUICE_LONG:-} ]] || on l3
