#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An agent whose API server accepts connections and never replies, in parallel with four busy processes: its log says every
# few seconds what it waits for. An operator whose agent does not become ready has only the log. However long that takes, the agent
# is not ready and serves nothing (REL-78).
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"
# shellcheck source=tests/net/lib/silent_api.sh
source "$SLUICE_ROOT/tests/net/lib/silent_api.sh"

BUSY=()

busy_processes() {
	local at
	for at in 1 2 3 4; do
		while :; do :; done &
		BUSY[at]=$!
	done
}

lab_up slow
trap 'kill "${BUSY[@]}" 2>/dev/null || true; lab_down' EXIT
silent_server
silent_kubeconfig
busy_processes
lab_start node agent.log "$SLUICE" agent --kubeconfig "$LAB_DIR/agent.conf" --node node --devices eth0 --xdp off --sockets off \
	--pins "$LAB_PINS" --max-flows 16384 --max-unassured 16384
lab_wait 300 grep -q accepted "$LAB_DIR/server.log" || die "the agent connects to no server: $(cat "$LAB_DIR/agent.log")"
# The time does not matter: a machine too busy to run the agent delays its timers, too.
lab_wait 300 grep -q 'not ready after [0-9]* s: waiting for the API.s list of services' "$LAB_DIR/agent.log" ||
	die "the agent does not say what it waits for: $(cat "$LAB_DIR/agent.log")"
lab_wait 300 eval '(($(grep -c "not ready after" "$LAB_DIR/agent.log") >= 2))' || die "the agent says it once only"
health=$(lab_in node curl -s -o "$LAB_DIR/healthz" -w '%{http_code}' -m 60 http://127.0.0.1:10256/healthz) || die "no answer from /healthz"
[[ $health == 503 ]] || die "REL-78: /healthz says $health before the first list"
[[ $(lab_sluice services -o json | jq length) == 0 ]] || die "REL-78: services before the first list: $(lab_sluice services)"
printf 'said: %s\n' "$(grep -m 1 'not ready after' "$LAB_DIR/agent.log")"
