#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# SEM-81: tables that are too small for the plan are made again, larger, while the same agent runs: open connections keep
# their backends, and no request fails. A later start keeps the sizes, and makes smaller tables larger if options say so.
# With --fixed-sizes no table grows: a service that does not fit keeps its previous state.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

trap 'lab_down; [[ -z $LIMITED || ! -d $LIMITED ]] || rmdir "$LIMITED"' EXIT
LIMITED=''

TABLES=(lb_frontends lb_services lb_names lb_backends lb_slots)
SMALL=(--max-frontends 32 --max-services 16 --max-backends 48 --max-slots 64 --max-ranges 4)
MANY=${SLUICE_LONG:+5000} MANY=${MANY:-500}

# services PREFIX COUNT ENDPOINTS: adds services with this prefix.
services() { lab_in node python3 "$SLUICE_ROOT/tests/net/lib/services.py" "$@" "$LAB_MANIFESTS"; }
# programmed PREFIX: the number of backends in the sets of these services.
programmed() { lab_sluice backends "default/$1-" -o json 2>/dev/null | jq '[.[] | select(.inClusterSet)] | length'; }
# pointed PREFIX: the number of frontends of these services.
pointed() { lab_sluice services -o json | jq --arg prefix "default/$1-" '[.[] | select(.service | startswith($prefix)).frontends | length] | add'; }
# has PREFIX BACKENDS SERVICES: whether these numbers are in the maps.
has() { [[ $(programmed "$1") == "$2" && $(pointed "$1") == "$3" ]]; }
entries() { bpftool -j map show pinned "$LAB_PINS"/v*/maps/"$1" | jq .max_entries; }
sizes() { for table in "${TABLES[@]}"; do printf '%s %d\n' "$table" "$(entries "$table")"; done; }
grown() { grep -c 'recreating the maps' "$LAB_DIR/agent.log" || true; }
descriptors() { find "/proc/$LAB_AGENT/fd" -mindepth 1 | wc -l; }
secret() { bpftool -j map dump pinned "$LAB_PINS"/v*/maps/lb_node | jq -c '.[0].formatted.value.secret'; }

# more PREFIX COUNT ENDPOINTS: adds services that do not fit, and waits until they are served.
more() {
	local before begin=$EPOCHREALTIME
	before=$(grown)
	services "$@"
	lab_wait 60 has "$1" $(($2 * $3)) "$2" || die "$1: $(programmed "$1") backends instead of $(($2 * $3)): $(tail -n 5 "$LAB_DIR/agent.log")"
	(($(grown) > before)) || die "$1: nothing grew, and all of it fits?"
	kill -0 "$LAB_AGENT" || die "$1: the agent has ended"
	printf 'SEM-81: %d services of %d endpoints fit after %d ms: %s\n' "$2" "$3" \
		$(((${EPOCHREALTIME/./} - ${begin/./}) / 1000)) "$(sizes | tr '\n' ' ')"
}

lab_up growing
lab_offload off
lab_backends
lab_agent --xdp native "${SMALL[@]}"
(($(grown) == 0)) || die "the first services do not fit: $(sizes)"
SECRET=$(secret)
lab_keep
lab_traffic pod 10.96.0.80 80
lab_traffic client 10.0.0.10 30080
sleep 0.5

more some 40 2
grep -q 'lb_services is nearly full: 1[45] of 15 entries; when it is full, a larger one is made' "$LAB_DIR/agent.log" ||
	die "no warning: $(<"$LAB_DIR/agent.log")"
more big 1 300
more many "$MANY" 3
LARGE=$(sizes)
[[ -z $(find "$LAB_PINS" -name '*_next') ]] || die "something stays pinned beside: $(find "$LAB_PINS" -name '*_next')"
[[ $(bpftool -j map dump pinned "$LAB_PINS"/v*/maps/lb_services | jq '.[1].formatted.value.policy.internal') == *LB_* ]] ||
	die "people cannot read the new tables: $(bpftool map dump pinned "$LAB_PINS"/v*/maps/lb_services | sed -n 1,20p)"

# A start with smaller sizes keeps the tables; one with larger sizes does not, and no client notices. After growing, the
# agent has no more descriptors open than after a start.
held=$(descriptors)
lab_stop "$LAB_AGENT" KILL || true
lab_agent --xdp native "${SMALL[@]}"
((held <= $(descriptors) + 4)) || die "after growing $held descriptors are open, after a start $(descriptors)"
[[ $(sizes) == "$LARGE" ]] || die "sizes were $LARGE and are $(sizes)"
lab_stop "$LAB_AGENT" KILL || true
lab_agent --xdp native --max-backends 200000 --max-services 30000
(($(entries lb_backends) == 200000 && $(entries lb_services) == 30000 && $(entries lb_names) == 30000)) || die "did not grow: $(sizes)"
[[ $(secret) == "$SECRET" ]] || die "the secret changed"
has many $((MANY * 3)) "$MANY" || die "$(programmed many) backends after a start that grew"

