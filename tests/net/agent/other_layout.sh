#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# REL-41, SEM-78: the pins of a Sluice with another map layout are taken over: each hook is updated in place, socket calls
# never fail, connections of the other layout's flow tables are found again by their hash, and nothing of that layout stays.
# Connections that wait for a reply at that moment are not found: a reply without a flow cannot be assigned to a connection.
# The other layout is the current one under another number; in the long form also a real one, there and back: that of an
# earlier commit's agent (scripts/lib/older-agents), whose maps, pins and programs have other names.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

OURS=$(sed -n 's/^#define LB_LAYOUT //p' "$SLUICE_ROOT/maps/abi/abi.h")

# hooks: the pins of our programs, with the kernel's ids of their links, which an update in place keeps.
hooks() {
	find "$LAB_PINS" -path '*/links/*' -type f | sort | while read -r pin; do
		printf '%s %s\n' "${pin##*/}" "$(bpftool -j link show pinned "$pin" | jq .id)"
	done
}
# running: how many of our programs a socket call or a packet passes.
running() {
	bpftool -j cgroup show "$LAB_CGROUP" | jq length
	lab_in node bpftool -j net show | jq '.[0] | (.tc | length) + (.xdp | length)'
}
secret() { bpftool -j map dump pinned "$LAB_PINS/v$1/maps/lb_node" | jq -c '.[0].formatted.value.secret'; }
# lost LAYOUT: the time until which flows of lost tables are looked for (REL-89); 0: none are lost.
lost() { bpftool -j map dump pinned "$LAB_PINS/v$1/maps/lb_node" | jq '.[0].formatted.value.lost_until'; }

# replace FROM TO [COMMAND...]: kills the agent, runs COMMAND on its pins, and starts an agent that finds layout FROM and has
# layout TO.
replace() {
	local before
	before=$(secret "$(cd "$LAB_PINS" && echo v* | tr -d v)")
	touch "$LAB_DIR/pause"
	sleep 0.5 # for what was under way
	lab_stop "$LAB_AGENT" KILL || true
	"${@:3}"
	lab_agent --xdp native
	rm "$LAB_DIR/pause"
	[[ ! -e $LAB_PINS/v$1 ]] || die "layout $1 is still pinned: $(find "$LAB_PINS/v$1" | sed -n 1,10p)"
	grep -q "took over .* hooks of map layout $1;" "$LAB_DIR/agent.log" || die "the log does not say what was taken over"
	[[ $(secret "$2") == "$before" ]] || die "the secret changed from $before to $(secret "$2")"
}

# upgrade FROM: renames our agent's pins to layout FROM, and starts our agent on them.
upgrade() {
	replace "$1" "$OURS" mv "$LAB_PINS/v$OURS" "$LAB_PINS/v$1"
	(($(lost "$OURS") > 0)) || die "flows of layout $1 are not looked for"
	[[ $(hooks) == "$HOOKS" ]] || die "hooks were '$HOOKS' and are '$(hooks)'"
	[[ $(running) == "$RUNNING" ]] || die "$RUNNING programs ran, now $(running)"
}

# there_and_back LAYOUT: a real agent of that layout takes over from ours, and ours takes over again: all links are the same.
there_and_back() {
	local ours=$SLUICE links
	links=$(hooks)
	SLUICE=$OLDER
	replace "$OURS" "$1" true
	SLUICE=$ours
	replace "$1" "$OURS" true
	[[ $(hooks) == "$links" ]] || die "hooks were '$links' and are '$(hooks)'"
	[[ $(running) == "$RUNNING" ]] || die "$RUNNING programs ran, now $(running)"
}

lab_up layout
lab_offload off
lab_backends
lab_agent --xdp native
[[ $(lost "$OURS") == 0 ]] || die "a start on new maps looks for flows that were lost"
HOOKS=$(hooks) RUNNING=$(running)
lab_keep
lab_traffic pod 10.96.0.80 80
sleep 1
upgrade $((OURS - 1))
sleep 1
upgrade $((OURS + 7))
sleep 1
if [[ -n ${SLUICE_LONG:-} ]]; then
	AGENTS=${OLDER_AGENTS:-$("$SLUICE_ROOT/scripts/lib/older-agents")}
	OLDER=$AGENTS/sluice-other-layout
	[[ -x $OLDER ]] || die "there is no agent of another layout"
	there_and_back "$(<"$AGENTS/layout-other-layout")"
	there_and_back "$(<"$AGENTS/layout-other-layout")"
	printf 'REL-41: an agent of layout %s took over and was taken over, twice\n' "$(<"$AGENTS/layout-other-layout")"
fi
lab_keep_ends
printf 'REL-41: %d hooks taken over twice\n' "$(wc -l <<<"$HOOKS")"
lab_traffic_ends
