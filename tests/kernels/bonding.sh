#!/bin/bash
# A node whose uplink is a bond or a team of two devices: served on it, by tc and (a bond) by its slaves' XDP, before and after the first of
# the two has failed; connections go on.
set -euo pipefail
# shellcheck source=tests/kernels/lab.sh
source "$(dirname "${BASH_SOURCE[0]}")/lab.sh"

# lab_attach WHO: of the node, by two ports of the bridge.
lab_attach() {
	local below
	if [[ $1 != node ]]; then
		lab_port "$1" eth0
	else
		lab_port node below0 to-node
		lab_port node below1 to-node1
		"$KIND"_device
		for below in below0 below1; do
			ip -n "$LAB-node" link set "$below" down
			ip -n "$LAB-node" link set "$below" master eth0
			ip -n "$LAB-node" link set "$below" up
		done
		ip -n "$LAB-node" link set eth0 up
		[[ $KIND != team ]] || teaming activeport "$(link_of node below0 ifindex)"
	fi
	lab_address "$1"
}

bond_device() { ip -n "$LAB-node" link add eth0 type bond mode active-backup miimon 100; }
teaming() { nsenter --net="/run/netns/$LAB-node" teamnl eth0 setoption "$@"; }
team_device() {
	ip -n "$LAB-node" link add eth0 type team
	teaming mode activebackup
}

# first_fails: the other takes over. For a team that is teamd's work elsewhere.
first_fails() {
	ip -n "$LAB-net" link set to-node down
	if [[ $KIND == team ]]; then
		teaming activeport "$(link_of node below1 ifindex)"
		# What teamd does as well: the switch learns where the node is.
		lab_in node ping -c 1 -W 5 10.0.0.100 >/dev/null
	fi
}

# on KIND MODE HOOKS OUTCOME...: the outcomes are those of flows to backends elsewhere, which tc and XDP count apart.
on() {
	KIND=$1
	up bonding "$2"
	[[ $(lab_sluice status -o json | jq -r .packets) == "eth0 $3, "* ]] || die "packets: $(lab_sluice status -o json | jq -r .packets), not eth0 $3"
	lab_keep 1
	served "$KIND, XDP $2"
	first_fails
	served "$KIND, XDP $2, the first device has failed"
	lab_keep_ends
	counted new_from_pod socket_translated "${@:4}"
	lab_down
}

modules bonding team team_mode_activebackup
on bond off "$HOOKS" new_remote flow_redirect
on team off "$HOOKS" new_remote flow_redirect
[[ -z ${SLUICE_LONG:-} ]] || on bond native "$HOOKS+native" new_xdp flow_xdp
