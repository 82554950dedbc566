#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# REL-97: programs without an agent. The agent is killed; its programs carry on the existing flows, and after
# --orphaned-after they leave new ones to kube-proxy's rules, without any process of ours. A new agent takes new flows again.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"
# shellcheck source=scripts/lib/kube_proxy_rules.sh
source "$SLUICE_ROOT/scripts/lib/kube_proxy_rules.sh"
# shellcheck source=scripts/lib/switch_clients.sh
source "$SLUICE_ROOT/scripts/lib/switch_clients.sh"

# opened: the number of flows that the programs have opened so far, by packets and by sockets.
opened() {
	lab_sluice status -o json |
		jq '.outcomes | [to_entries[] | select(.key | test("^(new_|socket_translated)")) | .value] | add'
}

# asks: makes requests by XDP or tc, and by a pod's socket.
asks() {
	lab_ask client tcp 10.0.0.10 30080 --count 5 >/dev/null
	lab_ask client tcp 2001:db8:113::80 80 --count 5 >/dev/null
	lab_ask pod tcp 10.96.0.80 80 --count 5 >/dev/null
}

# absent: the metric that node_exporter gets.
absent() {
	lab_sluice alive --textfile "$LAB_DIR/sluice.prom" || die "cannot write the textfile"
	sed -n "s|^sluice_agent_absent{pins=\"$LAB_PINS\"} ||p" "$LAB_DIR/sluice.prom"
}

lab_up orphaned
lab_offload off
lab_backends
kube_proxy_comes
lab_agent --pod-devices pod --orphaned-after 4s
[[ $(absent) == 0 ]] || die "an agent runs: $(<"$LAB_DIR/sluice.prom")"
before=$(opened)
asks
(($(opened) >= before + 15)) || die "the agent runs, and its programs open no flows: $(opened) after $before"
switch_client client keep tcp 10.0.0.10 30080
switch_client pod keep tcp fd00:10:96::80 80
switch_open "with an agent" 0

lab_stop "$LAB_AGENT" KILL || true
[[ $(absent) == 1 ]] || die "no agent runs: $(<"$LAB_DIR/sluice.prom")"
before=$(opened)
asks
(($(opened) >= before + 15)) || die "the agent has just ended, and its programs open no flows"
sleep 7
before=$(opened)
asks
[[ $(opened) == "$before" ]] || die "programs without an agent open flows: $(opened) after $before"
switch_passes 1 "without an agent"

# The next agent reports how long there was none: the modification time of the pins' directory is the last heartbeat.
! grep -q 'no agent ran here' "$LAB_DIR/agent.log" || die "the first agent misses another"
touch -d '10 minutes ago' "$LAB_PINS"/v*
lab_agent --pod-devices pod --orphaned-after 4s
grep -o 'no agent ran here for 60. s' "$LAB_DIR/agent.log" || die "an agent that starts does not say that there was none: $(tail -n 5 "$LAB_DIR/agent.log")"
asks
(($(opened) >= before + 15)) || die "an agent runs again, and its programs open no flows"
switch_passes 1 "with an agent again"
[[ $(absent) == 0 ]] || die "an agent runs again: $(<"$LAB_DIR/sluice.prom")"
switch_ends
