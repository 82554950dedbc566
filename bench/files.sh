#!/bin/bash
# How soon a changed file in a directory takes effect: from its renaming until `sluice backends` shows the change, including
# the command's own time, which is also shown separately. Exit code 3: it took more than 100 ms at least once.
# usage: bench/files.sh [CHANGES]
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib/scenario.sh"
# shellcheck source=bench/rows.sh
source "$SLUICE_ROOT/bench/rows.sh"

CHANGES=${1:-40} MOST=100 MISSED=3 PATIENCE=10

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

# change ADDRESS: writes the change; prints milliseconds until ADDRESS is a backend.
change() {
	local begin until=$((SECONDS + PATIENCE))
	slice "$1" >"$LAB_DIR/changing.yaml"
	begin=$EPOCHREALTIME
	mv "$LAB_DIR/changing.yaml" "$LAB_MANIFESTS/changing.yaml"
	until prints " $1:8080 " lab_sluice backends default/web; do
		((SECONDS < until)) || die "$1 is no backend after $PATIENCE seconds; the agent said: $(tail -3 "$LAB_DIR/agent.log")"
	done
	milliseconds "$begin"
}

# look: milliseconds that the command itself takes.
look() {
	local begin=$EPOCHREALTIME
	lab_sluice backends default/web >/dev/null
	milliseconds "$begin"
}

lab_up files
lab_agent --xdp off
for ((turn = 1; turn <= CHANGES; turn++)); do
	change "10.244.2.$((100 + turn % 100))" >>"$LAB_DIR/rounds"
	look >>"$LAB_DIR/looks"
done
keep files "a changed file until its backend is there, the look included" ms <"$LAB_DIR/rounds"
keep files "the look alone" ms <"$LAB_DIR/looks"
printf '| changes of a file | ms until it is in effect, looks included: median (least–most) | a look alone | at most |\n|---|---|---|---|\n'
printf '| %s | %s | %s | %d |\n' "$CHANGES" "$(cell 0 <"$LAB_DIR/rounds")" "$(cell 0 <"$LAB_DIR/looks")" "$MOST"
awk -v most="$MOST" '$1 > most { exit 1 }' "$LAB_DIR/rounds" || exit "$MISSED"
