#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Hostile names of devices and of objects, annotations of all kinds, and the largest objects of each kind (docs/threats.md):
# existing services are still served, no text of theirs reaches a terminal, a log reader or a scraper as anything but text,
# and the log stays short.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

PREFIX=podx
NAMES=($'podx\e[31m' $'podx\a\b\x7f' $'podx\xff\xfe' $'podx\xc2\x9b2J' 'podx"\\{}=' 'podx$(id)' 'podx..' 'podx;&|' $'podx\xe2\x80\xaegpj')

# only_words FILE WHAT: checks that FILE is UTF-8 without control, direction and invisible characters.
only_words() {
	python3 - "$1" <<-'PY' || die "$2 has more than words in it"
		import sys
		import unicodedata
		text = open(sys.argv[1], "rb").read().decode("utf-8")
		wrong = [line for line in text.split("\n") if any(c != "\t" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") for c in line)]
		if wrong:
		    sys.exit(f"{len(wrong)} lines, the first: {wrong[0][:200]!r}")
	PY
}

# answers WHAT: checks the example's service, from the pod and from outside.
answers() {
	lab_ask pod tcp 10.96.0.80 80 --count 20 >/dev/null || die "$1: a pod's requests fail"
	lab_ask client tcp 10.0.0.10 30080 --count 20 >/dev/null || die "$1: requests from outside fail"
}

# away DEVICE: detaches its hooks, as another program may: a link, or, without TCX, a filter.
away() {
	local index link
	if [[ ${SLUICE_WITHOUT:-} == *tcx* ]]; then
		lab_in node tc filter delete dev "$1" ingress
		return
	fi
	index=$(ip -n "$LAB-node" -o link show dev "$1" | cut -d : -f 1)
	for link in "$LAB_PINS"/v*/links/pod_in_"$index"; do bpftool link detach pinned "$link"; done
}

# look WHAT: checks all output for people and machines.
look() {
	answers "$1"
	only_words "$LAB_DIR/agent.log" "$1: the log"
	lab_in node curl -fsS -m 10 http://127.0.0.1:10249/metrics >"$LAB_DIR/metrics" || die "$1: no metrics"
	only_words "$LAB_DIR/metrics" "$1: what is scraped"
	for command in status services "backends default/" flows; do
		read -ra words <<<"$command"
		lab_sluice "${words[@]}" >"$LAB_DIR/said" || die "$1: sluice $command"
		only_words "$LAB_DIR/said" "$1: sluice $command"
		lab_sluice "${words[@]}" -o json | jq . >/dev/null || die "$1: sluice $command -o json is none"
	done
}

# alive: requests /livez as the kubelet does, only more often, until was_alive; then writes the number of good replies and
# the longest time without one, in microseconds. A single failure is no fault: the agent restarts itself when it needs larger
# maps, and does not listen meanwhile.
alive() {
	# shellcheck disable=SC2016  # expanded inside
	lab_start node livez.log bash -c '
		answers=0 longest=0 good=${EPOCHREALTIME/./}
		while [[ ! -e $1 ]]; do
			if curl -fsS -o /dev/null -m 10 http://127.0.0.1:10256/livez; then
				answers=$((answers + 1)) now=${EPOCHREALTIME/./}
				longest=$((now - good > longest ? now - good : longest)) good=$now
			fi
			sleep 0.05
		done
		now=${EPOCHREALTIME/./}
		printf "%d %d\n" "$answers" $((now - good > longest ? now - good : longest)) >&3' alive "$LAB_DIR/asked-enough" 3>"$LAB_DIR/livez"
	ALIVE=$LAB_STARTED
}

# was_alive: ends these requests; fails if no good reply came for 10 s, or on an emulated processor for a minute, after which
# the DaemonSet's probe restarts an agent.
was_alive() {
	local answers longest limit=10000000
	[[ -z ${SLUICE_EMULATED:-} ]] || limit=60000000
	touch "$LAB_DIR/asked-enough"
	wait "$ALIVE" || die "/livez was not asked to the end: $(cat "$LAB_DIR/livez.log")"
	read -r answers longest <"$LAB_DIR/livez"
	((answers >= 10 && longest < limit)) || die "/livez: $answers good answers, $longest µs without one: $(cat "$LAB_DIR/livez.log")"
	printf '/livez: %d good answers, at most %d ms without one\n' "$answers" $((longest / 1000))
}

lab_up hostile
lab_backends
for at in "${!NAMES[@]}"; do
	ip -n "$LAB-node" link add "far$at" type veth peer name "${NAMES[at]}"
	ip -n "$LAB-node" link set "${NAMES[at]}" up
done
for format in text json; do
	lab_agent --pod-devices "$PREFIX" --log-format "$format" --log-level debug --service-metrics 1000
	lab_wait 10 eval '[[ $(lab_sluice status) == *"${#NAMES[@]} pods"* ]]' || die "not all pods' devices are served: $(lab_sluice status)"
	for at in "${!NAMES[@]}"; do away "${NAMES[at]}"; done
	lab_wait 10 grep -q reattached "$LAB_DIR/agent.log" || die "no hook is reattached: $(tail -n 3 "$LAB_DIR/agent.log")"
	look "hostile names of devices ($format)"
	[[ $format == text ]] || jq -c . "$LAB_DIR/agent.log" >/dev/null || die "a line of the JSON log is none"
	lab_stop "$LAB_AGENT" || true
	: >"$LAB_DIR/agent.log"
done
printf 'hostile names of devices: words\n'

lab_agent --pod-devices "$PREFIX" --service-metrics 1000
before=$(wc -l <"$LAB_DIR/agent.log")
alive
python3 "$SLUICE_ROOT/tests/net/lib/hostile_objects.py" "$LAB_MANIFESTS" ${SLUICE_LONG:+all}
lab_wait 120 grep -q 'deep' "$LAB_DIR/agent.log" || die "the last object was not read"
lab_wait 60 lab_in node curl -fsS -m 2 http://127.0.0.1:10256/healthz || die "is not healthy any more"
was_alive
look "hostile objects"
lines=$(($(wc -l <"$LAB_DIR/agent.log") - before))
longest=$(awk '{ print length }' "$LAB_DIR/agent.log" | sort -n | tail -n 1)
((lines <= 1000 && longest <= 1500)) || die "$lines lines of log, the longest of $longest characters"
kill -0 "$LAB_AGENT" || die "the agent has ended"
printf 'hostile objects: %d lines of log, the longest of %d characters\n' "$lines" "$longest"

# And a start with all of these objects.
lab_stop "$LAB_AGENT" KILL || true
lab_agent --pod-devices "$PREFIX"
look "a start on hostile objects"
