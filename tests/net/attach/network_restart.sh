#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The node's network is restarted: addresses and default routes go, and come back seconds later. A found uplink keeps its hooks
# meanwhile, and open connections go on; without addresses for longer it loses them. REL-149.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

on_node() { ip -n "$LAB-node" "$@"; }
hooks() { lab_in node bpftool -j net show dev eth0 | jq '[.. | objects | select(.name? // "" | startswith("lb_tc_"))] | length'; }
are() { (($(hooks) == $1)); }

network_goes() {
	local family
	for family in -4 -6; do
		on_node "$family" route show | sed -n '/^default\| via /p' >"$LAB_DIR/routes$family"
		while read -r -a words; do on_node "$family" route del "${words[@]}"; done <"$LAB_DIR/routes$family"
	done
	on_node address del 10.0.0.10/24 dev eth0
	on_node address del fd00:10::10/64 dev eth0
}
network_comes() {
	local family
	lab_address node
	for family in -4 -6; do
		while read -r -a words; do on_node "$family" route add "${words[@]}"; done <"$LAB_DIR/routes$family"
	done
	on_node neighbour replace 10.0.0.1 lladdr 02:00:00:00:00:99 dev eth0 nud permanent
	on_node neighbour replace fd00:10::1 lladdr 02:00:00:00:00:99 dev eth0 nud permanent
}
# stay WHEN: checks for two seconds that eth0 has its hooks.
stay() {
	local i
	for ((i = 0; i < 10; i++)); do
		are 2 || die "$1: eth0 has $(hooks) hooks: $(tail -n 5 "$LAB_DIR/agent.log")"
		sleep 0.2
	done
	printf '%s: eth0 has its hooks\n' "$1"
}

lab_up network-restart
lab_backends
LAB_DEVICES=auto lab_agent --xdp off --pod-devices auto
stay "at first"
lab_keep 4
sleep 1
for round in 1 2; do
	network_goes
	stay "the network went, $round"
	network_comes
	stay "it is back, $round"
done
lab_keep_ends
lab_ask client tcp 10.0.0.10 30080 --count 8 >/dev/null || die "no answers after the restarts"

network_goes
stay "it goes for good"
lab_wait 30 are 0 || die "without addresses and routes eth0 keeps $(hooks) hooks"
printf 'after a while it has none\n'
