#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the agent leaves to others on its node: a ClusterIP that a local cache holds, addresses that --exclude names, pods'
# sockets under --sockets=host, and other owners' programs, which it names (REL-68, REL-73). And connected UDP sockets learn
# of their backend's removal from the agent only (SEM-46).
set -euo pipefail
# shellcheck source=scripts/lib/scenario.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib/scenario.sh"

DNS=10.96.0.10 DNS6=fd00:10:96::10

frontends() { lab_sluice services -o json | jq -r '.[].frontends[].address' | sort -u; }
served() { prints "^$1\$" frontends; }
not_served() { ! served "$1"; }
asked() { lab_ask "$@" --count 20 2>&1 | sort -u; }

# wants WHAT COMMAND...: checks that COMMAND succeeds within five seconds.
wants() {
	lab_wait 5 "${@:2}" || die "$1: not so; frontends: $(frontends | tr '\n' ' ')"
	printf '%s\n' "$1"
}

lab_up beside
lab_backends

# A cache on the node, as NodeLocal DNSCache sets it up: the ClusterIP on a device of the node, and a server at it.
lab_agent --xdp off --exclude 203.0.113.0/24
wants "the ClusterIP is served" served "$DNS"
wants "what --exclude names is not" not_served 203.0.113.80
ip -n "$LAB-node" address add "$DNS/32" dev lo
wants "a ClusterIP that the node holds is left alone" not_served "$DNS"
wants "that of the other family is served still" served "$DNS6"
lab_start node cache.log python3 "$SLUICE_ROOT/scripts/lib/backend.py" cache 53 53
lab_wait 5 lab_ask node udp "$DNS" 53
for who in node pod; do
	answers=$(asked "$who" udp "$DNS" 53)
	[[ $(awk '{ print $2 }' <<<"$answers" | sort -u) == cache ]] || die "$who asked the cache and heard: $answers"
done
printf 'node and pod are answered by the cache\n'
lab_stop "$LAB_STARTED" KILL || true
ip -n "$LAB-node" address del "$DNS/32" dev lo
wants "served again when the cache is gone" served "$DNS"

# Another owner's program behind ours.
if [[ -z ${SLUICE_WITHOUT:-} ]]; then
	[[ $(lab_sluice status -o json | jq -r .others) == "" ]] || die "a hook neighbour is there: $(lab_sluice status -o json | jq -r .others)"
fi

# A socket that stays connected to a backend which is removed: ended by a BPF program, or by sock_diag if the kernel has no
# such program.
if prints 'UDP sockets.*not ended' lab_sluice status; then
	printf 'this kernel cannot end sockets: nothing to see\n'
else
	for who in node pod; do
		lab_start "$who" "connected-$who.log" python3 "$SLUICE_ROOT/tests/net/lib/connected_udp.py" "$DNS" 53
	done
	for who in node pod; do
		lab_wait 5 grep -q '^answered' "$LAB_DIR/connected-$who.log" || die "$who: no answer: $(cat "$LAB_DIR/connected-$who.log")"
	done
	sed -i 's/ready: true, serving: true/ready: false, serving: false/' "$LAB_MANIFESTS/dns-endpoints.yaml"
	for who in node pod; do
		lab_wait 5 grep -q '^error' "$LAB_DIR/connected-$who.log" || die "$who got no error: $(cat "$LAB_DIR/connected-$who.log")"
		printf '%s: %s\n' "$who" "$(tail -n 1 "$LAB_DIR/connected-$who.log")"
	done
fi

# Service meshes and VM runtimes need the ClusterIP on the wire.
lab_stop "$LAB_AGENT" || true
lab_agent --xdp off --sockets host --pod-devices pod
before=$(lab_sluice status -o json | jq '.outcomes.socket_translated')
lab_ask pod tcp 10.96.0.80 80 --count 10 >/dev/null
[[ $(lab_sluice status -o json | jq '.outcomes.socket_translated') == "$before" ]] || die "a pod's socket was translated"
[[ $(lab_sluice status -o json | jq '.outcomes | .new_from_pod + .new_hairpin') == 10 ]] || die "a pod's packets were not"
[[ $(lab_sluice status -o json | jq -r .sockets) == *"hooks (host)" ]] || die "status: $(lab_sluice status)"
printf 'with --sockets host the packets of pods are served, their sockets left alone\n'
