#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Upgrade and downgrade by another binary (REL-41, SEM-78): an agent of an earlier commit (scripts/lib/older-agents) and the
# current one alternate under the flows of the disruption gate, stopped or killed, forward and back. Both have the same map
# layout: no flow breaks.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"
# shellcheck source=tests/net/lib/disruption.sh
source "$SLUICE_ROOT/tests/net/lib/disruption.sh"

SEED=$(seed 41) ROUNDS=${SLUICE_ROUNDS:-5}
OURS=$SLUICE LAYOUT=$(sed -n 's/^#define LB_LAYOUT //p' "$SLUICE_ROOT/maps/abi/abi.h")

# start BINARY WHEN: starts BINARY's agent; later commands use BINARY, too.
start() {
	SLUICE=$1
	lab_agent --xdp native --pod-devices pod >"$LAB_DIR/start" || { tail -n 20 "$LAB_DIR/start" && die "$2: does not start"; }
	[[ $(cd "$LAB_PINS" && echo v*) == "v$LAYOUT" ]] || die "$2: pinned is $(ls "$LAB_PINS")"
}

# end ROUND: ends the agent, alternately as a kubelet (SIGTERM) and as the kernel (SIGKILL) does.
end() {
	if (($1 % 2)); then
		lab_stop "$LAB_AGENT" TERM || die "round $1: the agent did not end well: $(tail -n 3 "$LAB_DIR/agent.log")"
	else
		lab_stop "$LAB_AGENT" KILL || true
	fi
}

# turns: alternates the agents while flows use every path.
turns() {
	local round
	for ((round = 1; round <= ROUNDS; round++)); do
		end "$round"
		go_on "upgrade $round, without an agent"
		start "$OURS" "upgrade $round"
		go_on "upgrade $round"
		end "$((round + 1))"
		go_on "downgrade $round, without an agent"
		start "$OLDER" "downgrade $round"
		go_on "downgrade $round"
	done
}

main() {
	local who code=0
	disruption_lab binaries
	start "$OLDER" "the older agent"
	talk
	go_on "before the first upgrade"
	OUTCOMES=$(outcomes)
	say "$(cat "$LAB_DIR"/talk-* | grep -c '^flow ') flows"
	turns
	for who in "${TALKERS[@]}"; do lab_stop "${TALKER[$who]}" || code=1; done
	((code == 0)) || wrong "broken flows"
	say "$ROUNDS upgrades and downgrades within layout $LAYOUT: no flow broken"
}

AGENTS=${OLDER_AGENTS:-$("$SLUICE_ROOT/scripts/lib/older-agents")}
OLDER=$AGENTS/sluice-same-layout
[[ -x $OLDER ]] || { say "there is no older agent" && exit 77; }
[[ $(<"$AGENTS/layout-same-layout") == "$LAYOUT" ]] || die "the older agent is of another layout: name a commit of layout $LAYOUT in scripts/lib/older-agents"
main