# Slots that are mostly free shrink again, with the same flows, and the agent stays ready; a start shrinks them, too.
# A slow agent may first shrink them with some of the services still there, to a size in which all fit again.
shrunk() { (($(entries lb_slots) * 2 <= $1 && $(entries lb_slots) < MANY)); }
lab_stop "$LAB_AGENT" KILL || true
lab_agent --xdp native "${SMALL[@]}" --shrink-after 2s
find "$LAB_MANIFESTS" -name 'big-*.json' -delete
find "$LAB_MANIFESTS" -name 'many-*.json' -delete
large=$(entries lb_slots)
lab_wait 60 shrunk "$large" || die "slots stay $large: $(tail -n 5 "$LAB_DIR/agent.log")"
grep -q 'slots were mostly free; recreating the maps' "$LAB_DIR/agent.log" || die "not logged: $(tail -n 5 "$LAB_DIR/agent.log")"
has some 80 40 || die "$(programmed some) backends after the slots became fewer"
lab_wait 10 lab_in node curl -fsS -m 2 http://127.0.0.1:10256/healthz || die "is not ready after the slots became fewer"
printf 'SEM-81: %d pairs of slots became %d\n' "$large" "$(entries lb_slots)"
more many "$MANY" 3
lab_stop "$LAB_AGENT" KILL || true
find "$LAB_MANIFESTS" -name 'many-*.json' -delete
lab_agent --xdp native "${SMALL[@]}" --shrink-after 0
large=$(entries lb_slots)
lab_stop "$LAB_AGENT" KILL || true
lab_agent --xdp native --max-slots 1024 --shrink-after 0
((large > 512 && $(entries lb_slots) == 512)) || die "a start left $(entries lb_slots) pairs of slots of $large"
has some 80 40 || die "$(programmed some) backends after a start"

# With --fixed-sizes a full table stays full.
lab_stop "$LAB_AGENT" KILL || true
lab_keep_ends
lab_traffic_ends
rm -r "$LAB_PINS"
find "$LAB_MANIFESTS" -name '*.json' -delete
lab_agent --xdp native "${SMALL[@]}" --fixed-sizes
services big 1 300
lab_wait 10 grep -q 'Service default/big-0: lb_backends is full' "$LAB_DIR/agent.log" || die "not logged that it does not fit"
(($(entries lb_backends) == 48 && $(programmed big) == 0)) || die "it grew, or part of it is served: $(sizes)"
lab_ask client tcp 10.0.0.10 30080 --count 20 >/dev/null || die "the others are not served"

# A failure to grow is logged, and the agent goes on as before, and as ready.
lab_stop "$LAB_AGENT" KILL || true
find "$LAB_MANIFESTS" -name '*.json' -delete
lab_agent --xdp native "${SMALL[@]}"
taken=$(find "$LAB_PINS" -name lb_backends)_next
mkdir -p "$taken/by-another"
services big 1 300
# The next agent loads its programs before it fails, which takes seconds on a busy machine.
lab_wait 60 grep -q 'the tables stay as small as they are: cannot pin the map .*lb_backends_next' "$LAB_DIR/agent.log" ||
	die "a growth that cannot be is not logged: $(tail -n 5 "$LAB_DIR/agent.log")"
lab_wait 5 lab_in node curl -fsS -m 2 http://127.0.0.1:10256/healthz || die "is not ready after a growth that failed"
(($(entries lb_backends) == 48)) || die "it grew: $(sizes)"
lab_ask client tcp 10.0.0.10 30080 --count 20 >/dev/null || die "the others are not served after a growth that failed"
rmdir "$taken/by-another" "$taken"

# limited: checks that no table grows beyond the memory limit.
limited() {
	lab_stop "$LAB_AGENT" KILL || true
	rm -r "$LAB_PINS"
	read -r place limit < <(memory_cgroup)
	LIMITED=$place/$LAB-memory
	mkdir "$LIMITED"
	# shellcheck disable=SC2016  # expanded inside
	printf '#!/bin/bash\necho $$ >"%s/cgroup.procs" && exec "%s" "$@"\n' "$LIMITED" "$SLUICE" >"$LAB_DIR/sluice-limited"
	chmod +x "$LAB_DIR/sluice-limited"
	SMALL+=(--max-flows 4096 --max-unassured 4096)
	echo $((16 << 20)) >"$LIMITED/$limit"
	SLUICE=$LAB_DIR/sluice-limited lab_launch --xdp off "${SMALL[@]}"
	lab_wait 20 grep -q 'the agent need' "$LAB_DIR/agent.log" || die "16 MiB are enough: $(<"$LAB_DIR/agent.log")"
	echo $(($(sed -n 's/.*the agent need \([0-9]*\) MiB.*/\1/p' "$LAB_DIR/agent.log" | tail -n 1) << 20)) >"$LIMITED/$limit"
	SLUICE=$LAB_DIR/sluice-limited lab_agent --xdp off "${SMALL[@]}"
	services many 5000 1
	lab_wait 30 grep -q 'cannot be made larger: the memory limit of' "$LAB_DIR/agent.log" || die "it grew: $(sizes)"
	lab_ask client tcp 10.0.0.10 30080 --count 20 >/dev/null || die "the others are not served"
	lab_stop "$LAB_AGENT" KILL || true
	lab_wait 5 rmdir "$LIMITED"
}
limited
