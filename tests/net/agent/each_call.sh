#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A crash at each bpf() call of the agent, and an error at each (REL-38, REL-82): after each of them requests succeed, and
# the next start results in the same maps as a start from nothing. By default a few calls, spread by a seed; with SLUICE_LONG
# a hundred in each of the six stages. SLUICE_POINTS=100000 takes all, which needs a quarter of an hour and more per stage;
# SLUICE_STAGES="1 3" runs two stages.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

SEED=$(seed 7) POINTS=${SLUICE_LONG:+100}
POINTS=${SLUICE_POINTS:-${POINTS:-8}} STAGES=${SLUICE_STAGES:-1 2 3 4 5 6}
SIZE=65536 # of the smallest table, as it is made without options
ERRORS=(E2BIG ENOMEM EBUSY ENOENT)
HEALTH=http://127.0.0.1:10256/healthz
ASK=(python3 "$SLUICE_ROOT/scripts/lib/ask.py" --seconds 7200 --pause 0.02 --until-failure)
ASKERS=()
LARGER=() # options of both starts at a point, with which the tables are made anew
RANDOM=$((SEED & 32767))
say "seed $SEED"

ready() { lab_in node curl -fsS -m 2 "$HEALTH"; }
gone() { ! kill -0 "$1" 2>/dev/null; }
ready_or_gone() { gone "$1" || ready; }

