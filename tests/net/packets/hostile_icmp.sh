#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Hostile ICMP: an off-path host that knows the tuples of all flows sends every ICMP error about both directions of them,
# whole, truncated and nested (docs/threats.md). No flow ends or changes its state or its path MTU, and the node itself
# accepts none of the errors.
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

outcome() { lab_in node curl -fsS http://127.0.0.1:10249/metrics | awk -v name="outcome=\"$1\"" 'index($0, "sluice_outcomes_total") == 1 && index($0, name) { print $2 }'; }
# tuples: all TCP flows with their states.
tuples() { lab_sluice flows -o json | jq -c '[.flows[] | select(.protocol == "TCP") | {client, frontend, backend, source, state, assured}] | sort'; }

lab_up icmp
lab_offload off
lab_backends
lab_agent --xdp native "$@"
lab_keep
lab_wait 10 eval '(($(tuples | jq length) >= 8))' || die "the connections are not there: $(tuples)"
lab_sluice flows -o json | jq .flows >"$LAB_DIR/flows"
before=$(tuples) stack=$(outcome icmp_stack) redirect=$(outcome icmp_redirect)
for _ in 1 2 3; do
	count=$(lab_in worker-b /usr/bin/python3 "$SLUICE_ROOT/tests/net/lib/hostile_icmp.py" "$LAB_DIR/flows")
done
[[ $(tuples) == "$before" ]] || die "flows were $before and are $(tuples)"
(($(outcome icmp_redirect) > redirect)) || die "no error about a flow elsewhere was known as one"
(($(outcome icmp_stack) > stack)) || printf 'no flow goes by the stack here\n'
for family in -4 -6; do
	[[ -z $(ip -n "$LAB-node" "$family" route show cache | grep -w mtu) ]] || die "the node believed a size: $(ip -n "$LAB-node" "$family" route show cache)"
done
lab_ask client tcp 10.0.0.10 30080 --count 20 >/dev/null || die "new connections fail"
sleep 1
lab_keep_ends
printf 'hostile ICMP: %d errors a round, about %d flows\n' "$count" "$(jq length "$LAB_DIR/flows")"
