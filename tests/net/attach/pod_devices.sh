#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# 500 pods' devices are added and removed while an agent runs, which learns of them by rtnetlink: selected by a prefix, and
# fewer of them by their bridge. New devices get hooks and are served, by packets only, and nothing of removed devices stays.
# With SLUICE_WITHOUT=tcx the same for clsact.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

COUNT=500 ON_BRIDGE=60
EACH=25 # one device in so many is asked through
WEB=10.96.0.80 WEB6=fd00:10:96::80

# ---- Devices: podxN on the node, its other end farN with all others in one namespace. ----

# macs NUMBER: sets the MAC addresses of both ends.
macs() {
	printf -v HOST_MAC '02:00:01:%02x:%02x:01' $(($1 >> 8)) $(($1 & 255))
	printf -v OWN_MAC '02:00:01:%02x:%02x:02' $(($1 >> 8)) $(($1 & 255))
}

is_asked() { (($1 % EACH == 0)); }

# node_lines NUMBER: ip's batch lines for a device. A device used for requests has its own addresses, and routes both ways;
# GATE is the device of the node's routes to them.
node_lines() { # NUMBER
	local gate=${GATE:-podx$1} last=$((20 + $1 / EACH))
	macs "$1"
	printf '%s\n' "link add podx$1 address $HOST_MAC group $((1 + ($1 > COUNT / 2))) type veth peer name far$1 address $OWN_MAC netns $LAB-guest" \
		${GATE:+"link set podx$1 master $GATE"} "link set podx$1 up"
	is_asked "$1" || return 0
	printf '%s\n' "route replace 10.244.1.$last/32 dev $gate" "route replace fd00:10:244:1::$last/128 dev $gate" \
		"neighbour replace 10.244.1.$last lladdr $OWN_MAC dev $gate nud permanent" \
		"neighbour replace fd00:10:244:1::$last lladdr $OWN_MAC dev $gate nud permanent"
}

guest_lines() { # NUMBER
	local last=$((20 + $1 / EACH)) way="dev far$1 onlink metric $1"
	macs "$1"
	printf '%s\n' "link set far$1 up"
	is_asked "$1" || return 0
	printf '%s\n' "address add 10.244.1.$last/32 dev far$1" "address add fd00:10:244:1::$last/128 dev far$1 nodad" \
		"neighbour add 169.254.1.1 lladdr ${GATE_MAC:-$HOST_MAC} dev far$1 nud permanent" \
		"neighbour add fe80::1 lladdr ${GATE_MAC:-$HOST_MAC} dev far$1 nud permanent" \
		"route add default via 169.254.1.1 $way" "route add default via fe80::1 $way"
}

# batch WHO FUNCTION FIRST LAST: runs the lines that FUNCTION prints for each number as one batch.
batch() {
	local number
	for ((number = $3; number <= $4; number++)); do "$2" "$number"; done | ip -n "$LAB-$1" -batch -
}

come() { batch node node_lines "$@" && batch guest guest_lines "$@"; }
gone_lines() { printf 'link delete podx%d\n' "$1"; }
go() { batch node gone_lines "$@"; }

# go_at_once HALF: removes all devices of the first or the second half.
go_at_once() { ip -n "$LAB-node" link delete group "$1"; }

# ---- What is seen of them. ----

# hooks: the number of programs at pods' devices, in the kernel.
hooks() { lab_in node bpftool net show | grep -c ' lb_pod_' || true; }
are_hooked() { (($(hooks) == 2 * $1)); }
packets() { lab_sluice status -o json | jq -r .packets; }
says() { [[ $(packets), == *", $1 pods $BY,"* ]]; }
says_none() { [[ $(packets) != *" pod"* ]]; }
from_pods() { lab_sluice status -o json | jq '.outcomes.new_from_pod'; }

# settled WHEN COUNT: waits until COUNT devices are served, according to the kernel and to the agent.
settled() {
	lab_wait 20 are_hooked "$2" || { tail -n 5 "$LAB_DIR/agent.log" && die "$1: $(hooks) hooks for $2 devices"; }
	if (($2 > 0)); then
		lab_wait 10 says "$2" || die "$1: status does not say $2 pods: $(packets)"
	else
		lab_wait 10 says_none || die "$1: status still says: $(packets)"
	fi
	printf '%s: %d hooks; %s\n' "$1" "$(hooks)" "$(packets)"
}

# asked WHEN LAST: makes requests through every device that has routes; each request is counted as from a pod.
asked() {
	local number address asked=0 before
	before=$(from_pods)
	for ((number = EACH; number <= $2; number += EACH)); do
		for address in "$WEB" "[$WEB6]"; do
			lab_in guest curl -fsS -m 5 --interface "if!far$number" "http://$address/" >>"$LAB_DIR/asked" 2>&1 ||
				{ tail -n 3 "$LAB_DIR/asked" && die "$1: no answer at $address through podx$number"; }
			asked=$((asked + 1))
		done
	done
	((asked > 0 && $(from_pods) - before == asked)) || die "$1: $asked requests, $(($(from_pods) - before)) of them from pods"
	printf '%s: %d requests answered\n' "$1" "$asked"
}

by_prefix() {
	local round
	lab_agent --xdp off --pod-devices podx
	settled "none yet" 0
	come 1 "$COUNT"
	settled "$COUNT came" "$COUNT"
	asked "$COUNT came" "$COUNT"
	for round in 1 2 3; do
		go_at_once 1
		come 1 $((COUNT / 2))
	done
	go 1 10 && go $((COUNT - 9)) "$COUNT"
	come 1 10
	settled "half of them went and came again, $round times" $((COUNT - 10))
	asked "of the same names" $((COUNT - 10))
	lab_stop "$LAB_AGENT" KILL || true
	go_at_once 1
	lab_agent --xdp off --pod-devices podx
	settled "what went while no agent ran" $((COUNT / 2 - 10))
	go_at_once 2
	settled "all went" 0
	lab_stop "$LAB_AGENT"
}

by_bridge() {
	GATE=cni0
	ip -n "$LAB-node" link add cni0 type bridge
	ip -n "$LAB-node" link set cni0 up
	GATE_MAC=$(ip -n "$LAB-node" -j link show dev cni0 | jq -r '.[0].address')
	# Otherwise the bridge's address would be that of its first port.
	ip -n "$LAB-node" link set cni0 address "$GATE_MAC"
	lab_agent --xdp off --pod-bridge cni0
	settled "an empty bridge" 0
	come 1 "$ON_BRIDGE"
	settled "$ON_BRIDGE came on the bridge" "$ON_BRIDGE"
	asked "by the bridge" "$ON_BRIDGE"
	ip -n "$LAB-node" link set podx1 nomaster
	settled "one left the bridge and stayed" $((ON_BRIDGE - 1))
	ip -n "$LAB-node" link set podx1 master cni0
	settled "and came back" "$ON_BRIDGE"
	go 2 10 && come 2 10
	settled "others of the same names" "$ON_BRIDGE"
	asked "of the same names on the bridge" "$ON_BRIDGE"
	go_at_once 1
	settled "all went from the bridge" 0
}

GATE='' GATE_MAC='' HOST_MAC='' OWN_MAC=''
BY=tcx
[[ ,${SLUICE_WITHOUT:-}, != *,tcx,* ]] || BY=clsact
lab_up pod-devices
lab_namespace guest
lab_backends
by_prefix
by_bridge