# manifests SET: writes "base", or "changed": one service more, one less, one endpoint less, another policy.
manifests() {
	cp "$SLUICE_ROOT"/k8s/examples/*.yaml "$LAB_MANIFESTS"
	rm -f "$LAB_MANIFESTS/extra.yaml"
	[[ $1 == changed ]] || return 0
	rm -f "$LAB_MANIFESTS"/dns*.yaml
	sed -i '/10\.244\.4\.10/,+1s/ready: true, serving: true/ready: false, serving: false/' "$LAB_MANIFESTS/web-endpoints.yaml"
	cat >"$LAB_MANIFESTS/extra.yaml" <<-'YAML'
		apiVersion: v1
		kind: Service
		metadata: {name: extra, namespace: default}
		spec:
		  clusterIP: 10.96.0.90
		  sessionAffinity: ClientIP
		  ports: [{name: a, port: 80}, {name: b, port: 81, protocol: UDP}]
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: extra-1, namespace: default, labels: {kubernetes.io/service-name: extra}}
		addressType: IPv4
		ports: [{name: a, port: 8080}, {name: b, port: 5353, protocol: UDP}]
		endpoints: [{addresses: [10.244.2.10]}, {addresses: [10.244.3.10]}]
	YAML
}

dump() { lab_maps && lab_fill; }
same() { [[ $(dump) == "$(<"$LAB_DIR/$1.reference")" ]]; }

# start_clean SET: runs an agent without injection until the maps are those of SET.
start_clean() {
	lab_agent --xdp off ${LARGER[@]+"${LARGER[@]}"} >"$LAB_DIR/start" || { cat "$LAB_DIR/start" && die "$2: the next start fails"; }
	lab_wait 15 same "$1" || { diff "$LAB_DIR/$1.reference" <(dump) || die "$2: the next start leaves other maps, above"; }
	lab_stop "$LAB_AGENT" KILL || true
}

# start_injected INJECTION: runs an agent with the injection until it serves or has ended. Its log: injected.log.
start_injected() {
	: >"$LAB_DIR/injected.log"
	lab_start node injected.log strace -f -qq -e signal=none -e trace=bpf -o "$LAB_DIR/calls" -e "inject=bpf:$1" \
		"$SLUICE" agent --manifests "$LAB_MANIFESTS" --node node --devices eth0 --cgroup "$LAB_CGROUP" --pins "$LAB_PINS" \
		--health 127.0.0.1:10256 --metrics off --xdp off ${LARGER[@]+"${LARGER[@]}"}
	INJECTED=$1 ENDED=no
	lab_wait 30 ready_or_gone "$LAB_STARTED" || { cat "$LAB_DIR/injected.log" && die "with $1: neither serves nor ends"; }
	CALLS=$(wc -l <"$LAB_DIR/calls")
	# Changes within the first second belong to the start: dropped entries are freed, failed writes are retried.
	[[ $1 == signal=* ]] && sleep 0.3 || sleep 0.1
	! gone "$LAB_STARTED" || ENDED=yes
	local agent
	agent=$(pgrep -P "$LAB_STARTED" || true)
	[[ -z $agent ]] || kill -KILL "$agent" 2>/dev/null || true
	lab_stop "$LAB_STARTED" KILL || true
}

# fired: whether the last injection took place.
fired() { [[ $INJECTED == signal=* && $ENDED == yes ]] || grep -q INJECTED "$LAB_DIR/calls"; }

# all_answered: whether no client has had a failure.
all_answered() {
	local asker
	for asker in ${ASKERS[@]+"${ASKERS[@]}"}; do
		! gone "${asker%%:*}" || { cat "$LAB_DIR/${asker#*:}" && return 1; }
	done
}

# points COUNT: up to POINTS of the numbers 1 to COUNT, evenly spread from a random start.
points() {
	local step=$((($1 + POINTS - 1) / POINTS)) at
	((step > 0)) || step=1
	for ((at = 1 + RANDOM % step; at <= $1; at += step)); do printf '%d\n' "$at"; done
}

# chosen_calls STAGE: the calls of the counted start at which an error is always injected. In a first start these are
# libbpf's feature probes, which decide how maps are created, and the load of the programs' types, without which libbpf goes
# on: the verifier then refuses programs that it accepts with them. In a restart it is the query of a pinned table's shape:
# to continue without it would mean to serve from an empty table.
chosen_calls() {
	case $1 in
	2) echo 1 2 && awk '/BPF_BTF_LOAD/ { last = NR } END { print last }' "$LAB_DIR/chosen" ;;
	4) awk '/BPF_OBJ_GET_INFO_BY_FD/ && table { print NR } /BPF_OBJ_GET,/ { table = /maps.lb_frontends"/ }' "$LAB_DIR/chosen" ;;
	esac
}

# larger STAGE: in the last two stages, the next starts request larger tables than any before.
larger() {
	[[ $1 == [56] ]] || return 0
	SIZE=$((SIZE + 1))
	LARGER=(--max-frontends "$SIZE" --max-services "$SIZE" --max-backends "$((4 * SIZE))" --max-slots "$((16 * SIZE))")
}

# go_through STAGE TITLE FROM INJECTION: at each point runs an injected start and a clean one, and compares the maps. FROM:
# nothing, or the pins of the other set of manifests.
go_through() {
	local title=$2 from=$3 injection=$4 at count wanted=changed number=0 fired=0 filled
	[[ " $STAGES " == *" $1 "* ]] || return 0
	manifests "$wanted"
	larger "$1"
	[[ $from != nothing ]] || rm -rf "$LAB_PINS"
	start_injected signal=SIGKILL:when=65535 # counts
	count=$CALLS
	cp "$LAB_DIR/calls" "$LAB_DIR/chosen"
	((count > 30)) || die "$title: only $count calls to choose from"
	manifests base && start_clean base "$title: after counting"
	for at in $(chosen_calls "$1") $(points "$count"); do
		[[ $from != nothing ]] || rm -rf "$LAB_PINS"
		manifests "$wanted"
		larger "$1"
		filled=${injection//ERROR/${ERRORS[number++ % ${#ERRORS[@]}]}}
		start_injected "$filled:when=$at"
		! fired || fired=$((fired + 1))
		start_clean "$wanted" "$title, $filled at call $at of $count"
		all_answered || die "a request failed at or shortly before: $title, $filled at call $at of $count"
		[[ $wanted == base ]] && wanted=changed || wanted=base
	done
	((fired * 2 > number)) || die "$title: of $number injections only $fired took place"
	say "$title: $fired of $count calls"
}

lab_up each-call
lab_backends
for set in base changed; do
	rm -rf "$LAB_PINS"
	manifests "$set"
	lab_agent --xdp off
	sleep 0.3
	dump >"$LAB_DIR/$set.reference"
	lab_stop "$LAB_AGENT" KILL || true
done
! cmp -s "$LAB_DIR/base.reference" "$LAB_DIR/changed.reference" || die "both sets of manifests give the same maps"

go_through 1 "crash at a first start" nothing signal=SIGKILL
go_through 2 "error at a first start" nothing error=ERROR

[[ $STAGES == *[3456]* ]] || exit 0

# From here on clients always send requests, by a socket and through the devices, and no request may fail.
manifests base && start_clean base "before the requests"
lab_start node asked.socket "${ASK[@]}" tcp 10.96.0.80 80
ASKERS+=("$LAB_STARTED:asked.socket")
lab_start client asked.packets "${ASK[@]}" tcp 10.0.0.10 30080
ASKERS+=("$LAB_STARTED:asked.packets")
go_through 3 "crash at a restart" pinned signal=SIGKILL
go_through 4 "error at a restart" pinned error=ERROR
go_through 5 "crash at a restart with larger tables" pinned signal=SIGKILL
go_through 6 "error at a restart with larger tables" pinned error=ERROR
for asker in "${ASKERS[@]}"; do
	lab_stop "${asker%%:*}" TERM || { cat "$LAB_DIR/${asker#*:}" && die "requests failed while the agent was killed"; }
	[[ -s $LAB_DIR/${asker#*:} ]] || die "no requests were made"
	cat "$LAB_DIR/${asker#*:}"
done
