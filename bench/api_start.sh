#!/bin/bash
# What a real API server's objects cost an agent: from its start to everything programmed, beside the time that curl takes for
# the same lists, and its memory then.
# usage: bench/api_start.sh [SERVICES SLICES SIZE]   so many services of so many slices with so many endpoints each; without:
# 1 service of 100,000 endpoints, then 5,000 services of 20.
set -euo pipefail
# shellcheck source=tests/e2e/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../tests/e2e/lib/scenario.sh"

RUNS=5
AGENT_SIZES=() # the defaults
LISTS=(/api/v1/services /apis/discovery.k8s.io/v1/endpointslices)

# fetch TYPE: milliseconds that curl takes for the lists, one after the other on one connection, as an agent asks for them.
fetch() {
	local start
	start=$(milliseconds)
	lab_in node curl -sS --fail --cacert "$CLUSTER/ca.crt" --cert "$CLUSTER/admin.crt" --key "$CLUSTER/admin.key" \
		-H "Accept: $1" -o /dev/null -o /dev/null "${LISTS[@]/#/$API}"
	printf '%d\n' $(($(milliseconds) - start))
}

median() { sort -n | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'; }

# start_time: milliseconds from exec to /healthz 200, which is when all of it is in the maps.
start_time() {
	local start
	rm -rf "$LAB_PINS"
	start=$(milliseconds)
	cluster_agent_starts "$@"
	lab_in node timeout 60 bash -c 'until curl -sf -o /dev/null http://127.0.0.1:10256/healthz; do sleep 0.005; done'
	printf '%d\n' $(($(milliseconds) - start)) >>"$LAB_DIR/starts"
	awk '/^VmRSS/ { print $2 }' "/proc/$LAB_AGENT/status" >>"$LAB_DIR/resident"
	awk '/^VmHWM/ { print $2 }' "/proc/$LAB_AGENT/status" >>"$LAB_DIR/peak"
	awk '/^RssAnon/ { print $2 }' "/proc/$LAB_AGENT/status" >>"$LAB_DIR/anonymous"
	awk '{ print ($14 + $15) * 10 }' "/proc/$LAB_AGENT/stat" >>"$LAB_DIR/cpu"
}

# figures NAME: one line of the table.
figures() {
	local run
	rm -f "$LAB_DIR"/{starts,resident,peak,anonymous,cpu}
	for ((run = 0; run < RUNS; run++)); do
		start_time "${@:2}"
		lab_stop "$LAB_AGENT" TERM
	done
	printf '%-10s %8d ms %8d ms CPU %8.1f MiB resident, of them %.1f its own; %.1f at most\n' "$1" "$(median <"$LAB_DIR/starts")" \
		"$(median <"$LAB_DIR/cpu")" "$(median <"$LAB_DIR/resident" | awk '{ print $1 / 1024 }')" \
		"$(median <"$LAB_DIR/anonymous" | awk '{ print $1 / 1024 }')" "$(median <"$LAB_DIR/peak" | awk '{ print $1 / 1024 }')"
}

# measure SERVICES SLICES SIZE
measure() {
	local run type
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
	heading "$1 services of $2 slices with $3 endpoints: median of $RUNS"
	for type in application/vnd.kubernetes.protobuf application/json; do
		printf '%-10s %8d ms\n' "curl, ${type##*[.]}" "$(for ((run = 0; run < RUNS; run++)); do fetch "$type"; done | median)"
	done
	figures protobuf
	figures json --api-encoding=json
	cluster_down
}

if (($# == 3)); then
	measure "$@"
else
	measure 1 100 1000
	measure 5000 1 20
fi
