#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# REL-130, REL-131: the kernel refuses one program after another, by its verifier, and the agent serves with what it accepts:
# sockets by packets, XDP by tc, with fewer features. It says so once in the log, in status, in a metric and by `check`; a
# restart changes nothing that is attached. Only if nothing is left does it not start.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

OBJECT=$(dirname "$SLUICE")/bpf/lb.o
WHOLE=$SLUICE
WORDS="invalid write to stack R10 off=8 size=8"

# spoil WHAT...: makes the agent of the next start one whose programs (or parts of programs) WHAT the verifier refuses.
spoil() {
	python3 "$SLUICE_ROOT/tests/net/lib/refused_program.py" "$WHOLE" "$OBJECT" "$LAB_DIR/spoiled" "$@" || die "cannot spoil $*"
	SLUICE=$LAB_DIR/spoiled
}

serving() { grep -q 'serving; services:' "$LAB_DIR/agent.log"; }
health() { lab_in node curl -s -o /dev/null -w '%{http_code}' -m 2 http://127.0.0.1:10256/healthz; }
without() { lab_sluice status -o json | jq -r .without; }
links() { lab_sluice status -o json | jq -c .links; }

# starts: starts the spoiled agent, beside what an earlier one left.
starts() {
	rm -f "$LAB_DIR/agent.log"
	lab_launch --pod-devices pod --xdp native "$@"
	lab_wait 240 serving || { cat "$LAB_DIR/agent.log" && die "it does not serve"; }
}

ends() { lab_stop "$LAB_AGENT"; }

# asks WHO PROTOCOL ADDRESS PORT [OPTION...]: requests of which none may fail.
asks() { lab_ask "$1" "$2" "$3" "$4" --count 6 --timeout 2 "${@:5}" >"$LAB_DIR/asked" 2>&1 || { cat "$LAB_DIR/asked" && die "$WHAT: $1 gets no answers by $2 from $3"; }; }
fails() { ! lab_ask "$1" "$2" "$3" "$4" --count 1 --timeout 1 >/dev/null 2>&1 || die "$WHAT: $1 gets answers by $2 from $3"; }

pods_are_served() {
	asks pod tcp 10.96.0.80 80
	asks pod tcp fd00:10:96::80 80
	asks pod udp 10.96.0.10 53
	asks pod udp fd00:10:96::10 53 --keep-socket
}
clients_are_served() {
	asks client tcp 10.0.0.10 30080
	asks client tcp fd00:10::10 30080
}

# says PROGRAM FEATURES EFFECT: what the log says once, and status and metric as long as the agent runs.
says() {
	local said
	said=$(grep -c "the kernel refuses the program $1 ($WORDS)" "$LAB_DIR/agent.log" || true)
	((said == 1)) || { cat "$LAB_DIR/agent.log" && die "$WHAT: the log says it $said times"; }
	[[ $(without) == *"$3"* ]] || die "$WHAT: status says '$(without)'"
	lab_in node curl -fsS http://127.0.0.1:10249/metrics >"$LAB_DIR/metrics"
	grep -qF "sluice_programs_refused{program=\"$1\",without=\"$2\"} 1" "$LAB_DIR/metrics" || die "$WHAT: $(grep refused "$LAB_DIR/metrics")"
}

# checks CODE PROGRAM WORDS: what `check` says, which must end with CODE.
checks() {
	local code=0
	lab_in node "$SLUICE" check --manifests "$LAB_MANIFESTS" --node node --devices eth0 --cgroup "$LAB_CGROUP" --pins "$LAB_PINS/check" \
		--pod-devices pod --xdp native --health off --metrics off -o json >"$LAB_DIR/check" || code=$?
	((code == $1)) || { jq . "$LAB_DIR/check" && die "$WHAT: check ended with $code, not $1"; }
	[[ $(jq -r --arg what "program $2" '.findings[] | select(.what == $what and .verdict == "warning") | .found' "$LAB_DIR/check") == *"($WORDS)"*"$3"* ]] ||
		{ jq '.findings[] | select(.what | startswith("program"))' "$LAB_DIR/check" && die "$WHAT: check does not say '$3'"; }
}

# reads_storage: whether this kernel lets programs iterate over sockets' storage at all.
reads_storage() {
	lab_in node "$SLUICE" check --manifests "$LAB_MANIFESTS" --node node --devices eth0 --cgroup "$LAB_CGROUP" --pins "$LAB_PINS/check" \
		--health off --metrics off -o json | jq -e '.findings[] | select(.what == "feature storage-iterator") | .found | startswith("present")' >/dev/null
}

# refused PROGRAM EFFECT COMMAND...: the kernel refuses one program; COMMAND asks for what must be served nevertheless.
refused() {
	WHAT="without $1"
	local command
	spoil "$1"
	starts
	says "$1" "" "$1 refused: $2"
	for command in "${@:3}"; do "$command"; done
	ends
	printf '%s: %s\n' "$WHAT" "$(grep -o 'sockets: .*' "$LAB_DIR/agent.log")"
	rm -rf "$LAB_PINS"
}

lab_up refused
lab_offload off
lab_backends
lab_guest

# ---- Without loss: who only saves time, watches or ends sockets; sockets whose pods are served by packets. ----
refused lb_xdp "tc serves alone" pods_are_served clients_are_served
refused lb_xdp_sent "frames that devices drop are not noticed" pods_are_served clients_are_served
refused lb_xdp_refused "frames that devices drop are not noticed" clients_are_served
for program in lb_connect4 lb_connect6 lb_sendmsg4 lb_sendmsg6 lb_recvmsg4 lb_recvmsg6; do
	refused "$program" "$([[ $program == *connect* ]] && echo "connect" || echo "unconnected UDP") is left to the packets' hooks" \
		pods_are_served clients_are_served
done
refused lb_peername4 "getpeername shows backends" pods_are_served
refused lb_peername6 "getpeername shows backends" pods_are_served
! reads_storage || refused lb_count_sockets "the memory of sockets' storage has no limit" pods_are_served clients_are_served

# ---- Features: all programs do without. ----
WHAT="without the fast path of tc"
spoil lb_choices+0
starts
says lb_tc_in tc-fastpath "tc-fastpath refused: slow path"
pods_are_served
clients_are_served
checks 0 lb_tc_in "it is loaded without tc-fastpath"
ends
printf '%s\n' "$WHAT"
rm -rf "$LAB_PINS"
WHAT="without the fast path of XDP"
spoil lb_choices+1
starts
says lb_xdp xdp-fastpath "xdp-fastpath refused: slow path"
[[ $(lab_sluice status -o json | jq -r .packets) == *native* ]] || die "XDP is left out"
clients_are_served
ends
printf '%s\n' "$WHAT"
rm -rf "$LAB_PINS"
WHAT="without verdicts at egress"
spoil lb_choices+2
starts
says lb_tc_out egress-verdicts "egress-verdicts refused: "
pods_are_served
clients_are_served
ends
printf '%s\n' "$WHAT"
rm -rf "$LAB_PINS"
WHAT="without the fast path of tc, and conntrack"
spoil lb_choices+0 lb_config+22
starts
says lb_tc_in "tc-fastpath, skb-sums, csum-ipv6, fib-mark, fib-source, egress-verdicts, ct-lookup" "ct-lookup refused: not asked"
grep -q "lb_tc_in is refused without ct-lookup, too: $WORDS" "$LAB_DIR/agent.log" || die "$WHAT: an attempt's words are not in the log"
pods_are_served
clients_are_served
ends
printf '%s\n' "$WHAT"
rm -rf "$LAB_PINS"

# The iterator that destroys sockets, by the one that only finds them.
WHAT="without lb_udp_destroy"
spoil lb_udp_destroy
starts
[[ $(without) == *"socket-destroy"* ]] || die "$WHAT: status says '$(without)'"
pods_are_served
ends
rm -rf "$LAB_PINS"

# ---- With loss: what is left serves, and the node says that it is not whole. ----
refused lb_pod_in "pods' devices are not served" pods_are_served clients_are_served
WHAT="without lb_tc_out"
spoil lb_tc_out
starts
says lb_tc_out "" "lb_tc_out refused: uplinks are not served"
pods_are_served
[[ $(health) == 503 ]] || die "$WHAT: /healthz is $(health), so load balancers send what is not served"
[[ $(lab_in node curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:10256/livez) == 200 ]] || die "$WHAT: /livez is not 200"
fails client tcp 10.0.0.10 30080
checks 0 lb_tc_out "it is left out: uplinks are not served"
# A restart attaches nothing anew.
before=$(links)
ends
starts
[[ $(links) == "$before" ]] || die "$WHAT: a restart changes the links from $before to $(links)"
! grep -q reattached "$LAB_DIR/agent.log" || die "$WHAT: a restart attaches again"
sleep 8
! grep -q reattached "$LAB_DIR/agent.log" || die "$WHAT: it attaches again and again"
ends
printf '%s\n' "$WHAT"
rm -rf "$LAB_PINS"

# Programs of an earlier agent, which the kernel has accepted, stay where the new agent's are refused.
WHAT="after an agent with lb_tc_in and lb_connect4"
SLUICE=$WHOLE
lab_agent --pod-devices pod --xdp native
ends
spoil lb_tc_in lb_connect4
starts
[[ $(lab_sluice status -o json | jq -r .packets) == *"earlier program"* ]] || die "$WHAT: $(lab_sluice status)"
pods_are_served
clients_are_served
[[ $(health) == 200 ]] || die "$WHAT: /healthz is $(health)"
ends
printf '%s\n' "$WHAT"
rm -rf "$LAB_PINS"

# ---- Nothing is left. ----
WHAT="without any way to serve"
spoil lb_connect4 lb_connect6 lb_tc_in lb_pod_out
code=0
lab_in node timeout 240 "$SLUICE" agent --manifests "$LAB_MANIFESTS" --node node --devices eth0 --pod-devices pod --cgroup "$LAB_CGROUP" \
	--pins "$LAB_PINS" --health off --metrics off >"$LAB_DIR/agent.log" 2>&1 || code=$?
((code == 1)) || { cat "$LAB_DIR/agent.log" && die "$WHAT: it ended with $code"; }
[[ $(grep -c "the kernel refuses every program by which this node could be served, first lb_connect4 ($WORDS)" "$LAB_DIR/agent.log") == 1 ]] ||
	{ cat "$LAB_DIR/agent.log" && die "$WHAT: it does not say so"; }
[[ ! -e $LAB_PINS ]] || die "$WHAT: it leaves pins"
printf '%s\n' "$WHAT"
