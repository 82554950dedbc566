#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Measures an agent's start with the objects of a real API server: the time until everything is programmed, compared with
# curl's time for the same lists, and the agent's memory then.
# usage: bench/api_start.sh [SERVICES SLICES SIZE]   SERVICES services of SLICES slices with SIZE endpoints each; default:
# 1 service of 100,000 endpoints, then 5,000 services of 20.
set -euo pipefail
# shellcheck source=tests/e2e/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../tests/e2e/lib/scenario.sh"
# shellcheck source=bench/rows.sh
source "$SLUICE_ROOT/bench/rows.sh"

RUNS=5 LABEL=''
AGENT_SIZES=() # the defaults
LISTS=(/api/v1/services /apis/discovery.k8s.io/v1/endpointslices)

# fetch TYPE: prints the milliseconds that curl takes for the lists, one after the other on one connection, as an agent
# requests them.
fetch() {
	local start
	start=$(milliseconds)
	lab_in node curl -sS --fail --cacert "$CLUSTER/ca.crt" --cert "$CLUSTER/admin.crt" --key "$CLUSTER/admin.key" \
		-H "Accept: $1" -o /dev/null -o /dev/null "${LISTS[@]/#/$API}"
	printf '%d\n' $(($(milliseconds) - start))
}

# start_time [OPTION...]: measures the milliseconds from exec to /healthz 200, when everything is in the maps.
start_time() {
	local start
	rm -rf "$LAB_PINS"
	start=$(milliseconds)
	cluster_agent_starts "$@"
	lab_in node timeout 60 bash -c 'until curl -sf -o /dev/null http://127.0.0.1:10256/healthz; do sleep 0.005; done'
	printf '%d\n' $(($(milliseconds) - start)) >>"$LAB_DIR/starts"
	awk '/^VmRSS/ { print $2 / 1024 }' "/proc/$LAB_AGENT/status" >>"$LAB_DIR/resident"
	awk '/^VmHWM/ { print $2 / 1024 }' "/proc/$LAB_AGENT/status" >>"$LAB_DIR/peak"
	awk '/^RssAnon/ { print $2 / 1024 }' "/proc/$LAB_AGENT/status" >>"$LAB_DIR/anonymous"
	awk '{ print ($14 + $15) * 10 }' "/proc/$LAB_AGENT/stat" >>"$LAB_DIR/cpu"
}

# figure FILE WHAT UNIT DIGITS WHO: prints a cell of the table, and records the figure; LABEL names the objects.
figure() {
	keep api "$LABEL, $5: $2" "$3" <"$LAB_DIR/$1"
	cell "$4" <"$LAB_DIR/$1"
}

# figures NAME OPTION...: prints a line of the table.
figures() {
	local turn
	rm -f "$LAB_DIR"/{starts,resident,peak,anonymous,cpu}
	for ((turn = 0; turn < RUNS; turn++)); do
		start_time "${@:2}"
		lab_stop "$LAB_AGENT" TERM
	done
	printf '| Sluice, %s | %s | %s | %s | %s | %s |\n' "$1" "$(figure starts 'start' ms 0 "Sluice, $1")" \
		"$(figure cpu CPU ms 0 "Sluice, $1")" "$(figure resident 'resident' MiB 1 "Sluice, $1")" \
		"$(figure anonymous 'resident, anonymous' MiB 1 "Sluice, $1")" "$(figure peak 'resident, peak' MiB 1 "Sluice, $1")"
}

# fetches NAME TYPE: prints curl's line, which has only the time.
fetches() {
	local turn
	for ((turn = 0; turn < RUNS; turn++)); do fetch "$2"; done >"$LAB_DIR/fetches"
	printf '| curl, %s | %s | | | | |\n' "$1" "$(figure fetches 'lists' ms 0 "curl, $1")"
}

# measure SERVICES SLICES SIZE: prints all figures for these objects.
measure() {
	LABEL=$1x$(($2 * $3))
	cluster_up start
	lab_in control env E2E_KUBE="$CLUSTER" python3 - "$@" <<-PYTHON
		import sys
		sys.path.insert(0, "$E2E")
		import kube
		api = kube.Api()
		services, slices, size = map(int, sys.argv[1:])
		for at in range(services):
		    api.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": f"s{at}", "namespace": "default"},
		                "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8080}]}})
		    kube.make_slices(api, f"s{at}", slices, size)
	PYTHON
	printf '\n%s services of %s slices with %s endpoints: median of %d (least–most)\n\n' "$@" "$RUNS"
	printf '| client | start or lists, ms | CPU, ms | resident, MiB | of it anonymous | peak |\n|---|---|---|---|---|---|\n'
	fetches protobuf application/vnd.kubernetes.protobuf
	fetches JSON application/json
	figures protobuf
	figures JSON --api-encoding=json
	cluster_down
}

if (($# == 3)); then
	measure "$@"
else
	measure 1 100 1000
	measure 5000 1 20
fi
