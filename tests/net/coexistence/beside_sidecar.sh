#!/bin/bash
# A sidecar in a pod, to whose port the pod's own rules redirect all TCP that leaves: what the pod asks gets the same answers
# and verdicts with it as without, and nothing is lost, whether socket hooks serve pods or packets do (REL-73).
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

SIDECAR_PORT=15001 MARK=1337 COUNT=50
WEB=10.96.0.80 WEB6=fd00:10:96::80 DNS=10.96.0.10

redirected() {
	lab_in pod nft "table inet mesh { chain out { type nat hook output priority -100; meta mark $MARK return;
		oif != lo meta l4proto tcp redirect to :$SIDECAR_PORT; }; }"
	lab_start pod sidecar.log python3 "$SLUICE_ROOT/tests/net/lib/sidecar.py" "$SIDECAR_PORT" "$MARK"
	SIDECAR=$LAB_STARTED
	lab_wait 5 lab_in pod bash -c "exec 3<>/dev/tcp/127.0.0.1/$SIDECAR_PORT" || die "no sidecar: $(cat "$LAB_DIR/sidecar.log")"
	: >"$LAB_DIR/sidecar.log"
}

unredirected() {
	lab_in pod nft delete table inet mesh
	lab_stop "$SIDECAR" KILL || true
}

# verdict ADDRESS PORT: how long it takes is nobody's business, but a refusal is one and no time-out.
verdict() { lab_ask pod tcp "$1" "$2" --timeout 5 2>&1 | sed 's/^1 failed: //' || true; }

# answers ADDRESS: all of them came; in OWN, how many of them from the pod itself.
answers() {
	local got
	got=$(lab_ask pod tcp "$1" 80 --count "$COUNT" --json) || die "not all requests to $1 were answered: $got"
	[[ $(jq '.answers | add' <<<"$got") == "$COUNT" ]] || die "$1: $got"
	OWN=$(jq '.answers["web-pod"] // 0' <<<"$got")
}

# leaving SCOPE: how many of them left the pod. What socket hooks send to the pod itself does not.
leaving() { [[ $1 == all ]] && printf '%d\n' $((COUNT - OWN)) || printf '%d\n' "$COUNT"; }

# through PATTERN COUNT: so many connections to such destinations did the sidecar see.
through() {
	(($(grep -c -- "$1" "$LAB_DIR/sidecar.log") == $2)) || die "not $2 to $1 by the sidecar: $(sort "$LAB_DIR/sidecar.log" | uniq -c)"
}

# beside_sidecar SCOPE DESTINATION DESTINATION6 REFUSAL: under --sockets SCOPE the sidecar sees these destinations; REFUSAL is
# what a client sees of a refused connection, which with packets the sidecar takes before it knows.
beside_sidecar() {
	local scope=$1 what
	lab_agent --xdp off --sockets "$scope" --pod-devices pod
	answers "$WEB"
	answers "$WEB6"
	what=$(verdict "$WEB" 81)
	[[ $what == "Connection refused" ]] || die "without the sidecar, an unknown port: $what"
	redirected
	answers "$WEB"
	through "$2" "$(leaving "$scope")"
	answers "$WEB6"
	through "$3" "$(leaving "$scope")"
	what=$(verdict "$WEB" 81)
	[[ $what == "$4" ]] || die "an unknown port: $what; $(tail -n 1 "$LAB_DIR/sidecar.log")"
	lab_ask pod udp "$DNS" 53 --count "$COUNT" >/dev/null || die "datagrams were lost"
	printf -- '--sockets %s: %s connections through the sidecar, as to %s; an unknown port: %s\n' "$scope" \
		"$(wc -l <"$LAB_DIR/sidecar.log")" "$(head -n 1 "$LAB_DIR/sidecar.log")" "$what"
	unredirected
	answers "$WEB"
	lab_stop "$LAB_AGENT" || true
}

lab_up sidecar
lab_backends
# The socket hooks have chosen before there is a packet: the sidecar sees a backend.
beside_sidecar all '^10\.244\.[1-4]\.10 8080$' '^fd00:10:244:[1-4]::10 8080$' "Connection refused"
# The mesh sees the service's address, and its own connections are served as the pod's.
beside_sidecar host "^$WEB 80\$" "^$WEB6 80\$" "Connection reset by peer"
grep -qx "$WEB 81 refused" "$LAB_DIR/sidecar.log" || die "the sidecar was not refused: $(tail -n 1 "$LAB_DIR/sidecar.log")"
