#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A device that is moved to a pod and comes back (docs/threats.md): none of our programs runs on it in another network
# namespace, even if no agent ran when it was moved, and back on the node it is served again.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

# hooks WHO DEVICE: the number of our programs on the device.
hooks() { nsenter --net="/run/netns/$LAB-$1" bpftool -j net show dev "$2" | jq '[.. | objects | select(.name? // "" | startswith("lb_") or startswith("xdp")) ] | length'; }
has() { [[ $(hooks "$1" "$2") == "$3" ]]; }
# hand FROM TO: moves both devices from one namespace to another.
hand() {
	local device
	for device in podx eth1; do
		ip -n "$LAB-$1" link set "$device" netns "$LAB-$2"
		ip -n "$LAB-$2" link set "$device" up
	done
}

# free WHEN: checks that none of our programs runs on either device in the other namespace, which has none of our addresses.
free() {
	local device
	for device in podx eth1; do
		lab_wait 20 has net "$device" 0 || die "$1: on $device in another namespace $(hooks net "$device") programs run"
	done
}

# served WHEN: checks that both devices have their hooks and that requests succeed.
served() {
	lab_wait 20 has node podx "$POD_HOOKS" || die "$1: podx has $(hooks node podx) hooks instead of $POD_HOOKS"
	lab_wait 20 has node eth1 "$UPLINK_HOOKS" || die "$1: eth1 has $(hooks node eth1) hooks instead of $UPLINK_HOOKS"
	lab_ask client tcp 10.0.0.10 30080 --count 5 >/dev/null || die "$1: requests fail"
}

# tidy WHEN: checks that there are no pins of devices that no longer exist.
tidy() {
	local left
	left=$(find "$LAB_PINS"/v*/links -name '*_[0-9]*' | sed 's/.*_//' | sort -un | while read -r index; do
		prints "^$index:" ip -n "$LAB-node" -o link show || printf '%s ' "$index"
	done)
	[[ -z $left ]] || die "$1: pins of devices $left"
}

lab_up handed
lab_backends
ip -n "$LAB-node" link add podx type veth peer name farx
ip -n "$LAB-node" link set podx up
nsenter --net="/run/netns/$LAB-node" bash -c 'echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore'
lab_port node eth1 to-node1
LAB_DEVICES=eth0,eth1 lab_agent --pod-devices podx
POD_HOOKS=$(hooks node podx) UPLINK_HOOKS=$(hooks node eth1)
((POD_HOOKS >= 2 && UPLINK_HOOKS >= 2)) || die "podx has $POD_HOOKS hooks, and eth1 $UPLINK_HOOKS"
served "at first"
hand node net
free "handed over"
lab_wait 10 tidy "handed over" || tidy "handed over"
hand net node
served "back again"
printf 'handed over and back, before the eyes of an agent\n'

lab_stop "$LAB_AGENT" || true
hand node net
# The agent refuses to start with names of devices that do not exist.
lab_agent --pod-devices podx
free "handed over without an agent"
tidy "handed over without an agent"
hand net node
UPLINK_HOOKS=0
served "back again"
printf 'handed over without an agent\n'
