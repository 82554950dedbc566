#!/bin/bash
# How often an agent wakes up that has nothing to do: voluntary context switches of all its threads in half a minute. Exit code 1:
# more than two a second.
# usage: bench/idle.sh [SECONDS]
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib/scenario.sh"

SPAN=${1:-30} MOST=2

# switches: so far.
switches() { awk '/^voluntary_ctxt_switches/ { sum += $2 } END { print sum }' /proc/"$LAB_AGENT"/task/*/status; }

lab_up idle
lab_agent --xdp off
sleep 5 # what a start leaves to do
before=$(switches)
sleep "$SPAN"
count=$(($(switches) - before))
printf 'idle agent, %s services from a directory: %d wake-ups in %d s, %s a second; at most %d\n' \
	"$(lab_in node curl -sS -m 5 http://127.0.0.1:10249/metrics | sed -n 's/^sluice_services //p')" \
	"$count" "$SPAN" "$(awk -v count="$count" -v span="$SPAN" 'BEGIN { printf "%.2f", count / span }')" "$MOST"
((count <= SPAN * MOST))
