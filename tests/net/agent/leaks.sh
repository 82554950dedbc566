#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A slow leak (docs/threats.md): services with new names, endpoints with new addresses, pods' devices and invalid objects
# come and go, tens of thousands of endpoints (with --long 60,000). Afterwards the agent and the kernel hold no more than
# half way.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

# Each round adds and removes SERVICES services of ENDPOINTS endpoints.
SERVICES=10 ENDPOINTS=50
ROUNDS=${SLUICE_LONG:+120} ROUNDS=${ROUNDS:-16}

# metric NAME: the sum of its series.
metric() { lab_in node curl -fsS -m 10 http://127.0.0.1:10249/metrics | awk -v name="$1" '$1 ~ "^" name "({|$)" { sum += $2 } END { print sum + 0 }'; }
has() { [[ $(metric "$1") == "$2" ]]; }
anonymous() { awk '/^RssAnon:/ { print $2 }' "/proc/$LAB_AGENT/status"; }
descriptors() { find "/proc/$LAB_AGENT/fd" -mindepth 1 | wc -l; }
# entries: the entries of tables from which entries are removed at once. Backend ids and service numbers stay reserved for
# flows that may refer to them.
entries() { lab_sluice status -o json | jq -c '.maps | {lb_frontends, lb_addresses} | map_values(.used)'; }

# device NUMBER: adds and removes a pod's device.
device() {
	ip -n "$LAB-node" link add "podx$1" type veth peer name "far$1"
	ip -n "$LAB-node" link set "podx$1" up
	lab_wait 10 eval '[[ $(lab_sluice status) == *"1 pods"* ]]' || die "podx$1 is not served: $(lab_sluice status)"
	ip -n "$LAB-node" link delete "podx$1"
}

# round NUMBER: adds one wave of objects and removes the previous one.
round() {
	python3 "$SLUICE_ROOT/tests/net/lib/services.py" "leak$1" "$SERVICES" "$ENDPOINTS" "$LAB_MANIFESTS"
	printf 'apiVersion: v1\nkind: Service\nmetadata: {name: "wrong %d", namespace: default}\nspec: {clusterIP: nowhere}\n' "$1" \
		>"$LAB_MANIFESTS/wrong$1.yaml"
	lab_wait 60 has sluice_endpoints $((BEFORE + 2 * SERVICES * ENDPOINTS)) || die "round $1: $(metric sluice_endpoints) endpoints"
	rm -f "$LAB_MANIFESTS/leak$(($1 - 1))"-*.json "$LAB_MANIFESTS/wrong$(($1 - 1)).yaml"
	lab_wait 60 has sluice_endpoints $((BEFORE + SERVICES * ENDPOINTS)) || die "round $1: $(metric sluice_endpoints) endpoints are left"
	device "$1"
}

lab_up leaks
lab_agent --pod-devices podx --service-metrics 1000 --max-backends 4096 --max-slots 16384
BEFORE=$(metric sluice_endpoints)
python3 "$SLUICE_ROOT/tests/net/lib/services.py" leak0 "$SERVICES" "$ENDPOINTS" "$LAB_MANIFESTS"
memory=()
for ((number = 1; number <= ROUNDS; number++)); do
	round "$number"
	memory+=("$(anonymous)")
	if ((number == ROUNDS / 2)); then half="$(entries), $(descriptors) descriptors"; fi
done
grown=$((memory[ROUNDS - 1] - memory[ROUNDS / 2 - 1]))
printf '%d endpoints came and went; anonymous memory, half way and at the end: %d and %d KiB\n' $((ROUNDS * SERVICES * ENDPOINTS)) \
	"${memory[ROUNDS / 2 - 1]}" "${memory[ROUNDS - 1]}"
((grown <= 512)) || die "the agent's memory grows by $grown KiB: ${memory[*]}"
[[ $half == "$(entries), $(descriptors) descriptors" ]] || die "half way $half, and now $(entries), $(descriptors) descriptors"
