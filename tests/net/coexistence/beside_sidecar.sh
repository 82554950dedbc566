#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A sidecar in a pod, to whose port the pod's own rules redirect all outgoing TCP: the pod's requests get the same replies
# and errors with it as without, and none is lost, whether pods are served by socket hooks or by packets (REL-73, SEM-160).
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

# verdict ADDRESS PORT: the error of a request. Its duration does not matter, but a refusal must not be a timeout.
verdict() { lab_ask pod tcp "$1" "$2" --timeout 5 2>&1 | sed 's/^1 failed: //' || true; }

# answers ADDRESS: checks that all replies arrive; sets OWN to the number of replies from the pod itself.
answers() {
	local got
	got=$(lab_ask pod tcp "$1" 80 --count "$COUNT" --json) || die "not all requests to $1 were answered: $got"
	[[ $(jq '.answers | add' <<<"$got") == "$COUNT" ]] || die "$1: $got"
	OWN=$(jq '.answers["web-pod"] // 0' <<<"$got")
}

# leaving SCOPE: how many of the requests left the pod. Connections that socket hooks send to the pod itself do not.
leaving() { [[ $1 == all ]] && printf '%d\n' $((COUNT - OWN)) || printf '%d\n' "$COUNT"; }

# through PATTERN COUNT: checks that the sidecar saw that many connections to such destinations.
through() {
	(($(grep -c -- "$1" "$LAB_DIR/sidecar.log") == $2)) || die "not $2 to $1 by the sidecar: $(sort "$LAB_DIR/sidecar.log" | uniq -c)"
}

# beside_sidecar SCOPE DESTINATION DESTINATION6 REFUSAL: checks that under --sockets SCOPE the sidecar sees these
# destinations; REFUSAL is the client's error for a refused connection, which with packets the sidecar accepts before it
# knows.
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
# The socket hooks choose a backend before the first packet is sent: the sidecar sees the backend.
beside_sidecar all '^10\.244\.[1-4]\.10 8080$' '^fd00:10:244:[1-4]::10 8080$' "Connection refused"
# The mesh sees the service's address, and its own connections are served like the pod's.
beside_sidecar host "^$WEB 80\$" "^$WEB6 80\$" "Connection reset by peer"
grep -qx "$WEB 81 refused" "$LAB_DIR/sidecar.log" || die "the sidecar was not refused: $(tail -n 1 "$LAB_DIR/sidecar.log")"
