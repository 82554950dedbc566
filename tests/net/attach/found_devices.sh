#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Detected devices: --devices auto and --pod-devices auto follow routes, addresses and devices as they change, and status
# says why a device counts as an uplink. SEM-32, SEM-34.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

uplinks() { lab_sluice status -o json | jq -r .uplinks; }
uplinks_are() { [[ $(uplinks) == "$1" ]]; }
without() { lab_sluice status -o json | jq -r .without; }
pods() { lab_in node bpftool net show | grep -c ' lb_pod_' || true; }
# pods_are COUNT: each pod device has two programs.
pods_are() { (($(pods) == 2 * $1)); }

# served WHEN UPLINKS PODS: waits until these uplinks and this number of pod devices are served.
served() {
	lab_wait 15 uplinks_are "$2" || { tail -n 5 "$LAB_DIR/agent.log" && die "$1: uplinks are '$(uplinks)', not '$2'"; }
	lab_wait 15 pods_are "$3" || die "$1: $(pods) programs at pods' devices, not two for each of $3"
	printf '%s: %s; %d pods\n' "$1" "$2" "$3"
}

# outside: checks that a client's connection to a node port is served at the uplink.
outside() { lab_ask client tcp 10.0.0.10 30080 >/dev/null || die "$1: no answer at the node port"; }

on_node() { ip -n "$LAB-node" "$@"; }

auto() {
	local -r eth0="eth0 (Node's address, default routes)"
	LAB_DEVICES=auto
	lab_agent --xdp off --pod-devices auto
	served "at the start" "$eth0" 1
	outside "at the start"

	on_node link add wan0 type veth peer name wan1 netns "$LAB-client"
	on_node link set wan0 up
	served "a veth that nothing leads to" "$eth0" 1
	on_node address add 192.0.2.1/24 dev wan0
	on_node route add default via 192.0.2.2 dev wan0 onlink metric 500
	served "a second default route" "$eth0, wan0 (IPv4 default route)" 1
	on_node address del 192.0.2.1/24 dev wan0
	on_node route del default dev wan0 2>/dev/null || true
	served "which went" "$eth0" 1

	on_node link add vx0 type vxlan id 7 dstport 4789 local 10.0.0.10
	served "a tunnel that is down" "$eth0" 1
	on_node link set vx0 up
	served "a tunnel" "$eth0, vx0 (vxlan tunnel)" 1
	on_node link del vx0
	served "which went" "$eth0" 1

	lab_guest
	served "a second pod" "$eth0" 2
	on_node link del pod1
	served "which went" "$eth0" 1
	outside "at the end"
	lab_stop "$LAB_AGENT"
}

# beside: `auto` together with a named device and an excluded one.
beside() {
	LAB_DEVICES='auto,wan0,!eth0'
	lab_agent --xdp off --pod-devices 'auto'
	served "a name beside, and one left out" "wan0 (named)" 1
	lab_stop "$LAB_AGENT"
}

# none: without any uplink, sockets are served, and status reports the lack of uplinks.
none() {
	LAB_DEVICES='auto,!eth0'
	on_node link del wan0
	lab_agent --xdp off
	served "nothing is found" "" 0
	[[ $(without) == *'--devices auto finds none'* ]] || die "status does not say that there is no uplink: $(without)"
	lab_stop "$LAB_AGENT"
}

lab_up found-devices
lab_backends
auto
beside
none
