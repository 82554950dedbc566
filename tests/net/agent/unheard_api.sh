#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An agent that starts while the API server does not reply: what an earlier agent published about the node (its zone, the
# pods' address ranges) stays unchanged, whatever kernel notifications and scrapes the agent gets meanwhile (REL-30). It
# connects directly although the environment names a proxy, and says so once (REL-180).
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"
# shellcheck source=tests/net/lib/silent_api.sh
source "$SLUICE_ROOT/tests/net/lib/silent_api.sh"

scrape() { lab_in node curl -fsS -o "$LAB_DIR/metrics" -m 5 http://127.0.0.1:10249/metrics; }
# The second scrape at the earliest: the first one starts the count.
flows_counted() { scrape && grep -q '^sluice_flow_count_age_seconds' "$LAB_DIR/metrics"; }
published() {
	bpftool -j map dump pinned "$LAB_PINS"/v*/maps/lb_node |
		jq -c '.[0].formatted.value | {zone, local_detection4: .policy.local_detection4, local_detection6: .policy.local_detection6}'
}

lab_up unheard
lab_backends
lab_agent --xdp off --sockets off
before=$(published)
[[ $before == *zone-a* && $before == *RANGE* ]] || die "the node is not published: $before"
lab_stop "$LAB_AGENT" || true

silent_server
silent_kubeconfig
lab_start node again.log env HTTPS_PROXY=http://192.0.2.1:3128 "$SLUICE" agent --kubeconfig "$LAB_DIR/agent.conf" --node node --devices "$LAB_DEVICES" --xdp off --sockets off \
	--cgroup "$LAB_CGROUP" --pins "$LAB_PINS" --metrics 127.0.0.1:10249
lab_wait 60 grep -q accepted "$LAB_DIR/server.log" || die "the agent connects to no server: $(cat "$LAB_DIR/again.log")"
[[ $(grep -c 'the agent uses no HTTP proxy (HTTPS_PROXY)' "$LAB_DIR/again.log") == 1 ]] || die "the proxy: $(cat "$LAB_DIR/again.log")"
lab_wait 30 flows_counted || die "no scrape shows the flow tables: $(cat "$LAB_DIR/again.log")"
lab_in node ip address add 10.99.0.1/32 dev lo
sleep 2
[[ $(published) == "$before" ]] || die "the agent published what it does not know: before $before, now $(published)"
lab_ask client tcp 10.0.0.10 30080 --count 1 >/dev/null || die "nothing is served"
printf 'published while the API is silent: %s\n' "$before"
