#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A node whose uplink is a bond or a team of two devices is served before and after the first device fails, and connections
# continue. This includes native XDP, which the kernel runs on the bond's ports and which sends by the port that the bond
# chooses, and generic XDP on a team. teamd runs the team, in the modes that send by one port and by all ports by turns.
set -euo pipefail
# shellcheck source=tests/kernels/lab.sh
source "$(dirname "${BASH_SOURCE[0]}")/lab.sh"

# lab_attach WHO: connects WHO to the bridge; the node by two ports.
lab_attach() {
	if [[ $1 != node ]]; then
		lab_port "$1" eth0
	else
		lab_port node below0 to-node
		lab_port node below1 to-node1
		"${KIND%% *}"_device
		ip -n "$LAB-node" link set eth0 up
	fi
	lab_address "$1"
}

bond_device() {
	local below
	ip -n "$LAB-node" link add eth0 type bond mode "${KIND#bond }" miimon 100
	for below in below0 below1; do
		ip -n "$LAB-node" link set "$below" down
		ip -n "$LAB-node" link set "$below" master eth0
		ip -n "$LAB-node" link set "$below" up
	done
}

# team_device: makes the team by teamd, because the kernel alone gives the ports no common address, so that none of them would
# receive frames for the team.
team_device() {
	ip -n "$LAB-node" link set below0 down
	ip -n "$LAB-node" link set below1 down
	lab_start node teamd.log teamd -t eth0 -c "{\"runner\": {\"name\": \"${KIND#team }\"}, \"link_watch\": {\"name\": \"ethtool\"},
		\"ports\": {\"below0\": {\"prio\": 1}, \"below1\": {}}}"
	lab_wait 20 sends_by below0 || die "teamd: $(<"$LAB_DIR/teamd.log")"
}

# sends_by PORT: whether the team sends by the port. A team that sends by all ports by turns skips those whose link is down.
sends_by() {
	[[ $(teamed ports) == *": $1: up"* ]] || return 1
	[[ $KIND != *activebackup || $(teamed getoption activeport) == "$(link_of node "$1" ifindex)" ]]
}

does_not_send_by() { ! sends_by "$1"; }

teamed() { lab_in node teamnl eth0 "$@"; }

# first_port_fails: sets the link of the first port down, and waits until the other port takes over.
first_port_fails() {
	ip -n "$LAB-net" link set to-node down
	[[ $KIND == team* ]] || return 0
	lab_wait 20 does_not_send_by below0 || die "the team still sends by its first port: $(<"$LAB_DIR/teamd.log")"
	lab_wait 20 sends_by below1 || die "the team does not send by its other port: $(<"$LAB_DIR/teamd.log")"
}

# xdp_serves WHEN COMMAND...: runs COMMAND; checks that native XDP handles packets of known flows meanwhile, and that no
# packets are lost.
xdp_serves() {
	local before
	before=$(outcome flow_xdp)
	"${@:2}"
	[[ $MODE != native ]] || (($(outcome flow_xdp) > before)) || die "$1: XDP handled no packets: $(lab_sluice status -o json | jq -c .outcomes)"
	[[ $(lab_sluice status -o json | jq -r .packets) != *lost* ]] || die "$1: $(lab_sluice status -o json | jq -r .packets)"
}

# on KIND MODE HOOKS OUTCOME...: runs all checks with that kind of device; the outcomes are those of flows to remote backends,
# which tc and XDP count separately.
on() {
	KIND=$1 MODE=$2
	up bonding "$2"
	[[ $(lab_sluice status -o json | jq -r .packets) == "eth0 $3, "* ]] || die "packets: $(lab_sluice status -o json | jq -r .packets), not eth0 $3"
	lab_keep 1
	xdp_serves "$KIND" served "$KIND, XDP $2"
	first_port_fails
	xdp_serves "$KIND, the first device has failed" served "$KIND, XDP $2, the first device has failed"
	lab_keep_ends
	counted new_from_pod socket_translated "${@:4}"
	lab_down
}

modules bonding team team_mode_activebackup team_mode_roundrobin
# Frames from a veth may lack their checksum, also if it is a bond's port: --xdp auto leaves them to tc.
on "bond active-backup" auto "$HOOKS" new_remote flow_redirect
on "team activebackup" auto "$HOOKS" new_remote flow_redirect
on "bond active-backup" native "$HOOKS+native" new_xdp flow_xdp
if [[ -n ${SLUICE_LONG:-} ]]; then
	on "team roundrobin" off "$HOOKS" new_remote flow_redirect
	on "team activebackup" generic "$HOOKS+generic" new_xdp flow_xdp
	on "bond balance-rr" native "$HOOKS+native" new_xdp flow_xdp
fi
