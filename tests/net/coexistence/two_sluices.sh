#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two Sluices of different names on one node, each with pins and ports of its own: both serve their own services, and cleanup of one leaves
# the other's pins and links as they were, while it serves (SEM-75). By links of tcx and by clsact filters, which have no pins.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

SECOND=10.96.0.90

# second_service: adds a service whose label assigns it to the second Sluice.
second_service() {
	cat >"$LAB_MANIFESTS/second.yaml" <<-YAML
		apiVersion: v1
		kind: Service
		metadata: {name: second, namespace: default, labels: {service.kubernetes.io/service-proxy-name: second}}
		spec:
		  type: NodePort
		  clusterIP: $SECOND
		  ports: [{name: http, port: 80, targetPort: 8080, nodePort: 30090}]
		---
		apiVersion: discovery.k8s.io/v1
		kind: EndpointSlice
		metadata: {name: second-1, namespace: default, labels: {kubernetes.io/service-name: second}}
		addressType: IPv4
		ports: [{name: http, port: 8080}]
		endpoints: [{addresses: [10.244.3.10]}]
	YAML
}

first() { LAB_PINS=$PINS/first "$@"; }
second() { LAB_PINS=$PINS/second "$@"; }

# second_starts: starts the second agent; its pid is in $SECOND_AGENT.
second_starts() {
	lab_start node second.log "$SLUICE" agent --manifests "$LAB_MANIFESTS" --node node --devices eth0 --cgroup "$LAB_CGROUP" --pins "$PINS/second" \
		--xdp off ${SLUICE_WITHOUT:+--without "$SLUICE_WITHOUT"} --service-proxy-name second --health 127.0.0.1:10356 --metrics 127.0.0.1:10349
	SECOND_AGENT=$LAB_STARTED
	lab_wait 30 lab_in node curl -fsS -m 2 http://127.0.0.1:10356/healthz || die "the second agent did not become ready: $(tail -n 5 "$LAB_DIR/second.log")"
}

# both_serve WHEN: checks that each serves its own service and not the other's, inside and outside.
both_serve() {
	local who
	for who in "pod 10.96.0.80 80" "client 10.0.0.10 30080" "pod $SECOND 80" "client 10.0.0.10 30090"; do
		# shellcheck disable=SC2086  # who, address and port
		set -- "$1" $who
		lab_ask "$2" tcp "$3" "$4" --count 20 >"$LAB_DIR/answers" || die "$1: $who: $(tail -n 2 "$LAB_DIR/answers")"
	done
	[[ $(first lab_sluice services -o json | jq -r 'any(.[]; .service | startswith("default/second"))') == false ]] || die "$1: the first has the second's service"
	[[ $(second lab_sluice services -o json | jq -r '[.[].service] | unique | join(" ")') == default/second:http ]] ||
		die "$1: the second has $(second lab_sluice services -o json | jq -c '[.[].service]')"
	printf '%s: both serve\n' "$1"
}

# pins_of NAME, links: the pins of one Sluice; the kernel's links on the node's devices and cgroup.
pins_of() { find "$PINS/$1" | sort; }
links() {
	lab_in node bpftool -j net show | net_programs
	lab_in node bpftool cgroup show "$LAB_CGROUP" -j | jq -cS .
}

# unchanged NAME COMMAND...: checks that COMMAND does not change NAME's pins.
unchanged() {
	local name=$1
	shift
	pins_of "$name" >"$LAB_DIR/before"
	"$@" >"$LAB_DIR/said" || die "$*: $(cat "$LAB_DIR/said")"
	diff "$LAB_DIR/before" <(pins_of "$name") >&2 || die "$*: changed the $name one's pins, above"
}

# second_goes: stops and cleans up the second Sluice, and checks that the kernel's links are as before it started.
second_goes() {
	lab_stop "$SECOND_AGENT" TERM || die "the second agent ended badly"
	unchanged first second lab_sluice cleanup
	[[ ! -e $PINS/second ]] || die "left of the second: $(find "$PINS/second" | sed -n 1,3p)"
	diff "$LAB_DIR/links" <(links) >&2 || die "cleanup of the second changed what is attached, above"
	lab_ask pod tcp 10.96.0.80 80 --count 20 >/dev/null || die "the first serves pods no more"
	lab_ask client tcp 10.0.0.10 30080 --count 20 >/dev/null || die "the first serves the outside no more"
	printf 'cleanup of the second leaves the first\n'
}

first_goes() {
	lab_stop "$LAB_AGENT" TERM || die "the first agent ended badly"
	unchanged second first lab_sluice cleanup
	[[ ! -e $PINS/first ]] || die "left of the first: $(find "$PINS/first" | sed -n 1,3p)"
	lab_ask pod tcp "$SECOND" 80 --count 20 >/dev/null || die "the second serves pods no more"
	lab_ask client tcp 10.0.0.10 30090 --count 20 >/dev/null || die "the second serves the outside no more"
	printf 'cleanup of the first leaves the second\n'
}

# first_dies: and comes back to what it left, beside the second one's.
first_dies() {
	local attached
	attached=$(attached_to_eth0)
	lab_stop "$LAB_AGENT" KILL || true
	first lab_agent --xdp off
	[[ $(attached_to_eth0) == "$attached" ]] || die "after a restart of the first $(attached_to_eth0) programs are attached, not $attached"
	both_serve "the first was killed and is back"
}

attached_to_eth0() { lab_in node bpftool net show -j | jq '[.[0].tc[] | select(.devname == "eth0")] | length'; }

# restored PORT: how many hooks the agent with that port of metrics has attached again.
restored() { lab_in node curl -sS -m 5 "http://127.0.0.1:$1/metrics" | awk '/^sluice_hooks_restored_total[{ ]/ { sum += $NF } END { print sum + 0 }'; }

# none_replaced: neither took anything of the other's.
none_replaced() {
	[[ $(restored 10249) == 0 ]] || die "the first agent has attached again: $(tail -n 3 "$LAB_DIR/agent.log")"
	[[ $(restored 10349) == 0 ]] || die "the second agent has attached again: $(tail -n 3 "$LAB_DIR/second.log")"
}

# by HOOKS: both come and go, in either order.
by() {
	lab_up two-sluices
	PINS=$LAB_PINS
	mkdir -p "$PINS"
	lab_backends
	second_service
	lab_in node tc qdisc show dev eth0 >"$LAB_DIR/qdiscs"
	first lab_agent --xdp off
	[[ $(first lab_sluice status -o json | jq -r .packets) == "eth0 $1" ]] || die "the first serves by: $(first lab_sluice status -o json | jq -r .packets)"
	links >"$LAB_DIR/links"
	[[ $(<"$LAB_DIR/links") == *eth0*lb_tc*lb_connect4* ]] || die "attached is: $(<"$LAB_DIR/links")"
	second_starts
	both_serve "two Sluices by $1"
	none_replaced
	second_goes
	second_starts
	first_dies
	none_replaced
	first_goes
	lab_stop "$SECOND_AGENT" TERM || die "the second agent ended badly"
	second lab_sluice cleanup >/dev/null
	diff "$LAB_DIR/qdiscs" <(lab_in node tc qdisc show dev eth0) >&2 || die "a qdisc is left, above"
	lab_down
}

[[ $(uname -r) == 6.1.* ]] || by tcx
SLUICE_WITHOUT=${SLUICE_WITHOUT:+$SLUICE_WITHOUT,}tcx by clsact
