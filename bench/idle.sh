#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Measures how often an idle agent wakes up: voluntary context switches of all its threads per second, in three rounds of ten
# seconds. Exit code 3: more than two per second.
# usage: bench/idle.sh [SECONDS]   the length of a round
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib/scenario.sh"
# shellcheck source=bench/rows.sh
source "$SLUICE_ROOT/bench/rows.sh"

SPAN=${1:-10} TURNS=3 MOST=2 MISSED=3

# switches: the agent's voluntary context switches since its start.
switches() { awk '/^voluntary_ctxt_switches/ { sum += $2 } END { print sum }' /proc/"$LAB_AGENT"/task/*/status; }

# round: prints the wake-ups per second of one round.
round() {
	local before
	before=$(switches)
	sleep "$SPAN"
	awk -v count="$(($(switches) - before))" -v span="$SPAN" 'BEGIN { printf "%.2f\n", count / span }'
}

lab_up idle
lab_agent --xdp off
sleep 5 # until work that follows a start is done
services=$(lab_in node curl -sS -m 5 http://127.0.0.1:10249/metrics | sed -n 's/^sluice_services //p')
for ((turn = 0; turn < TURNS; turn++)); do round; done >"$LAB_DIR/rounds"
keep idle "wake-ups of an idle agent, $services services from a directory" '1/s' <"$LAB_DIR/rounds"
printf '| services from a directory | seconds | wake-ups a second: median (least–most) | at most |\n|---|---|---|---|\n'
printf '| %s | %d × %d | %s | %d |\n' "$services" "$TURNS" "$SPAN" "$(cell 2 <"$LAB_DIR/rounds")" "$MOST"
awk -v most="$MOST" '{ sum += $1 } END { exit !(sum <= NR * most) }' "$LAB_DIR/rounds" || exit "$MISSED"
