#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Pods behind netkit devices (Linux 6.7), with Ethernet headers and without (netkit's modes l2 and l3), are served at the
# host's ends like those behind veth devices.
set -euo pipefail
# shellcheck source=tests/kernels/lab.sh
source "$(dirname "${BASH_SOURCE[0]}")/lab.sh"

# lab_pod WHO DEVICE NUMBER: connects a pod by a netkit device.
lab_pod() {
	local host own
	lab_in node python3 "$SLUICE_ROOT/tests/kernels/netkit.py" "$2" "peer$3" "$MODE"
	ip -n "$LAB-node" link set "peer$3" netns "$LAB-$1" name eth0
	ip -n "$LAB-node" link set "$2" up
	ip -n "$LAB-$1" link set eth0 up
	ip -n "$LAB-$1" address add "10.244.1.$3/32" dev eth0
	ip -n "$LAB-$1" address add "fd00:10:244:1::$3/128" dev eth0 nodad
	if [[ $MODE == l2 ]]; then
		host=$(link_of node "$2" address) own=$(link_of "$1" eth0 address)
		ip -n "$LAB-$1" neighbour add 169.254.1.1 lladdr "$host" dev eth0 nud permanent
		ip -n "$LAB-$1" neighbour add fe80::1 lladdr "$host" dev eth0 nud permanent
		ip -n "$LAB-$1" route add default via 169.254.1.1 dev eth0 onlink
		ip -n "$LAB-$1" route add default via fe80::1 dev eth0 onlink
		ip -n "$LAB-node" neighbour add "10.244.1.$3" lladdr "$own" dev "$2" nud permanent
		ip -n "$LAB-node" neighbour add "fd00:10:244:1::$3" lladdr "$own" dev "$2" nud permanent
	else
		ip -n "$LAB-$1" route add default dev eth0
		ip -n "$LAB-$1" -6 route add default dev eth0
	fi
	ip -n "$LAB-node" route add "10.244.1.$3/32" dev "$2"
	ip -n "$LAB-node" route add "fd00:10:244:1::$3/128" dev "$2"
}

# on MODE: runs all checks in that mode.
on() {
	MODE=$1
	up netkit off
	bulk_service TCP UDP
	served "netkit $MODE"
	bulk_both client TCP
	bulk_both guest TCP
	bulk_both guest UDP
	bulk_both pod UDP
	counted new_remote new_local new_from_pod flow_redirect socket_translated
	lab_down
}

modules netkit
on l3
on l2
