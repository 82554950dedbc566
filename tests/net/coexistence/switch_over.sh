#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# SEM-74, REL-84: from kube-proxy's rules to Sluice and back, by one command and without a lost connection. Connections
# opened under either, and new ones all the time; from a pod's sockets, from a guest that is served by packets only, from the
# node and from outside; both families; hundreds of them busy while they are handed over. The rules are those of kube-proxy's nftables mode, and the kernel's conntrack is the
# real one.
# --long: ten times there and back, and once more with native XDP on the uplink, which bypasses both conntrack and
# kube-proxy's rules.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"
# shellcheck source=scripts/lib/kube_proxy_rules.sh
source "$SLUICE_ROOT/scripts/lib/kube_proxy_rules.sh"
# shellcheck source=scripts/lib/switch_clients.sh
source "$SLUICE_ROOT/scripts/lib/switch_clients.sh"

ROUNDS=${SLUICE_LONG:+10}
ROUNDS=${ROUNDS:-1}
XDP_MODES=${SLUICE_LONG:+auto native}
XDP_MODES=${SLUICE_XDP:-${XDP_MODES:-auto}} # of the uplinks; auto leaves veth to tc

# begin ROUND WHEN: opens long connections of every kind, which must all be open at the end; those of the first round last
# through all rounds.
begin() {
	local who first=${#SWITCH_CLIENTS[@]}
	(($1 == 1)) || return 0
	shift
	for who in pod guest node; do
		switch_client "$who" keep tcp 10.96.0.80 80
		switch_client "$who" keep tcp fd00:10:96::80 80
		switch_client "$who" keep udp 10.96.0.10 53
		switch_client "$who" keep udp fd00:10:96::10 53
	done
	switch_client client keep tcp 10.0.0.10 30080
	switch_client client keep tcp fd00:10::10 30080
	switch_client client keep tcp 203.0.113.80 80
	switch_client client keep tcp 2001:db8:113::80 80
	switch_client client keep udp 10.96.0.10 53
	switch_client client keep udp fd00:10:96::10 53
	switch_open "$1" "$first"
}

begin_fresh() {
	local who
	for who in pod guest node client; do
		switch_client "$who" fresh tcp 10.96.0.80 80
		switch_client "$who" fresh tcp fd00:10:96::80 80
	done
	switch_client client fresh tcp 10.0.0.10 30080
	switch_client client fresh udp fd00:10:96::10 53
	switch_client pod fresh udp 10.96.0.10 53
}

agent() { lab_agent --pod-devices pod --xdp "$XDP"; }

# xdp_is_used: checks that XDP carries flows opened since the agent started.
xdp_is_used() {
	local packets
	packets=$(lab_sluice status -o json | jq .outcomes.flow_xdp)
	[[ $XDP != native ]] || ((packets > 0)) || die "XDP carries nothing: $(lab_sluice status)"
}

keepalive_tables() { lab_in node nft list tables | grep -c "sluice-nat-$LAB" || true; }

to_sluice() {
	begin "$1" "begun with kube-proxy"
	agent
	switch_passes 2 "round $1, Sluice beside kube-proxy"
	begin "$1" "begun beside kube-proxy"
	kube_proxy_goes
	switch_passes 8 "round $1, kube-proxy's rules gone"
	xdp_is_used
	(($(keepalive_tables) == 2)) || die "no table keeps conntrack translating"
	begin "$1" "begun with Sluice"
}

# busy_begins, busy_ends WHEN: many connections, which have packets under way all the time, so also while each is handed over.
BUSY=("client tcp 10.0.0.10 30080" "client tcp fd00:10::10 30080" "guest tcp 10.96.0.80 80")
busy_begins() {
	local each who rest
	BUSY_PIDS=()
	mkdir -p "$LAB_DIR/busy"
	for each in "${BUSY[@]}"; do
		read -r who rest <<<"$each"
		# shellcheck disable=SC2086  # protocol, address and port
		lab_start "$who" "busy-${#BUSY_PIDS[@]}" python3 "$SLUICE_ROOT/tests/net/lib/switch_over.py" busy $rest "$LAB_DIR/busy"
		BUSY_PIDS+=("$LAB_STARTED")
	done
	for each in "${!BUSY[@]}"; do
		lab_wait 60 grep -q '^open' "$LAB_DIR/busy-$each" || die "does not begin: ${BUSY[each]}: $(cat "$LAB_DIR/busy-$each")"
	done
}

busy_ends() {
	local each
	touch "$LAB_DIR/busy/stop"
	for each in "${!BUSY[@]}"; do
		wait "${BUSY_PIDS[each]}" || die "$1: ${BUSY[each]}: $(cat "$LAB_DIR/busy-$each")"
	done
	rm -r "$LAB_DIR/busy" "$LAB_DIR"/busy-*
}

to_kube_proxy() {
	busy_begins
	kube_proxy_comes
	lab_stop "$LAB_AGENT" || die "the agent ended badly: $(cat "$LAB_DIR/agent.log")"
	lab_sluice drain --deadline 20 | tee "$LAB_DIR/drain" || die "round $1: not drained"
	busy_ends "round $1, drained"
	grep -q '^removed the hooks' "$LAB_DIR/drain" || die "round $1: the hooks are left"
	[[ ! -e $LAB_PINS ]] || die "round $1: pins are left"
	switch_passes 8 "round $1, drained"
}

# refused_drains: a drain without kube-proxy is refused; a running agent keeps its hooks, which take no flows, until the drain
# is cancelled.
refused_drains() {
	local said
	kube_proxy_goes
	agent
	said=$(lab_sluice drain 2>&1) && die "drained without a successor: $said"
	grep -q "no rules of kube-proxy" <<<"$said" || die "drain does not say why: $said"
	kube_proxy_comes
	lab_sluice drain --deadline 5 | tee "$LAB_DIR/drain"
	grep -q 'the hooks stay while an agent runs' "$LAB_DIR/drain" || die "beside an agent: $(cat "$LAB_DIR/drain")"
	lab_ask client tcp 203.0.113.80 80 --count 5 || die "no answer while drained"
	[[ $(lab_sluice flows -o json --limit 0 | jq .all) == 0 ]] || die "a flow was opened while drained: $(lab_sluice flows)"
	prints '^Draining since .*, for [0-9]* s more; 0 flows are left' lab_sluice status || die "status does not say that the node is drained: $(lab_sluice status)"
	lab_sluice drain --cancel
	lacks '^Draining' lab_sluice status || die "status says drained after --cancel"
	lab_ask client tcp 203.0.113.80 80 --count 5
	[[ $(lab_sluice flows -o json --limit 0 | jq .all) != 0 ]] || die "no flow is opened after --cancel"
}

# once MODE: all rounds with that mode of XDP.
once() {
	local round
	XDP=$1
	printf -- '--xdp %s\n' "$XDP"
	kube_proxy_comes
	begin_fresh
	for ((round = 1; round <= ROUNDS; round++)); do
		to_sluice "$round"
		to_kube_proxy "$round"
	done
	switch_ends
	refused_drains
	lab_stop "$LAB_AGENT" || die "the agent ended badly: $(tail -n 5 "$LAB_DIR/agent.log")"
	lab_sluice cleanup >/dev/null
	kube_proxy_goes
}

lab_up switch
lab_offload off
lab_guest
lab_backends
for mode in $XDP_MODES; do once "$mode"; done
