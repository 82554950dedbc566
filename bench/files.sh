#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Measures how soon a changed file in a directory takes effect: from its rename until `sluice backends` shows the change. This
# includes the command's own time, which is also shown separately. Exit code 3: it took more than 100 ms at least once.
# usage: bench/files.sh [CHANGES]
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib/scenario.sh"
# shellcheck source=bench/rows.sh
source "$SLUICE_ROOT/bench/rows.sh"

CHANGES=${1:-40} MOST=100 MISSED=3 TIMEOUT=10

# slice ADDRESS: an EndpointSlice of the example service.
slice() {
	cat <<-YAML
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: changing, namespace: default, labels: {kubernetes.io/service-name: web}}
		addressType: IPv4
		ports: [{name: http, protocol: TCP, port: 8080}]
		endpoints: [{addresses: [$1], conditions: {ready: true}}]
	YAML
}

# milliseconds BEGIN: the time since BEGIN, a value of EPOCHREALTIME.
milliseconds() { awk -v begin="$1" -v end="$EPOCHREALTIME" 'BEGIN { printf "%.1f\n", (end - begin) * 1e3 }'; }

# change ADDRESS: renames the changed file into place; prints the milliseconds until ADDRESS is a backend.
change() {
	local begin until=$((SECONDS + TIMEOUT))
	slice "$1" >"$LAB_DIR/changing.yaml"
	begin=$EPOCHREALTIME
	mv "$LAB_DIR/changing.yaml" "$LAB_MANIFESTS/changing.yaml"
	until prints " $1:8080 " lab_sluice backends default/web; do
		((SECONDS < until)) || die "$1 is no backend after $TIMEOUT seconds; the agent's log: $(tail -3 "$LAB_DIR/agent.log")"
	done
	milliseconds "$begin"
}

# command_time: prints the milliseconds that `sluice backends` itself takes.
command_time() {
	local begin=$EPOCHREALTIME
	lab_sluice backends default/web >/dev/null
	milliseconds "$begin"
}

lab_up files
lab_agent --xdp off
for ((turn = 1; turn <= CHANGES; turn++)); do
	change "10.244.2.$((100 + turn % 100))" >>"$LAB_DIR/rounds"
	command_time >>"$LAB_DIR/commands"
done
keep files "a changed file until its backend exists, sluice backends included" ms <"$LAB_DIR/rounds"
keep files "sluice backends alone" ms <"$LAB_DIR/commands"
printf '| changes of a file | ms until in effect, sluice backends included: median (least–most) | sluice backends alone | at most |\n|---|---|---|---|\n'
printf '| %s | %s | %s | %d |\n' "$CHANGES" "$(cell 0 <"$LAB_DIR/rounds")" "$(cell 0 <"$LAB_DIR/commands")" "$MOST"
awk -v most="$MOST" '$1 > most { exit 1 }' "$LAB_DIR/rounds" || exit "$MISSED"
